"""A store that encrypts artifacts, too, gives back the same, and refuses what was moved or changed."""

import asyncio
import io
from array import array
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    InvalidInputError,
    KeyDestroyedError,
    Point,
    Store,
    StoredDataError,
    UnavailableError,
)
from gcp_adk_store.moving import copy
from gcp_adk_store.testing.conformance import ArtifactServiceConformance
from gcp_adk_store.testing.emulators import Emulator
from tests.encryption.conftest import CountingWrapper, envelope
from tests.erasure.conftest import APP, OTHER, USER, erase, said
from tests.support.peak_memory import Peak
from tests.support.stored import plain_text, put_upload
from tests.support.traces import in_folder, on_emulators, traces

WHO: Any = {"app_name": APP, "user_id": USER, "session_id": "s"}
FILE: Any = {**WHO, "filename": "file"}
NAME = f"{APP}/{USER}/s/file/0"
MIB = 1024 * 1024
FRAME_BYTES, STORED_FRAME_BYTES, HEADER_BYTES = MIB, MIB + 16, 37
"""As docs/encryption.md has them."""


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in memory that encrypts artifacts."""
    async with Store.local(":memory:", encryption=envelope(artifacts=True)) as store:
        yield store


def bucket_of(store: Store) -> Any:
    """Return the objects as they are stored."""
    objects: Any = store.artifacts._objects
    return objects.inner


async def put(store: Store, name: str, data: bytes, metadata: dict[str, str]) -> None:
    """Replace an object by other bytes."""
    objects = bucket_of(store)
    await objects.delete(name, generation=None)
    await objects.create(name, plain_text(data, metadata=metadata))


async def stored(store: Store, name: str = NAME) -> tuple[bytes, dict[str, str]]:
    """Return an object's bytes and metadata as they are stored."""
    objects = bucket_of(store)
    return (await objects.read(name, generation=None))[0], dict((await objects.info(name)).metadata)


