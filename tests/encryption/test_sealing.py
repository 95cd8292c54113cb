"""Single values come back as they were, and only where they were."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.names import object_name
from gcp_adk_store.encryption.fields import Places
from gcp_adk_store.encryption.sealing import (
    FRAME_BYTES,
    HEADER_BYTES,
    STORED_FRAME_BYTES,
    DataKey,
    NotForHereError,
    OtherKeyError,
    content_size,
    from_bytes,
    stored_size,
    to_bytes,
)
from gcp_adk_store.model.keys import ArtifactKey, UserKey

KEY = DataKey(b"12345678", b"s" * 32)
OTHER = DataKey(b"12345678", b"t" * 32)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3),
    max_leaves=5,
)


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
        (OTHER.open, random),
        (OTHER.open_equal, equal),
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
    """Users, apps and owners of tasks have keys of their own."""
    scope = Places("adk").scope(path)

    assert (kind, of) == (scope.kind, scope.path)


def test_a_path_of_another_prefix_belongs_to_nothing() -> None:
    """It is not this store's."""
    with pytest.raises(ValueError, match="no content"):
        Places("adk").scope("other_apps/a")


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


def test_the_sizes_of_streams_belong_to_one_content_each() -> None:
    """Sizes between them belong to none."""
    found = {}
    for frames in range(4):  # around the border of each
        border = HEADER_BYTES + frames * STORED_FRAME_BYTES
        for stored in range(max(0, border - 99), border + 99):
            with suppress(NotForHereError):
                found[content_size(stored)] = stored
    assert all(stored == stored_size(size) for size, stored in found.items())
    assert {0, 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES, 3 * FRAME_BYTES + 1} <= found.keys()
    assert HEADER_BYTES not in found.values()
