"""Artifacts on the strict storage emulator: ADK's contract, and its own service as a neighbour."""

import asyncio
import io
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import requests
import urllib3
from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import (
    AccessDeniedError,
    ArtifactConflictError,
    ArtifactLimits,
    GcsArtifactService,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    UnavailableError,
    machine,
)
from gcp_adk_store.codec.objects import ObjectFields, StoredObject
from gcp_adk_store.testing.emulators import STORAGE_VARIABLE, Emulator
from gcp_adk_store.testing.meters import MeteredSession
from tests.services.conftest import APP, USER, WHO, LosingSession, text

REPORT: dict[str, Any] = {**WHO, "filename": "report.txt"}
REFERENCES = "artifact://apps/app/users"
UPLOAD = ObjectFields(data=b"", content_type="a/b", metadata={})
OBJECT = StoredObject(name="o", generation=1, content_type=None, metadata={}, create_time=1.0, size=0)


def binary(data: bytes, mime_type: str = "image/png", display_name: str | None = None) -> types.Part:
    """Return an artifact of bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name=display_name))


def file(uri: str, mime_type: str | None = None) -> types.Part:
    """Return an artifact whose content lies elsewhere."""
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


@pytest.fixture
def adk_artifacts(artifacts: GcsArtifactService) -> AdkGcsArtifactService:
    """ADK's own service on the same bucket."""
    return AdkGcsArtifactService(artifacts.bucket_name, project="demo", credentials=AnonymousCredentials())


@pytest.mark.parametrize(
    "part",
    [text("words"), text(""), text("ünï \x00"), binary(b"\x00\r\n\xff"), binary(b"", "application/pdf"),
     binary(b"x", "audio/pcm;rate=24000"), binary(b"", "application/octet-stream", "named"),
     binary(b"x", display_name="Ünï.png"), file("gs://elsewhere/a.pdf", "application/pdf"),
     file("https://example.com/a")],
)  # fmt: skip
async def test_a_part_comes_back_as_it_was_saved(artifacts: GcsArtifactService, part: types.Part) -> None:
    """Kind, bytes, type and display name; by its number and as the latest."""
    version = await artifacts.save_artifact(**REPORT, artifact=part)

    assert 0 == version
    assert part == await artifacts.load_artifact(**REPORT)
    assert part == await artifacts.load_artifact(**REPORT, version=0)


async def test_dictionaries_in_both_encodings_are_parts(artifacts: GcsArtifactService) -> None:
    """As they come over ADK's REST API."""
    for encoded in (
        {"inlineData": {"data": "AP8=", "mimeType": "x/y"}},
        {"inline_data": {"data": "AP8=", "mime_type": "x/y"}},
    ):
        await artifacts.save_artifact(**REPORT, artifact=encoded)
    loaded = [await artifacts.load_artifact(**REPORT, version=number) for number in (0, 1)]

    assert [binary(b"\x00\xff", "x/y")] * 2 == loaded


async def test_what_is_not_there_is_none_or_empty(artifacts: GcsArtifactService) -> None:
    """Unknown artifacts and versions, negative ones too."""
    await artifacts.save_artifact(**REPORT, artifact=text("0"))
    other: dict[str, Any] = {**WHO, "filename": "other"}

    assert None is await artifacts.load_artifact(**other)
    assert [None, None] == [await artifacts.load_artifact(**REPORT, version=n) for n in (1, -1)]
    assert [] == await artifacts.list_versions(**other)
    assert [] == await artifacts.list_artifact_versions(**other)
    assert [None, None] == [
        await artifacts.get_artifact_version(**other),
        await artifacts.get_artifact_version(**REPORT, version=-1),
    ]
    await artifacts.delete_artifact(**other)


async def test_a_rewinds_tombstone_loads_as_absent_and_keeps_its_number(
    artifacts: GcsArtifactService,
) -> None:
    """Exactly the empty octet stream without a name."""
    await artifacts.save_artifact(**REPORT, artifact=text("before"))
    await artifacts.save_artifact(**REPORT, artifact=binary(b"", "application/octet-stream"))

    assert None is await artifacts.load_artifact(**REPORT)
    assert [0, 1] == await artifacts.list_versions(**REPORT)
    assert text("before") == await artifacts.load_artifact(**REPORT, version=0)