def pattern(size: int) -> bytes:
    """Return bytes whose frames all differ."""
    return array("Q", range(-(-size // 8))).tobytes()[:size]


@pytest.mark.sample(1)
class TestEncryptedArtifacts(ArtifactServiceConformance):
    """ADK's contract of artifacts."""

    @pytest.fixture
    def artifact_service(self) -> ArtifactService:
        return Store.local(":memory:", encryption=envelope(artifacts=True)).artifacts


@pytest.mark.parametrize("size", [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 2 * FRAME_BYTES])
async def test_bytes_of_any_size_come_back_whole_and_in_parts(store: Store, size: int) -> None:
    """Also where a frame ends exactly; listings have the size of the content, and no checksum of it."""
    data = pattern(size)
    blob = types.Blob(data=data, mime_type="image/png", display_name="name")
    await store.artifacts.save_artifact(
        **FILE, artifact=types.Part(inline_data=blob), custom_metadata={"a": 1, "b": "text"}
    )

    loaded = await store.artifacts.load_artifact(**FILE)
    listed = await store.artifacts.get_artifact_version(**FILE)
    target = io.BytesIO()
    await store.artifacts.load_artifact_to(**FILE, target=target)
    reader = await store.artifacts.open_artifact(**FILE)

    assert loaded is not None
    assert blob == loaded.inline_data
    assert data == target.getvalue()
    assert listed is not None
    assert [listed] == await store.artifacts.list_artifact_versions(**FILE)
    assert (size, None, None) == (listed.size, listed.crc32c, listed.md5)
    assert {"a": 1, "b": "text"} == listed.custom_metadata
    assert reader is not None
    for start, end in ((0, 1), (size // 2, size), (FRAME_BYTES - 2, FRAME_BYTES + 2), (size - 1, size)):
        reader.seek(max(0, start))
        assert data[max(0, start) : max(end, 0)] == await reader.read(max(0, end - max(0, start)))
    raw, metadata = await stored(store)
    assert size + 37 + 16 * max(1, -(-size // MIB)) == len(raw)
    assert {"adkStoreEncrypted", "b", "adkDisplayName"} <= metadata.keys()


async def test_nothing_of_an_artifact_is_in_the_clear_but_its_metadata(tmp_path: Path) -> None:
    """Without the setting its bytes are."""
    for artifacts in (True, False):
        folder = tmp_path / f"{artifacts}"
        async with Store.local(folder, encryption=envelope(artifacts=artifacts)) as store:
            await store.artifacts.save_artifact(
                **FILE, artifact=types.Part(text="canary-text"), custom_metadata={"a": "canary-metadata"}
            )
            await store.artifacts.save_artifact_file(**FILE, source=io.BytesIO(b"canary-file"))
        for text in ("canary-text", "canary-file"):
            assert artifacts == (not traces(in_folder(folder), text))
        assert traces(in_folder(folder), "canary-metadata")


@pytest.mark.long
async def test_a_large_file_streams_in_little_memory(tmp_path: Path) -> None:
    """Saving, loading and copying it keep a few requests' bytes; progress counts bytes of the content."""
    source, target = tmp_path / "in", tmp_path / "out"
    size = 80 * MIB + 5  # whole, in both forms, it would take 160 MiB
    with source.open("wb") as file:
        file.write(b"begin")
        file.truncate(size)
    reported: list[int] = []
    async with Store.local(tmp_path / "store", encryption=envelope(artifacts=True)) as store:
        await store.artifacts.save_artifact_file(
            **{**FILE, "filename": "warm"}, source=io.BytesIO(b"x" * MIB)
        )
        with Peak() as peak:
            await store.artifacts.save_artifact_file(
                **FILE, source=source, on_progress=lambda done, _: reported.append(done)
            )
            copied = await store.artifacts.copy_artifact(**FILE, to_user_id=OTHER)
            await store.artifacts.load_artifact_to(**{**FILE, "user_id": OTHER}, target=target)

    assert copied == 0
    assert peak.bytes < 96 * MIB
    assert reported == sorted(reported)
    assert size == reported[-1]
    assert len(reported) > 9
    with source.open("rb") as one, target.open("rb") as other:
        while piece := one.read(MIB):
            assert piece == other.read(MIB)
        assert other.read() == b""


async def test_a_piece_that_arrives_in_part_is_sent_again_as_it_was() -> None:
    """No frame is encrypted twice: the source may have changed meanwhile, and the nonce would be the same."""
    source = bytearray(pattern(4 * FRAME_BYTES))
    whole = b""

    class Lossy:
        """Asks for bytes again after a part of them arrived."""

        async def create(self, *_: Any, size: int, read_at: Any, on_progress: Any) -> None:
            nonlocal whole
            first = await read_at(0, 3 * MIB)
            source[:] = bytes(len(source))
            again = await read_at(MIB, 3 * MIB)
            assert first[MIB:] == again[: 2 * MIB]
            rest = await read_at(4 * MIB, size - 4 * MIB)
            whole = first[:MIB] + again + rest
            on_progress(size)
            with pytest.raises(UnavailableError, match="save again"):
                await read_at(0, MIB)

    async def read_at(start: int, size: int) -> bytes:
        return bytes(source[start : start + size])

    async with Store.local(":memory:", encryption=envelope(artifacts=True)) as store:
        uploads: Any = store.artifacts.storage.uploads
        uploads._uploads, fields = Lossy(), plain_text()
        reported: list[int] = []
        await uploads.create(NAME, fields, size=len(source), read_at=read_at, on_progress=reported.append)
        await bucket_of(store).create(NAME, replace(fields, data=whole))
        part = await store.artifacts.load_artifact(**FILE)

    assert [len(source)] == reported
    assert part is not None
    assert part.inline_data is not None
    assert part.inline_data.data == pattern(4 * FRAME_BYTES)[: 3 * FRAME_BYTES] + bytes(FRAME_BYTES)


def cut(raw: bytes, *frames: int) -> bytes:
    """Return the header of a stream and these *frames* of it."""
    return raw[:HEADER_BYTES] + b"".join(
        raw[HEADER_BYTES + n * STORED_FRAME_BYTES : HEADER_BYTES + (n + 1) * STORED_FRAME_BYTES]
        for n in frames
    )


async def test_missing_repeated_reordered_and_changed_frames_are_refused(store: Store) -> None:
    """Whether the object is read at once, in parts, or copied."""
    blob = types.Blob(data=pattern(3 * FRAME_BYTES), mime_type="image/png")
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(inline_data=blob))
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(inline_data=blob))
    raw, metadata = await stored(store)
    other, _ = await stored(store, f"{NAME[:-1]}1")
    accepted: list[tuple[str, str]] = []
    changed = bytearray(raw)
    changed[-1] ^= 1
    for name, wrong in {
        "truncated": cut(raw, 0, 1),
        "truncated within a frame": raw[:-1],
        "header alone": raw[:HEADER_BYTES],
        "within the header": raw[:20],
        "repeated": cut(raw, 0, 1, 2, 2),
        "reordered": cut(raw, 1, 0, 2),
        "without the first": cut(raw, 1, 2),
        "changed": bytes(changed),
        "of another version": other,
        "with a frame of another version": cut(raw, 0, 1) + cut(other, 2)[HEADER_BYTES:],
        "another salt": raw[: HEADER_BYTES - 1] + bytes([raw[HEADER_BYTES - 1] ^ 1]) + raw[HEADER_BYTES:],
    }.items():
        await put(store, NAME, wrong, metadata)
        reads: dict[str, Coroutine[Any, Any, object]] = {
            "load": store.artifacts.load_artifact(**FILE, version=0),
            "copy": store.artifacts.copy_artifact(**FILE, version=0, to_filename="copy"),
        }
        if name != "another salt":  # parts are read with that of the metadata
            reads["parts"] = store.artifacts.load_artifact_to(**FILE, version=0, target=io.BytesIO())
        for how, read in reads.items():
            try:
                await read
            except StoredDataError:
                continue
            accepted.append((name, how))
    assert [] == accepted
    await put(store, NAME, raw, metadata)
    assert await store.artifacts.load_artifact(**FILE, version=0) is not None


async def test_ciphertext_is_refused_under_another_name_and_under_another_user(store: Store) -> None:
    """Each object is bound to its name."""
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="mine"))
    await store.artifacts.save_artifact(**{**FILE, "user_id": OTHER}, artifact=types.Part(text="theirs"))
    raw, metadata = await stored(store)
    for name in (f"{NAME[:-1]}1", f"{APP}/{USER}/other/file/0", f"{APP}/{OTHER}/s/file/0"):
        await put(store, name, raw, metadata)
        _, user, session, _, version = name.split("/")
        with pytest.raises(StoredDataError):
            await store.artifacts.load_artifact(
                app_name=APP, user_id=user, session_id=session, filename="file", version=int(version)
            )


async def test_copies_forks_and_restores_are_encrypted_for_their_owner(tmp_path: Path) -> None:
    """A copy for another user is readable after the source's user was erased, and the source is not."""
    late = {**FILE, "filename": "late"}
    async with Store.local(tmp_path, encryption=envelope(artifacts=True)) as store:
        session = await store.sessions.create_session(**WHO)
        await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="first"))
        await store.sessions.append_event(session, said("then"))
        await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="second"))
        await store.artifacts.save_artifact(**late, artifact=types.Part(text="late"))
        await store.fork_session(**WHO, to_session_id="fork", to_user_id=OTHER, artifacts="all")
        await store.artifacts.copy_artifact(**FILE, version=0, to_user_id=OTHER, to_filename="user:copy")
        await store.restore_session(**WHO, at=Point.position(0))
        restored = await store.artifacts.load_artifact(**FILE)
        removed = await store.artifacts.load_artifact(**late)
        assert await store.artifacts.copy_artifact(**late, to_filename="copy") is None
        raw, metadata = await stored(store)
        _, receipt = await erase(store)
        forked = await store.artifacts.load_artifact(
            app_name=APP, user_id=OTHER, session_id="fork", filename="file"
        )
        copied = await store.artifacts.load_artifact(app_name=APP, user_id=OTHER, filename="user:copy")
        await put(store, NAME, raw, metadata)  # as from a backup
        with pytest.raises(KeyDestroyedError):
            await store.artifacts.load_artifact(**FILE)
        with pytest.raises(KeyDestroyedError):
            await store.artifacts.load_artifact_to(**FILE, target=io.BytesIO())

    assert receipt.unreadable_from is not None
    assert types.Part(text="first") == restored
    assert removed is None
    assert types.Part(text="second") == forked
    assert types.Part(text="first") == copied


