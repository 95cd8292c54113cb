"""Artifacts on the strict storage emulator: ADK's contract, and its own service as a neighbour."""

import io
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import requests
from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import AccessDeniedError, GcsArtifactService, InvalidInputError, NotProvisionedError
from gcp_adk_store.testing.conformance.running import binary, file, reference, text
from gcp_adk_store.testing.emulators import STORAGE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import Refuse, from_nth, only
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.services.conftest import WHO

REPORT: dict[str, Any] = {**WHO, "filename": "report.txt"}
TARGET: dict[str, Any] = {**WHO, "filename": "target"}


def bucket_of(artifacts: GcsArtifactService) -> Any:
    """Return the bucket as Google's own client has it."""
    return Client(project="demo", credentials=AnonymousCredentials()).bucket(artifacts.bucket_name)


@pytest.fixture
def adk_artifacts(artifacts: GcsArtifactService) -> AdkGcsArtifactService:
    """ADK's own service on the same bucket."""
    return AdkGcsArtifactService(artifacts.bucket_name, project="demo", credentials=AnonymousCredentials())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"app_name": ""}, "app_name must not be empty"),
    ({"session_id": "/x"}, "must not be an absolute path or start with a slash"),
    ({"session_id": None}, "Session ID must be provided"),
    ({"filename": ""}, "filename must not be empty"),
    ({"filename": "a\nb"}, "line breaks"),
    ({"filename": "ü" * 506}, "object name of 1031 bytes, the limit is 1024"),
    ({"session_id": "user"}, "reserved value 'user'"),
    ({"artifact": types.Part()}, "must have either inline_data or text"),
    ({"artifact": file("")}, "must have a file_uri"),
    ({"artifact": binary(b"x", "image/é")}, "cannot be sent as a header"),
    ({"artifact": binary(b"x", "image/png\n")}, "cannot be sent as a header"),
    ({"artifact": file("gs://a/b", "image/\ud800")}, "cannot be sent as a header"),
    ({"artifact": file("gs://b/\ud800")}, "file_uri holds a lone surrogate"),
    ({"artifact": {"text": 3}}, "artifact is no Part, at text"),
    ({"artifact": {"tool_call": {"tool_type": 3}}}, "artifact is no Part, at an enumeration"),
    ({"artifact": {1: 2}}, "artifact is no Part: its keys are not all texts"),
    ({"artifact": reference({**TARGET, "session_id": "else"})}, "same session scope"),
    ({"custom_metadata": {"big": "x" * 9000}}, "the limit is 8192"),
    ({"custom_metadata": {"no": object()}}, "JSON cannot hold"),
    ({"custom_metadata": {3: "x"}}, "a key of custom_metadata must be a string, not int"),
]


async def test_what_cannot_be_saved_is_refused_before_anything_is_sent(artifacts: GcsArtifactService) -> None:
    """With ADK's phrases where it has them, as an error that is ADK's too."""
    for change, message in REFUSED:
        with pytest.raises(InvalidInputError, match=message) as caught:
            await artifacts.save_artifact(**{**REPORT, "artifact": text("x"), **change})

        assert isinstance(caught.value, InputValidationError)
        assert "save_artifact" == caught.value.operation
        assert "user_id=" in caught.value.key
    assert [] == await artifacts.list_artifact_keys(**WHO)


@pytest.mark.emulators
async def test_a_reference_that_was_tampered_with_is_not_followed(artifacts: GcsArtifactService) -> None:
    """The scope is checked again when it is loaded."""
    await artifacts.save_artifact(**REPORT, artifact=reference(REPORT))
    blob = bucket_of(artifacts).get_blob("app/user/session/report.txt/0")
    blob.metadata = {"adkFileUri": "artifact://apps/app/users/user/sessions/else/artifacts/f/versions/0"}
    blob.patch()

    with pytest.raises(InvalidInputError, match="same session scope"):
        await artifacts.load_artifact(**REPORT)