async def test_versions_are_numbers_not_words(artifacts: GcsArtifactService) -> None:
    """The twelfth comes after the ninth, for every method."""
    for number in range(12):
        await artifacts.save_artifact(**REPORT, artifact=text(f"{number}"))
    described = await artifacts.list_artifact_versions(**REPORT)
    latest = await artifacts.get_artifact_version(**REPORT)

    assert list(range(12)) == await artifacts.list_versions(**REPORT)
    assert list(range(12)) == [one.version for one in described]
    assert latest == described[-1]
    assert text("11") == await artifacts.load_artifact(**REPORT)


@pytest.mark.emulators
async def test_a_version_describes_the_raw_object(artifacts: GcsArtifactService) -> None:
    """Its URI is where the payload lies as it is; metadata keeps its JSON types."""
    custom = {
        "n": 1,
        "f": None,
        "l": [1, {"a": 0.5}],
        "s": "text",
        "adkIsText": "mine",
        "ünï": "x",
        "empty": "",
    }
    await artifacts.save_artifact(**REPORT, artifact=binary(b"\x00\xff"), custom_metadata=custom)
    found = await artifacts.get_artifact_version(**REPORT, version=0)
    assert found is not None
    blob = (
        Client(project="demo", credentials=AnonymousCredentials())
        .bucket(artifacts.bucket_name)
        .get_blob("app/user/session/report.txt/0")
    )

    assert f"gs://{artifacts.bucket_name}/app/user/session/report.txt/0" == found.canonical_uri
    assert (b"\x00\xff", "image/png") == (blob.download_as_bytes(), blob.content_type)
    assert (0, "image/png", custom) == (found.version, found.mime_type, found.custom_metadata)
    assert blob.time_created.timestamp() == found.create_time


async def test_user_artifacts_are_shared_by_the_users_sessions(artifacts: GcsArtifactService) -> None:
    """And by nobody else; their names keep the prefix."""
    await artifacts.save_artifact(**{**WHO, "filename": "user:photo"}, artifact=text("mine"))
    await artifacts.save_artifact(**REPORT, artifact=text("session's"))
    elsewhere: dict[str, Any] = {
        "app_name": APP,
        "user_id": USER,
        "session_id": "another",
        "filename": "user:photo",
    }

    assert text("mine") == await artifacts.load_artifact(**elsewhere)
    assert None is await artifacts.load_artifact(**{**elsewhere, "user_id": "someone"})
    assert ["report.txt", "user:photo"] == await artifacts.list_artifact_keys(**WHO)
    assert ["user:photo"] == await artifacts.list_artifact_keys(app_name=APP, user_id=USER)


NESTED = [
    "a",
    "a/0",
    "a/0/b",
    "a b",
    "docs/report.txt",
    "ünï/日本",
    "q#?%+&",
    "x%2Fy",
    "user:d/e",
    "..",
    "//",
]


async def test_nested_and_odd_filenames_are_separate_artifacts(artifacts: GcsArtifactService) -> None:
    """All are listed as they were saved, and load, count and go alone."""
    for name in NESTED:
        await artifacts.save_artifact(**{**WHO, "filename": name}, artifact=text(name))
    listed = await artifacts.list_artifact_keys(**WHO)
    loaded = [await artifacts.load_artifact(**{**WHO, "filename": name}) for name in NESTED]
    await artifacts.delete_artifact(**{**WHO, "filename": "a"})

    assert sorted(NESTED) == listed
    assert [text(name) for name in NESTED] == loaded
    assert [0] == await artifacts.list_versions(**{**WHO, "filename": "a/0"})
    assert sorted(set(NESTED) - {"a"}) == await artifacts.list_artifact_keys(**WHO)