async def test_urls_are_refused_and_the_way_out_is_named(store: Store) -> None:
    """A browser can neither read nor write ciphertext."""
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="words"))
    for ask in (
        store.artifacts.get_signed_url,
        store.artifacts.get_authenticated_url,
        store.artifacts.create_upload,
    ):
        with pytest.raises(InvalidInputError, match=r"load_artifact_to.*KmsEnvelope\(artifacts=True\)"):
            await ask(**FILE)


async def test_plaintext_is_refused_unless_it_is_accepted(tmp_path: Path) -> None:
    """A copy, and the file of a browser that was uploaded before, become ciphertext."""
    how: Any = {"wrapper": CountingWrapper(), "artifacts": True}
    async with Store.local(tmp_path) as plain:
        await plain.artifacts.save_artifact(**FILE, artifact=types.Part(text="canary"))
        await put_upload(plain, {**FILE, "filename": "sent"}, "0" * 32, b"sent")
    async with Store.local(tmp_path, encryption=envelope(**how)) as strict:
        for read in (
            strict.artifacts.load_artifact(**FILE),
            strict.artifacts.load_artifact_to(**FILE, target=io.BytesIO()),
            strict.artifacts.copy_artifact(**FILE, to_filename="copy"),
            strict.artifacts.finalize_upload(**{**FILE, "filename": "sent"}, upload_id="0" * 32),
        ):
            with pytest.raises(StoredDataError, match="accept_plaintext"):
                await read
    async with Store.local(tmp_path, encryption=envelope(**how, accept_plaintext=True)) as lenient:
        target = io.BytesIO()
        await lenient.artifacts.load_artifact_to(**FILE, target=target)
        await lenient.artifacts.copy_artifact(**FILE)
        await lenient.artifacts.finalize_upload(**{**FILE, "filename": "sent"}, upload_id="0" * 32)
        assert target.getvalue() == b"canary"
        assert types.Part(text="canary") == await lenient.artifacts.load_artifact(**FILE, version=0)
    async with Store.local(tmp_path, encryption=envelope(**how)) as strict:
        assert types.Part(text="canary") == await strict.artifacts.load_artifact(**FILE)
        sent = await strict.artifacts.load_artifact(**{**FILE, "filename": "sent"})
        assert sent is not None
        assert sent.inline_data is not None
        assert sent.inline_data.data == b"sent"