SHARED = [text("words"), text(""), binary(b"\x00", "image/png", "name.png"), binary(b"", "application/pdf"),
          file("gs://elsewhere/a.pdf", "application/pdf"), reference(TARGET)]  # fmt: skip


@pytest.mark.emulators
async def test_adks_own_service_reads_what_this_one_wrote(
    artifacts: GcsArtifactService, adk_artifacts: AdkGcsArtifactService
) -> None:
    """Parts, versions, keys and texts in the metadata."""
    await artifacts.save_artifact(**TARGET, artifact=text("target"))
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
    await adk_artifacts.save_artifact(**TARGET, artifact=text("target"))
    for part in SHARED:
        await adk_artifacts.save_artifact(**REPORT, artifact=part, custom_metadata={"s": "text"})
    loaded = [await artifacts.load_artifact(**REPORT, version=n) for n in range(len(SHARED))]
    mine = await artifacts.get_artifact_version(**REPORT)
    theirs = await adk_artifacts.get_artifact_version(**REPORT)
    bucket = bucket_of(artifacts)
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
    with pytest.raises(InvalidInputError, match="version=<int>: version is a whole number of 16,610 bits"):
        await artifacts.load_artifact(**full, version=10**5000)


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


@pytest.mark.emulators
@pytest.mark.parametrize(
    ("call", "asks", "permission"),
    [
        (lambda service: service.load_artifact(**REPORT, version=0), "metadata", "get"),
        (lambda service: service.list_versions(**REPORT), "list", "list"),
        (lambda service: service.open_artifact(**REPORT, version=0), "metadata", "get"),
        (lambda service: service.save_artifact(**REPORT, artifact=text("1")), "upload", "create"),
        (lambda service: service.delete_artifact(**REPORT), "delete", "delete"),
        (lambda service: service.copy_artifact(**REPORT, to_filename="b"), "rewrite", "create"),
    ],
)
async def test_who_may_not_gets_the_permission_and_the_bucket(
    storage_proxy: StorageProxy,
    adk_store_bucket: str,
    call: Callable[[GcsArtifactService], Awaitable[object]],
    asks: str,
    permission: str,
) -> None:
    """And the role that has it; what the server said stays in the cause."""
    async with GcsArtifactService(adk_store_bucket) as service:
        await service.save_artifact(**REPORT, artifact=text("0"))
        storage_proxy.plan = only(asks, from_nth(0, Refuse("PERMISSION_DENIED")))
        with pytest.raises(AccessDeniedError) as caught:
            await call(service)

    assert f"bucket '{adk_store_bucket}' on the emulator at " in str(caught.value)
    advice = f": Forbidden; this identity lacks storage.objects.{permission} on it; grant roles/storage."
    assert advice in str(caught.value)
    assert "on purpose" not in str(caught.value)


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


FETCHES = "_fetch_background"
"""What the threads are for that Google's client starts by itself, by the end of their names."""


async def test_a_new_client_does_not_look_at_the_bucket_by_itself(
    adk_store_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's client asks for its place for each bucket, on a thread: a request that nobody counts."""
    sent: list[str] = []
    send: Any = requests.Session.send

    def noted(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> Any:
        if adk_store_bucket in request.path_url:  # threads of earlier tests may still ask for their buckets
            sent.append(f"{request.method} {request.path_url.partition('?')[0]}")
        return send(session, request, **options)

    monkeypatch.setattr(requests.Session, "send", noted)
    artifacts = GcsArtifactService(adk_store_bucket)
    none = {"app_name": "a", "user_id": "u", "filename": "user:f"}
    for _ in range(2):
        assert await artifacts.get_artifact_version(**none, version=0) is None
    for thread in threading.enumerate():
        if FETCHES in thread.name:
            thread.join()
    await artifacts.close()

    bucket = f"/storage/v1/b/{adk_store_bucket}"
    name = "a%2Fu%2Fuser%2Fuser%3Af%2F0"
    looks = [f"GET {bucket}/o/{name}", f"GET {bucket}/o", f"GET {bucket}/o/{name}"]
    assert looks == sent, "the object, once whether there is a bucket, and the object"