async def test_ids_that_only_differ_in_where_a_slash_stands_do_not_meet(
    artifacts: GcsArtifactService,
) -> None:
    """``a/b`` + ``c`` is not ``a`` + ``b/c``, nor is ``%2F`` a slash."""
    places = [("a/b", "c", "d"), ("a", "b/c", "d"), ("a", "b", "c/d"), ("a%2Fb", "c", "d")]
    for place in places:
        app, user, session = place
        named: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session, "filename": "f"}
        assert 0 == await artifacts.save_artifact(**named, artifact=text(repr(place)))
        assert ["f"] == await artifacts.list_artifact_keys(app_name=app, user_id=user, session_id=session)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"app_name": ""}, "app_name must not be empty"),
        ({"user_id": "a/../b"}, "must not contain traversal segments"),
        ({"session_id": "a\x00"}, "must not contain null bytes"),
        ({"session_id": "/x"}, "must not be an absolute path or start with a slash"),
        ({"user_id": "C:x"}, "must not be drive-qualified"),
        ({"app_name": "a/users/b"}, "must not contain reserved path segments"),
        ({"session_id": None}, "Session ID must be provided"),
        ({"filename": ""}, "filename must not be empty"),
        ({"filename": "a\nb"}, "line breaks"),
        ({"filename": "x" * 1100}, "object name of 1119 bytes, the limit is 1024"),
        ({"session_id": "user"}, "reserved value 'user'"),
        ({"session_id": "user/x"}, "reserved value 'user'"),
        ({"artifact": types.Part()}, "must have either inline_data or text"),
        ({"artifact": file("")}, "must have a file_uri"),
        ({"artifact": file("artifact://nonsense")}, "Invalid artifact reference URI"),
        ({"artifact": file(f"{REFERENCES}/else/artifacts/f/versions/0")}, "same app and user scope"),
        ({"artifact": file(f"{REFERENCES}/user/sessions/else/artifacts/f/versions/0")}, "same session scope"),
        ({"custom_metadata": {"big": "x" * 9000}}, "the limit is 8192"),
        ({"custom_metadata": {"no": object()}}, "JSON cannot hold"),
    ],
)  # fmt: skip
async def test_what_cannot_be_saved_is_refused_before_anything_is_sent(
    artifacts: GcsArtifactService, change: dict[str, Any], message: str
) -> None:
    """With ADK's phrases where it has them, as an error that is ADK's too."""
    with pytest.raises(InvalidInputError, match=message) as caught:
        await artifacts.save_artifact(**{**REPORT, "artifact": text("x"), **change})

    assert isinstance(caught.value, InputValidationError)
    assert "save_artifact" == caught.value.operation
    assert "user_id=" in caught.value.key
    assert [] == await artifacts.list_artifact_keys(**WHO)


async def test_a_session_called_user_may_be_read_but_not_saved(artifacts: GcsArtifactService) -> None:
    """As in ADK's services."""
    odd: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": "user"}

    assert None is await artifacts.load_artifact(**odd, filename="f")
    assert [] == await artifacts.list_artifact_keys(**odd)
    await artifacts.delete_artifact(**odd, filename="f")


def reference(filename: str, version: int = 0, *, session: bool = True) -> types.Part:
    """Return an artifact that points to another one of the same user."""
    scope = f"/sessions/{WHO['session_id']}" if session else ""
    return file(f"artifact://apps/{APP}/users/{USER}{scope}/artifacts/{filename}/versions/{version}")


async def test_references_are_followed_five_times(artifacts: GcsArtifactService) -> None:
    """A sixth, and a circle, are errors; a target that is gone is absent."""
    await artifacts.save_artifact(**{**WHO, "filename": "r0"}, artifact=text("end"))
    for hop in range(1, 7):
        await artifacts.save_artifact(**{**WHO, "filename": f"r{hop}"}, artifact=reference(f"r{hop - 1}"))
    await artifacts.save_artifact(**{**WHO, "filename": "loop"}, artifact=reference("loop"))
    await artifacts.save_artifact(**{**WHO, "filename": "lost"}, artifact=reference("nothing"))
    await artifacts.save_artifact(**{**WHO, "filename": "user:d/e"}, artifact=text("shared"))
    await artifacts.save_artifact(**{**WHO, "filename": "up"}, artifact=reference("user:d/e", session=False))

    assert text("end") == await artifacts.load_artifact(**{**WHO, "filename": "r5"})
    assert None is await artifacts.load_artifact(**{**WHO, "filename": "lost"})
    assert text("shared") == await artifacts.load_artifact(**{**WHO, "filename": "up"})
    for endless in ("r6", "loop"):
        with pytest.raises(InvalidInputError, match="Exceeded maximum recursion depth"):
            await artifacts.load_artifact(**{**WHO, "filename": endless})