async def test_all_versions_are_copied_into_an_encrypted_store(store: Store) -> None:
    """With their metadata, between any two services."""
    async with Store.local(":memory:") as plain:
        await plain.sessions.create_session(**WHO)
        for text in ("first", "second"):
            await plain.artifacts.save_artifact(
                **FILE, artifact=types.Part(text=text), custom_metadata={"of": text}
            )
        services = (plain.artifacts, store.artifacts)
        report = await copy(plain.sessions, store.sessions, app_name=APP, artifacts=services, verify=True)

    assert report.is_complete
    assert types.Part(text="first") == await store.artifacts.load_artifact(**FILE, version=0)
    found = await store.artifacts.get_artifact_version(**FILE)
    assert found is not None
    assert {"of": "second"} == found.custom_metadata
    assert (await stored(store))[0].startswith(b"adk-sealed/2")


async def test_a_store_that_does_not_encrypt_artifacts_refuses_encrypted_ones(tmp_path: Path) -> None:
    """It neither returns ciphertext as content nor copies it to a name that it is not bound to."""
    async with Store.local(tmp_path, encryption=envelope(artifacts=True)) as store:
        await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="words"))
    async with Store.local(tmp_path) as plain:
        for read in (
            plain.artifacts.load_artifact(**FILE),
            plain.artifacts.open_artifact(**FILE),
            plain.artifacts.load_artifact_to(**FILE, target=io.BytesIO()),
            plain.artifacts.copy_artifact(**FILE, to_filename="copy"),
        ):
            with pytest.raises(StoredDataError, match="artifacts=True"):
                await read
        (listed,) = await plain.artifacts.list_artifact_versions(**FILE)
        assert {} == listed.custom_metadata


async def test_every_store_of_these_sessions_encrypts_artifacts_once(store: Store) -> None:
    """Also one that is made of services, and one through other documents."""
    plain = Store.local(":memory:").artifacts
    made = Store(sessions=store.sessions, artifacts=plain)
    await made.artifacts.save_artifact(**FILE, artifact=types.Part(text="words"))
    again = made.through(lambda documents: documents)

    assert types.Part(text="words") == await again.artifacts.load_artifact(**FILE)
    assert again.artifacts is made.artifacts
    with pytest.raises(StoredDataError, match="is encrypted"):
        await plain.load_artifact(**FILE)


async def test_metadata_that_leave_no_room_are_refused_with_the_limit(store: Store) -> None:
    """The note of the encryption takes some of the 8 KiB."""
    for size in (8000, 8110):
        metadata = {"a": "x" * size}
        save = store.artifacts.save_artifact(
            **FILE, artifact=types.Part(text="words"), custom_metadata=metadata
        )
        if size == 8000:
            await save
        else:
            with pytest.raises(InvalidInputError, match="8192"):
                await save


