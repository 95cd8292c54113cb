"""What users put into a store is nowhere in the clear, and no ciphertext can be moved."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import FirestoreSessionService, InvalidInputError, Store, StoredDataError
from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.names import object_name
from gcp_adk_store.codec.writes import Document, Write
from gcp_adk_store.encryption.artifacts import SealedArtifactObjects
from gcp_adk_store.encryption.documents import SealedDocuments, SealedReads
from gcp_adk_store.encryption.encryption import Encryption
from gcp_adk_store.encryption.fields import CONTENT, OF_ONE_LIFE, Form, Places, opened
from gcp_adk_store.encryption.objects import SealedPayloadObjects
from gcp_adk_store.encryption.sealing import DataKey, NotForHereError, OtherKeyError, from_bytes, to_bytes
from gcp_adk_store.kernel.ports import Documents, Objects, Reads
from gcp_adk_store.model.keys import ArtifactKey, UserKey
from gcp_adk_store.testing.emulators import Emulator
from tests.encryption.conftest import LIMITS, envelope
from tests.erasure.conftest import APP, FILLED, OTHER, PLACES, USER, canary, erase, fill, said
from tests.support.traces import in_folder, on_emulators, traces

IN_CLEAR = {
    *("label", "label-name", "key-name", "user-key-name", "fork", "artifact", "first-version"),
    *("user-artifact", "metadata", "display-name", "file-name", "upload"),
}
"""Labels are for queries, names of state keys and ids are names, artifacts are for models and browsers."""

KEY = DataKey(b"12345678", b"s" * 32)
OTHER_KEY = DataKey(b"12345678", b"t" * 32)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3),
    max_leaves=5,
)
THERE: Any = {"app_name": APP, "user_id": USER, "session_id": "s"}


async def test_a_raw_scan_finds_content_without_encryption_and_none_with_it(tmp_path: Path) -> None:
    """Canaries lie in every place that a user can fill; all but those that stay clear are encrypted."""
    for name, how in (("plain", None), ("sealed", envelope())):
        async with Store.local(tmp_path / name, **FILLED, encryption=how) as store:
            await fill(store)
    plain, sealed = in_folder(tmp_path / "plain"), in_folder(tmp_path / "sealed")

    assert [] == [place for place in PLACES if not traces(plain, canary(place))]
    assert sorted(IN_CLEAR) == sorted(place for place in PLACES if traces(sealed, canary(place)))


@pytest.mark.emulators
async def test_nothing_is_in_the_clear_on_the_emulators_either(
    project: str, adk_store_bucket: str, storage_emulator: Emulator
) -> None:
    """Firestore and Cloud Storage get ciphertext and give it back; keys lie in a database of their own."""
    wrapper: Any = envelope().key
    place: Any = {"project": project, "bucket": adk_store_bucket, **FILLED}
    async with Store.connect(**place, encryption=envelope(wrapper)) as store:
        await fill(store)
        expected = await store.sessions.get_session(**THERE)
    stored = on_emulators(project, adk_store_bucket, storage_emulator.address)
    async with Store.connect(**place, encryption=envelope(wrapper)) as other:
        assert expected == await other.sessions.get_session(**THERE)
        _, receipt = await erase(other)

    assert sorted(IN_CLEAR) == sorted(place for place in PLACES if traces(stored, canary(place)))
    assert not [name for name in stored if name.startswith("adk_keys/")]
    assert 1 == receipt.erased["keys"].count


@pytest.fixture(scope="module")
def filled() -> Iterator[Store]:
    """An encrypted store in memory that two users filled."""
    store = Store.local(":memory:", session_limits=LIMITS, encryption=envelope())

    async def make() -> None:
        await fill(store)
        await fill(store, OTHER, "another-owner")

    asyncio.run(make())
    yield store
    asyncio.run(store.close())


async def test_every_collection_is_declared_with_or_without_content(filled: Store) -> None:
    """A new collection has to say which of its fields hold content."""
    seen = set()
    documents = _stored(filled)
    for root in ("adk_apps/app", "adk_owners/canary-owner", "adk_pushes/t1"):
        seen |= {each.path.split("/")[-2] for each in await documents.query(root, "", all_descendants=True)}

    clear = {"deletions", "restores", "erasures", "pushes", "keys", "doctor", "owners"}

    assert {name.removeprefix("adk_") for name in seen} <= CONTENT.keys() | clear
    assert not CONTENT.keys() & clear


class Sealed(NamedTuple):
    """A ciphertext and its place."""

    document: Document
    field: str
    inner: str | int | None
    data: bytes

    def within(self, data: bytes) -> Document:
        """Return the document with other *data* in this place."""
        fields: dict[str, Any] = dict(self.document.fields)
        if self.inner is None:
            fields[self.field] = data
        else:
            kind = type(fields[self.field])
            held = fields[self.field] = kind(fields[self.field])
            held[self.inner] = data
        return Document(path=self.document.path, fields=fields, update_time="", read_time=0.0)

    def of(self, fields: Any) -> Any:
        """Return what is in this place."""
        return fields[self.field] if self.inner is None else fields[self.field][self.inner]


def _stored(store: Store) -> Documents:
    stored = store.sessions.storage.as_stored
    assert stored is not None
    return stored


def _encryption(store: Store) -> Encryption:
    encryption = store.sessions.storage.encryption
    assert encryption is not None
    return encryption


def _ciphertexts(places: Places, document: Document) -> Iterator[Sealed]:
    for name in places.forms(places.collection(document.path)):
        match document.fields.get(name):
            case bytes() as data:
                yield Sealed(document, name, None, data)
            case dict() as values:
                yield from (Sealed(document, name, inner, data) for inner, data in values.items())
            case list() as items:
                yield from (Sealed(document, name, at, data) for at, data in enumerate(items))


def _epoch_of(found: list[Document | None]) -> str:
    (head,) = found
    assert head is not None
    return str(head.fields["epoch"])


async def test_every_ciphertext_is_refused_in_every_other_place(filled: Store) -> None:
    """Of one user and of two: only the order within a tail is left to the hash chain."""
    store = filled
    user = "adk_apps/app/adk_users/canary-user"
    rare = (
        f"{user}/adk_chunks/c",
        f"{user}/adk_memories/head/adk_shards/e-0",
        "adk_owners/o/adk_tasks/t/adk_pieces/p",
    )
    vectors = Write(path=f"{user}/adk_memories/head/adk_vectors/e-1", fields={"body": b"rows"})
    writes = [*(Write(path=path, fields={"body": path.encode()}) for path in rare), vectors]
    fresh = Write(
        path=f"{user}/adk_memories/head",
        fields={},
        mask=[],
        union={"fresh": [b"row"]},
        life=_epoch_of(await _stored(store).get([f"{user}/adk_memories/head"])),
    )
    await store.sessions.storage.documents.commit([*writes, fresh])
    places = _encryption(store).places
    found: list[Document] = []
    for root in (
        "adk_apps/app",
        "adk_owners/canary-owner",
        "adk_owners/another-owner",
        "adk_owners/o",
        "adk_pushes/t1",
    ):
        found += await _stored(store).query(root, "", all_descendants=True)
    found += [each for each in await _stored(store).get(["adk_apps/app"]) if each is not None]
    sealed = [each for document in found for each in _ciphertexts(places, document)]
    scopes = {places.scope(each.document.path) for each in sealed}
    keys = await _encryption(store).keys.to_read(list(scopes))
    accepted, tried = [], 0

    for target in sealed:
        path = target.document.path
        collection = places.collection(path)
        life = str(target.document.fields["epoch"]) if collection in OF_ONE_LIFE else ""
        forms = {target.field: places.forms(collection)[target.field]}
        key = keys[places.scope(path)]

        def read(data: bytes, forms: dict[str, Form] = forms, target: Sealed = target) -> Any:
            document = opened(target.within(data), forms, key, life, accept_plaintext=False)  # noqa: B023
            return target.of(document.fields)

        assert not isinstance(read(target.data), Foreign)
        for other in sealed:
            in_one_union = forms[target.field] is Form.UNION and (path, target.field) == (
                other.document.path,
                other.field,
            )
            if other.data != target.data and not in_one_union:
                tried += 1
                if not isinstance(read(other.data), Foreign):
                    accepted.append((target[1:3], path, other[1:3], other.document.path))

    assert [] == accepted
    assert tried > 2000
    assert CONTENT.keys() == {places.collection(each.document.path) for each in sealed}
    assert {"fresh", "inbox", "initial", "title"} <= {each.field for each in sealed}


async def test_every_payload_is_refused_under_every_other_name(filled: Store) -> None:
    """Objects of the bucket are bound to their names."""
    in_bucket = filled.sessions.storage.payloads.in_bucket
    assert in_bucket is not None
    sealing: Any = in_bucket._objects
    names = await sealing.names("adk-payloads/", delimiter=None)
    data = {name: (await sealing.inner.read(name, generation=None))[0] for name in names}

    assert len(names) >= 8
    for name in names:
        assert await sealing._opened(name, data[name])
        for other in names:
            if other != name:
                with pytest.raises(StoredDataError):
                    await sealing._opened(name, data[other])


async def test_events_swapped_within_a_tail_are_found_by_verify(store: Store) -> None:
    """Encryption does not bind their order; the hash chain does."""
    session = await store.sessions.create_session(**THERE)
    for text in ("one", "two"):
        await store.sessions.append_event(session, said(text))
    path = "adk_apps/app/adk_users/canary-user/adk_sessions/s"
    (document,) = await _stored(store).get([path])
    assert document is not None
    tail: Any = document.fields["tail"]
    swap = Write(path=path, fields={"tail": tail[::-1]}, mask=[("tail",)])
    before = await store.sessions.verify_session(**THERE)
    await _stored(store).commit([swap])

    proof = await store.sessions.verify_session(**THERE)

    assert before.broken is None
    assert proof.broken is not None


async def _put(store: Store, fields: dict[str, Any]) -> None:
    path = "adk_apps/app/adk_users/canary-user/adk_sessions/s"
    write = Write(path=path, fields=fields, mask=[(name,) for name in fields])
    await _stored(store).commit([write])


@pytest.fixture
async def made(store: Store) -> Store:
    """A store with a session of two events."""
    session = await store.sessions.create_session(**THERE, state={"a": 1})
    for text in ("one", "two"):
        await store.sessions.append_event(session, said(text, delta={"b": text}))
    return store


@pytest.mark.parametrize(
    "fields",
    [{"tail": ["{}", "{}"]}, {"state": {"a": 2}}, {"title": "in the clear"}],
    ids=["tail", "state", "title"],
)
async def test_plaintext_is_refused(made: Store, fields: dict[str, Any]) -> None:
    """Whoever can write the database cannot put words into a conversation."""
    await _put(made, fields)

    read = made.sessions.get_session_info if "title" in fields else made.sessions.get_session
    with pytest.raises(StoredDataError, match="plaintext"):
        await read(**THERE)


async def test_a_changed_ciphertext_is_refused(made: Store) -> None:
    """One bit is enough; the message names the field, never content."""
    (document,) = await _stored(made).get(["adk_apps/app/adk_users/canary-user/adk_sessions/s"])
    assert document is not None
    tail: Any = document.fields["tail"]
    await _put(made, {"tail": [tail[0], tail[1][:-1] + bytes([tail[1][-1] ^ 1])]})

    with pytest.raises(StoredDataError, match=r"tail\[1\] is ciphertext that was changed"):
        await made.sessions.get_session(**THERE)


async def test_a_session_made_anew_refuses_what_the_earlier_one_held(made: Store) -> None:
    """Content is bound to the epoch, too."""
    path = "adk_apps/app/adk_users/canary-user/adk_sessions/s"
    (before,) = await _stored(made).get([path])
    assert before is not None
    await made.sessions.delete_session(**THERE)
    session = await made.sessions.create_session(**THERE)
    await made.sessions.append_event(session, said("three"))

    await _put(made, {"state": before.fields["state"]})

    with pytest.raises(StoredDataError, match="another place"):
        await made.sessions.get_session(**THERE)


async def test_a_migration_reads_plaintext_and_writes_ciphertext(tmp_path: Path) -> None:
    """With accept_plaintext, sessions from before go on; without it they are refused."""
    async with Store.local(tmp_path, session_limits=LIMITS) as plain:
        session = await plain.sessions.create_session(**THERE, state={"a": 1, "user:b": "x" * 300})
        for number in range(6):
            await plain.sessions.append_event(session, said(f"before {number} " + "x" * 300, data=b"p" * 200))
        expected = await plain.sessions.get_session(**THERE)
    wrapper: Any = envelope().key
    async with Store.local(
        tmp_path, session_limits=LIMITS, encryption=envelope(wrapper, accept_plaintext=True)
    ) as store:
        found = await store.sessions.get_session(**THERE)
        assert expected == found
        assert found is not None
        for number in range(6):
            await store.sessions.append_event(found, said(f"after {number} " + "x" * 300))
        whole = await store.sessions.get_session(**THERE)
        assert whole is not None
        assert 12 == len(whole.events)
    async with Store.local(tmp_path, session_limits=LIMITS, encryption=envelope(wrapper)) as store:
        with pytest.raises(StoredDataError, match="plaintext"):
            await store.sessions.get_session(**THERE)


def test_the_keys_need_a_database_of_their_own() -> None:
    """A backup of the sessions would hold the keys."""
    with pytest.raises(InvalidInputError, match="database of its own"):
        FirestoreSessionService(encryption=envelope(keys_database="sessions"), database="sessions")


@pytest.mark.parametrize(
    ("port", "sealed"),
    [
        (Documents, SealedDocuments),
        (Reads, SealedReads),
        (Objects, SealedPayloadObjects),
        (Objects, SealedArtifactObjects),
    ],
)
def test_nothing_passes_the_encryption_by_itself(port: type[Any], sealed: type[Any]) -> None:
    """Each name of a port is encrypted, or named as one without content; any other is missing."""
    names = {name for name in dir(port) if not name.startswith("_")}
    own = {name for name in dir(sealed) if name in names}

    assert names == own | sealed.passed_on
    assert not own & sealed.passed_on
    with pytest.raises(AttributeError, match="neither has nor passes on 'patch'"):
        object.__new__(sealed).patch  # noqa: B018


@given(VALUES | st.binary())
def test_a_value_comes_back_with_its_type(value: Any) -> None:
    """A float stays a float, and bytes stay bytes."""
    found = from_bytes(KEY.open(KEY.seal(to_bytes(value), b"here"), b"here"))
    equal = from_bytes(KEY.open_equal(KEY.seal_equally(to_bytes(value), b"here"), b"here"))

    assert (type(value), repr(value)) == (type(found), repr(found)) == (type(equal), repr(equal))


@given(st.binary())
def test_equal_data_are_equal_only_where_that_is_asked_for(data: bytes) -> None:
    """And only in one place."""
    assert KEY.seal_equally(b"x" + data, b"here") == KEY.seal_equally(b"x" + data, b"here")
    assert KEY.seal_equally(b"x" + data, b"here") != KEY.seal_equally(b"x" + data, b"there")
    assert KEY.seal(data, b"here") != KEY.seal(data, b"here")


@given(st.binary(max_size=80))
def test_anything_else_is_refused(data: bytes) -> None:
    """Nothing that was not encrypted is taken for data."""
    for read in (KEY.open, KEY.open_equal):
        with pytest.raises(NotForHereError):
            read(data, b"here")
        with pytest.raises(NotForHereError):
            read(KEY.seal(data, b"here")[:9] + data, b"here")


def test_both_ciphers_refuse_another_place_another_key_and_each_other() -> None:
    """Each is bound to all of it."""
    random, equal = KEY.seal(b"data", b"here"), KEY.seal_equally(b"data", b"here")

    for read, sealed in (
        (KEY.open, equal),
        (KEY.open_equal, random),
        (OTHER_KEY.open, random),
        (OTHER_KEY.open_equal, equal),
    ):
        with pytest.raises(NotForHereError):
            read(sealed, b"here")
    with pytest.raises(NotForHereError):
        KEY.open(random, b"there")
    with pytest.raises(OtherKeyError):
        DataKey(b"another.", b"s" * 32).open(random, b"here")


@pytest.mark.parametrize(
    ("path", "kind", "of"),
    [
        ("adk_apps/a", "app", "adk_apps/a"),
        ("adk_apps/a/adk_chunks/c", "app", "adk_apps/a"),
        ("adk_apps/a/adk_users/u", "user", "adk_apps/a/adk_users/u"),
        ("adk_apps/a/adk_users/u/adk_sessions/s/adk_segments/x", "user", "adk_apps/a/adk_users/u"),
        ("adk_owners/o/adk_tasks/t", "owner", "adk_owners/o"),
        ("adk_pushes/t/adk_owners/o/adk_configs/c", "owner", "adk_owners/o"),
    ],
)
def test_what_a_path_belongs_to(path: str, kind: str, of: str) -> None:
    """Users, apps and owners of tasks have keys of their own, which are named after both."""
    scope = Places("adk").scope(path)

    assert (kind, of) == (scope.kind, scope.path)


@pytest.mark.parametrize("session", ["s", None])
@pytest.mark.parametrize(
    ("app", "user"),
    [("app", "user"), ("a/b", "u%2Fv"), ("__a__", "__u__"), ("100%", "ü\t`"), ("%25", "%/25")],
)
def test_an_artifact_has_the_key_of_its_user(app: str, user: str, session: str | None) -> None:
    """The same that an erasure of the user destroys, however the ids are encoded in names."""
    key = ArtifactKey.of(app=app, user=user, session=session, filename="user:f" if session is None else "f")

    scope = Places("adk").artifact_scope(object_name(key, 3))

    assert Places("adk").scope(Layout("adk").user(UserKey(app=app, user=user))) == scope