@pytest.mark.emulators
async def test_a_reference_that_was_tampered_with_is_not_followed(artifacts: GcsArtifactService) -> None:
    """The scope is checked again when it is loaded."""
    await artifacts.save_artifact(**REPORT, artifact=reference("x"))
    blob = (
        Client(project="demo", credentials=AnonymousCredentials())
        .bucket(artifacts.bucket_name)
        .get_blob("app/user/session/report.txt/0")
    )
    blob.metadata = {"adkFileUri": "artifact://apps/app/users/user/sessions/else/artifacts/f/versions/0"}
    blob.patch()

    with pytest.raises(InvalidInputError, match="same session scope"):
        await artifacts.load_artifact(**REPORT)


SHARED = [text("words"), text(""), binary(b"\x00", "image/png", "name.png"), binary(b"", "application/pdf"),
          file("gs://elsewhere/a.pdf", "application/pdf"), reference("target")]  # fmt: skip


@pytest.mark.emulators
async def test_adks_own_service_reads_what_this_one_wrote(
    artifacts: GcsArtifactService, adk_artifacts: AdkGcsArtifactService
) -> None:
    """Parts, versions, keys and texts in the metadata."""
    await artifacts.save_artifact(**{**WHO, "filename": "target"}, artifact=text("target"))
    for part in SHARED:
        await artifacts.save_artifact(**REPORT, artifact=part, custom_metadata={"s": "text"})
    loaded = [await adk_artifacts.load_artifact(**REPORT, version=n) for n in range(len(SHARED))]
    described = await adk_artifacts.get_artifact_version(**REPORT)

    assert [*SHARED[:-1], text("target")] == loaded
    assert ["report.txt", "target"] == await adk_artifacts.list_artifact_keys(**WHO)
    assert described is not None
    assert "text" == described.custom_metadata["s"]
    assert len(SHARED) == await adk_artifacts.save_artifact(**REPORT, artifact=text("next"))


@pytest.mark.emulators
async def test_this_service_reads_what_adks_own_wrote(
    artifacts: GcsArtifactService, adk_artifacts: AdkGcsArtifactService
) -> None:
    """Parts, versions, keys, metadata, and the legacy encoding of a file's URI."""
    await adk_artifacts.save_artifact(**{**WHO, "filename": "target"}, artifact=text("target"))
    for part in SHARED:
        await adk_artifacts.save_artifact(**REPORT, artifact=part, custom_metadata={"s": "text"})
    loaded = [await artifacts.load_artifact(**REPORT, version=n) for n in range(len(SHARED))]
    mine = await artifacts.get_artifact_version(**REPORT)
    theirs = await adk_artifacts.get_artifact_version(**REPORT)
    bucket = Client(project="demo", credentials=AnonymousCredentials()).bucket(artifacts.bucket_name)
    legacy = bucket.blob("app/user/session/old/0")
    legacy.metadata = {"file_uri": "gs://old/a"}
    legacy.upload_from_string(b"", content_type="text/csv")

    assert [*SHARED[:-1], text("target")] == loaded
    assert mine is not None
    assert theirs is not None
    assert {"s": "text"} == mine.custom_metadata
    # Releases of ADK before 2.10 show their own metadata keys beside the caller's.
    described = theirs.model_copy(update={"custom_metadata": mine.custom_metadata}).model_dump()
    assert described == mine.model_dump(include=set(described))
    assert ["old", "report.txt", "target"] == await artifacts.list_artifact_keys(**WHO)
    assert file("gs://old/a", "text/csv") == await artifacts.load_artifact(**{**WHO, "filename": "old"})


@pytest.mark.emulators
async def test_objects_of_others_are_no_artifacts(artifacts: GcsArtifactService) -> None:
    """Names without a version are left out, and in peace."""
    bucket = Client(project="demo", credentials=AnonymousCredentials()).bucket(artifacts.bucket_name)
    for name in (
        "app/user/session/report.txt/draft",
        "app/user/session/report.txt/٣",
        "app/user/session/stray",
    ):
        bucket.blob(name).upload_from_string(b"x")
    await artifacts.save_artifact(**REPORT, artifact=text("0"))

    assert [0] == await artifacts.list_versions(**REPORT)
    assert ["report.txt"] == await artifacts.list_artifact_keys(**WHO)