async def test_artifacts_from_before_that_leave_no_room_are_taken_along_without_metadata(
    tmp_path: Path,
) -> None:
    """By forks and restores, which would never be complete otherwise."""
    async with Store.local(tmp_path) as plain:
        session = await plain.sessions.create_session(**WHO)
        full = {"a": "x" * 8100}
        await plain.artifacts.save_artifact(**FILE, artifact=types.Part(text="old"), custom_metadata=full)
        for version in (0, 1):
            made = Event(author="a", actions=EventActions(artifact_delta={FILE["filename"]: version}))
            await plain.sessions.append_event(session, made)
        await plain.artifacts.save_artifact(**FILE, artifact=types.Part(text="new"))
    how = envelope(artifacts=True, accept_plaintext=True)
    async with Store.local(tmp_path, encryption=how) as store:
        await store.fork_session(**WHO, at=Point.position(1), to_session_id="fork")
        await store.restore_session(**WHO, at=Point.position(1))
        for where in ({**FILE, "session_id": "fork"}, FILE):
            found = await store.artifacts.get_artifact_version(**where)

            assert types.Part(text="old") == await store.artifacts.load_artifact(**where)
            assert found is not None
            assert {} == found.custom_metadata


class Counted:
    """Objects that count their calls."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        self.calls += 1
        return getattr(self._inner, name)


async def test_encryption_takes_no_request_more(store: Store) -> None:
    """Apart from copies, whose bytes pass through the process, and the key's own reads."""
    took: list[list[int]] = []
    for encrypts in (False, True):
        plain: Any = Store.local(":memory:").artifacts
        counted: Any = Counted(plain.storage.objects)
        service = ArtifactService(counted, plain.storage.uploads, plain._signer, plain.storage.limits)
        if encrypts:
            service = Store(sessions=store.sessions, artifacts=service).artifacts
        part = types.Part(inline_data=types.Blob(data=pattern(2 * FRAME_BYTES), mime_type="image/png"))
        counts = []
        for call in (
            lambda service=service, part=part: service.save_artifact(**FILE, artifact=part),
            lambda service=service, part=part: service.save_artifact(**FILE, artifact=part),
            lambda service=service: service.load_artifact(**FILE),
            lambda service=service: service.load_artifact(**FILE, version=0),
            lambda service=service: service.list_artifact_versions(**FILE),
            lambda service=service: service.get_artifact_version(**FILE),
            lambda service=service: service.load_artifact_to(**FILE, target=io.BytesIO()),
            lambda service=service: _parts(service),
            lambda service=service: service.delete_artifact(**FILE),
        ):
            before = counted.calls
            await call()
            counts.append(counted.calls - before)
        took.append(counts)

    assert took[0] == took[1]
    assert all(took[0])


async def _parts(service: ArtifactService) -> None:
    """Read the end, then the beginning."""
    reader = await service.open_artifact(**FILE)
    assert reader is not None
    reader.seek(-5, io.SEEK_END)
    assert len(await reader.read()) == 5
    reader.seek(0)
    await reader.read(10)


@pytest.mark.emulators
async def test_large_and_small_artifacts_are_encrypted_in_the_bucket(
    project: str, adk_store_bucket: str, storage_emulator: Emulator
) -> None:
    """A resumable upload, ranged reads and a copy give the same bytes back; URLs are refused."""
    place: Any = {"project": project, "bucket": adk_store_bucket}
    data = b"said-here" + pattern(9 * MIB)
    async with Store.connect(**place, encryption=envelope(artifacts=True)) as store:
        await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="said-here"))
        assert types.Part(text="said-here") == await store.artifacts.load_artifact(**FILE)
        await store.artifacts.save_artifact_file(**FILE, source=io.BytesIO(data))
        await store.artifacts.copy_artifact(**FILE, to_user_id=OTHER)
        target = io.BytesIO()
        await store.artifacts.load_artifact_to(**{**FILE, "user_id": OTHER}, target=target)
        with pytest.raises(InvalidInputError, match="encrypts artifacts"):
            await store.artifacts.create_upload(**FILE)
    kept = await asyncio.to_thread(on_emulators, project, adk_store_bucket, storage_emulator.address)

    assert data == target.getvalue()
    assert [] == traces(kept, "said-here")
    assert 3 == len([name for name in kept if "/file/" in name])