@pytest.mark.emulators
async def test_concurrent_saves_each_get_a_number_of_their_own(artifacts: GcsArtifactService) -> None:
    """From two services that know nothing of each other: no gap, no byte in the wrong place."""
    services = [artifacts, GcsArtifactService(artifacts.bucket_name)]
    numbers = await asyncio.gather(
        *(services[n % 2].save_artifact(**REPORT, artifact=text(f"{n}")) for n in range(16))
    )
    loaded = [await artifacts.load_artifact(**REPORT, version=number) for number in numbers]
    await services[1].close()

    assert list(range(16)) == sorted(numbers)
    assert [text(f"{n}") for n in range(16)] == loaded


async def test_many_savers_of_one_process_take_turns(artifacts: GcsArtifactService) -> None:
    """None starves, however many there are."""
    numbers = await asyncio.gather(
        *(artifacts.save_artifact(**REPORT, artifact=text(f"{n}")) for n in range(40))
    )

    assert list(range(40)) == sorted(numbers)


@pytest.mark.emulators
async def test_a_version_saved_while_an_artifact_is_deleted_stays(artifacts: GcsArtifactService) -> None:
    """A delete removes what it listed: the answer of one is lost, and its retry meets another's save."""
    await artifacts.save_artifact(**REPORT, artifact=text("old"))

    class SavingMeanwhile(LosingSession):
        def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # whatever the client passes
            try:
                return super().request(method, url, *args, **kwargs)
            except requests.ConnectionError:
                bucket = Client(project="demo", credentials=AnonymousCredentials()).bucket(
                    artifacts.bucket_name
                )
                bucket.blob("app/user/session/report.txt/0").upload_from_string("new", "text/plain")
                raise

    http = SavingMeanwhile("DELETE", 1)
    service = GcsArtifactService(
        artifacts.bucket_name, client=Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    )
    await service.delete_artifact(**REPORT)
    await service.close()
    loaded = await artifacts.load_artifact(**REPORT)

    assert loaded is not None
    assert loaded.inline_data is not None
    assert b"new" == loaded.inline_data.data


@pytest.mark.emulators
async def test_what_is_known_of_the_latest_version_ages(artifacts: GcsArtifactService) -> None:
    """Where a lifecycle rule removed old versions, a free number is not the next one."""
    service = GcsArtifactService(artifacts.bucket_name, limits=ArtifactLimits(known_for_s=0))
    await service.save_artifact(**REPORT, artifact=text("0"))
    for number in range(1, 4):
        await artifacts.save_artifact(**REPORT, artifact=text(f"{number}"))
    bucket = Client(project="demo", credentials=AnonymousCredentials()).bucket(artifacts.bucket_name)
    for number in (0, 1):
        bucket.delete_blob(f"app/user/session/report.txt/{number}")
    saved = await service.save_artifact(**REPORT, artifact=text("4"))
    await service.close()

    assert 4 == saved
    assert [2, 3, 4] == await artifacts.list_versions(**REPORT)


async def test_a_closed_service_opens_again(artifacts: GcsArtifactService) -> None:
    """As the session service does."""
    await artifacts.save_artifact(**REPORT, artifact=text("0"))
    await artifacts.close()

    assert text("0") == await artifacts.load_artifact(**REPORT)


@pytest.mark.emulators
async def test_a_save_goes_on_from_what_another_process_saved(artifacts: GcsArtifactService) -> None:
    """What this process remembers is a hint only."""
    other = GcsArtifactService(artifacts.bucket_name)
    await artifacts.save_artifact(**REPORT, artifact=text("0"))
    for number in (1, 2):
        await other.save_artifact(**REPORT, artifact=text(f"{number}"))
    await other.close()

    assert 3 == await artifacts.save_artifact(**REPORT, artifact=text("3"))
    assert text("3") == await artifacts.load_artifact(**REPORT)


@pytest.mark.emulators
async def test_a_load_of_the_latest_finds_what_another_process_did_since(
    artifacts: GcsArtifactService,
) -> None:
    """It saved more, deleted all, or began anew: what this process remembers is a hint only."""
    other = GcsArtifactService(artifacts.bucket_name)
    await artifacts.save_artifact(**REPORT, artifact=text("0"))
    loaded = [await artifacts.load_artifact(**REPORT)]
    for number in (1, 2):
        await other.save_artifact(**REPORT, artifact=text(f"{number}"))
        loaded.append(await artifacts.load_artifact(**REPORT))
    await other.delete_artifact(**REPORT)
    described = await artifacts.get_artifact_version(**REPORT)
    loaded.append(await artifacts.load_artifact(**REPORT))
    await other.save_artifact(**REPORT, artifact=text("anew"))
    loaded.append(await artifacts.load_artifact(**REPORT))
    await other.close()

    assert described is None
    assert [text("0"), text("1"), text("2"), None, text("anew")] == loaded


@pytest.mark.emulators
async def test_loading_again_and_again_does_not_keep_what_is_known_from_ageing(
    artifacts: GcsArtifactService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others took the next number out of the middle, the latest is found after ``known_for_s``."""
    passed = [0.0]
    monkeypatch.setattr(machine, "monotonic", lambda: time.monotonic() + passed[0])
    service = GcsArtifactService(artifacts.bucket_name, limits=ArtifactLimits(known_for_s=300))
    await service.save_artifact(**REPORT, artifact=text("0"))
    for number in (1, 2):
        await artifacts.save_artifact(**REPORT, artifact=text(f"{number}"))
    bucket = Client(project="demo", credentials=AnonymousCredentials()).bucket(artifacts.bucket_name)
    bucket.delete_blob("app/user/session/report.txt/1")
    loaded = []
    for _ in range(4):
        loaded.append(await service.load_artifact(**REPORT))
        passed[0] += 120
    await service.close()

    assert [text("0")] * 3 + [text("2")] == loaded


@pytest.mark.emulators
@pytest.mark.parametrize("remove", ["delete_artifact", "delete_session_artifacts"])
async def test_a_load_beside_a_delete_that_fails_leaves_nothing_to_number_from(
    artifacts: GcsArtifactService, remove: str
) -> None:
    """Some of it is gone, and what was the latest may be: the next save asks what is left."""
    for number in range(3):
        await artifacts.save_artifact(**REPORT, artifact=text(f"{number}"))

    class Refusing(requests.Session):
        def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # whatever the client passes
            if method == "DELETE":
                asyncio.run_coroutine_threadsafe(service.load_artifact(**REPORT), loop).result(10)
                if url.partition("?")[0].endswith("0"):
                    raise requests.exceptions.InvalidURL("refused on purpose")
            return super().request(method, url, *args, **kwargs)

    loop = asyncio.get_running_loop()
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=Refusing())
    service = GcsArtifactService(artifacts.bucket_name, client=client)
    ids = REPORT if remove == "delete_artifact" else WHO
    with pytest.raises(OutcomeUnknownError):
        await getattr(service, remove)(**ids)
    left = await artifacts.list_versions(**REPORT)
    saved = await service.save_artifact(**REPORT, artifact=text("again"))
    await service.close()

    assert [0] == left
    assert 1 == saved


@pytest.mark.emulators
@pytest.mark.parametrize("remove", ["delete_artifact", "delete_session_artifacts"])
async def test_a_load_that_a_delete_overtakes_leaves_nothing_to_number_from(
    artifacts: GcsArtifactService, remove: str
) -> None:
    """What it read is gone; the next save begins with 0, as in ADK's services."""
    for number in range(3):
        await artifacts.save_artifact(**REPORT, artifact=text(f"{number}"))
    arrived, go_on = threading.Event(), threading.Event()

    class Slow(requests.Session):
        def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # whatever the client passes
            answer = super().request(method, url, *args, **kwargs)
            if "prefix=" in url and not arrived.is_set():
                arrived.set()
                go_on.wait(60)
            return answer

    client = Client(project="demo", credentials=AnonymousCredentials(), _http=Slow())
    service = GcsArtifactService(artifacts.bucket_name, client=client)
    loading = asyncio.create_task(service.load_artifact(**REPORT))
    await asyncio.to_thread(arrived.wait, 10)
    ids = REPORT if remove == "delete_artifact" else WHO
    await getattr(service, remove)(**ids)
    go_on.set()
    await loading
    saved = await service.save_artifact(**REPORT, artifact=text("again"))
    await service.close()

    assert 0 == saved


async def test_the_last_version_that_a_name_has_room_for_is_loaded(artifacts: GcsArtifactService) -> None:
    """Version 9 of an artifact whose object names have 1,024 bytes: the name of version 10 is too long."""
    full: dict[str, Any] = {**WHO, "filename": "f" * (1024 - len("app/user/session//9"))}
    for number in range(10):
        await artifacts.save_artifact(**full, artifact=text(f"{number}"))
    found = await artifacts.get_artifact_version(**full)

    assert text("9") == await artifacts.load_artifact(**full)
    assert found is not None
    assert 9 == found.version
    with pytest.raises(InvalidInputError, match="1025 bytes, the limit is 1024; use a shorter filename"):
        await artifacts.save_artifact(**full, artifact=text("10"))


async def test_numbers_start_again_after_a_delete(artifacts: GcsArtifactService) -> None:
    """As in ADK's services; all versions are gone."""
    for _ in range(3):
        await artifacts.save_artifact(**REPORT, artifact=text("x"))
    await artifacts.delete_artifact(**REPORT)

    assert [] == await artifacts.list_artifact_keys(**WHO)
    assert 0 == await artifacts.save_artifact(**REPORT, artifact=text("again"))


def losing(bucket: str, method: str, count: int) -> GcsArtifactService:
    """Return a service that loses the answers of its first requests of one method."""
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=LosingSession(method, count))
    return GcsArtifactService(bucket, client=client)


@pytest.mark.emulators
@pytest.mark.parametrize("lost", [1, 3])
async def test_a_save_whose_answers_are_lost_happens_once(artifacts: GcsArtifactService, lost: int) -> None:
    """The object that stands in the way is recognised as its own."""
    service = losing(artifacts.bucket_name, "POST", lost)
    first = await service.save_artifact(**REPORT, artifact=text("first"))
    second = await service.save_artifact(**REPORT, artifact=text("second"))
    await service.close()

    assert [0, 1] == [first, second]
    assert [0, 1] == await artifacts.list_versions(**REPORT)
    assert text("first") == await artifacts.load_artifact(**REPORT, version=0)


@pytest.mark.emulators
@pytest.mark.usefixtures("passing")
async def test_a_failed_listing_never_means_that_there_are_no_versions(artifacts: GcsArtifactService) -> None:
    """The save fails instead of starting again at 0."""
    await artifacts.save_artifact(**REPORT, artifact=text("kept"))
    service = losing(artifacts.bucket_name, "GET", -1)
    with pytest.raises(UnavailableError, match="did not answer"):
        await service.save_artifact(**REPORT, artifact=text("late"))
    await service.close()

    assert [0] == await artifacts.list_versions(**REPORT)
    assert text("kept") == await artifacts.load_artifact(**REPORT)


@pytest.mark.emulators
async def test_a_delete_whose_answers_are_lost_is_complete(artifacts: GcsArtifactService) -> None:
    """An object that is gone already is what was wanted."""
    for _ in range(3):
        await artifacts.save_artifact(**REPORT, artifact=text("x"))
    service = losing(artifacts.bucket_name, "DELETE", 2)
    await service.delete_artifact(**REPORT)
    await service.close()

    assert [] == await artifacts.list_versions(**REPORT)


@pytest.mark.emulators
@pytest.mark.usefixtures("passing")
async def test_a_save_that_is_never_answered_says_that_its_outcome_is_unknown(
    artifacts: GcsArtifactService,
) -> None:
    """It is no error that says: try again."""
    service = losing(artifacts.bucket_name, "POST", -1)
    with pytest.raises(OutcomeUnknownError) as caught:
        await service.save_artifact(**REPORT, artifact=text("x"))
    await service.close()

    assert not isinstance(caught.value, UnavailableError)


@pytest.mark.emulators
async def test_a_save_gives_up_after_so_many_taken_numbers(artifacts: GcsArtifactService) -> None:
    """With an error that says that nothing was saved."""
    service = GcsArtifactService(artifacts.bucket_name, limits=ArtifactLimits(save_attempts=1))
    await service.save_artifact(**REPORT, artifact=text("0"))
    await artifacts.save_artifact(**REPORT, artifact=text("1"))
    with pytest.raises(ArtifactConflictError, match="1 version numbers were taken"):
        await service.save_artifact(**REPORT, artifact=text("late"))
    await service.close()

    assert [0, 1] == await artifacts.list_versions(**REPORT)


@pytest.mark.parametrize(
    "call",
    [
        lambda service: service.save_artifact(**REPORT, artifact=text("x")),
        lambda service: service.list_artifact_keys(**WHO),
        lambda service: service.load_artifact(**REPORT, version=0),
        lambda service: service.get_artifact_version(**REPORT, version=0),
        lambda service: service.save_artifact_file(**REPORT, source=io.BytesIO(b"x")),
        lambda service: service.open_artifact(**REPORT, version=0),
        lambda service: service.delete_session_artifacts(**WHO),
    ],
)
async def test_a_missing_bucket_is_named_with_the_command_that_makes_it(
    storage_emulator: Emulator, call: Callable[[GcsArtifactService], Awaitable[object]]
) -> None:
    """By every method, also those to whom a missing version is no error."""
    assert storage_emulator.address
    nowhere = GcsArtifactService("no-such-bucket")
    with pytest.raises(
        NotProvisionedError, match=r"make it: gcloud storage buckets create gs://no-such-bucket"
    ):
        await call(nowhere)
    await nowhere.close()


async def test_that_the_bucket_exists_is_asked_once(adk_store_bucket: str) -> None:
    """By the first look at something that is not there, whose two requests may both ask."""
    http = MeteredSession()
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    service = GcsArtifactService(adk_store_bucket, client=client)
    assert None is await service.load_artifact(**REPORT, version=0)
    first = http.take().requests
    assert None is await service.load_artifact(**REPORT, version=0)

    assert first["list"] in (1, 2)
    assert {"metadata": 1, "media": 1} == dict(http.take().requests)


class Refuses(requests.adapters.HTTPAdapter):
    """Answers every request as to somebody who may not."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Answer."""
        response = requests.Response()
        response.status_code, response.request, response.url = 403, request, request.url or ""
        response.raw = urllib3.HTTPResponse(
            io.BytesIO(b'{"error": {"message": "secret"}}'), preload_content=False
        )
        return response


@pytest.mark.parametrize(
    ("call", "permission"),
    [
        (lambda service: service.load_artifact(**REPORT, version=0), "storage.objects.get"),
        (lambda service: service.list_versions(**REPORT), "storage.objects.list"),
        (lambda service: service.open_artifact(**REPORT, version=0), "storage.objects.get"),
        (lambda service: service._objects.create("n", UPLOAD), "storage.objects.create"),
        (lambda service: service._objects.delete("n", generation=1), "storage.objects.delete"),
        (lambda service: service._objects.copy(OBJECT, "n", UPLOAD), "storage.objects.create"),
    ],
)
async def test_who_may_not_is_told_the_permission_and_the_bucket(
    adk_store_bucket: str, call: Callable[[GcsArtifactService], Awaitable[object]], permission: str
) -> None:
    """And the role that has it; what the server said stays in the cause."""
    http = LosingSession("NONE", 0)
    http.mount("http://", Refuses())
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    service = GcsArtifactService(adk_store_bucket, client=client)
    with pytest.raises(AccessDeniedError) as caught:
        await call(service)

    assert f"bucket '{adk_store_bucket}' on the emulator at " in str(caught.value)
    told = f": Forbidden; this identity lacks {permission} on it; grant roles/storage.objectUser"
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_missing_credentials_name_the_ways_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The command to run, and the variables of the emulators."""
    monkeypatch.delenv(STORAGE_VARIABLE, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    service = GcsArtifactService("bucket")
    with pytest.raises(
        AccessDeniedError, match=r"gcloud auth application-default login.*STORAGE_EMULATOR_HOST"
    ):
        await service.list_artifact_keys(**WHO)
    await service.close()
