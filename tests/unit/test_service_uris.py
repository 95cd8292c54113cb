"""Show what service URIs say, that nothing of one is ignored, and how a mistake in one is reported."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import ArtifactLimits, InvalidInputError, MemoryLimits, SessionLimits, StoreSettings
from gcp_adk_store.adk_server import artifact_service, memory_service, session_service
from tests.support.server_end import close_services


@pytest.fixture(autouse=True, scope="module")
def closed() -> Iterator[None]:
    """Close the services of these URIs at the end."""
    yield
    asyncio.run(close_services())


PROJECTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}", fullmatch=True)
DATABASES = st.just("(default)") | st.from_regex(r"[a-z][a-z0-9-]{2,61}[a-z0-9]", fullmatch=True)
BUCKETS = st.from_regex(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", fullmatch=True)
PREFIXES = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,31}", fullmatch=True)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("firestore://", {}),
        ("firestore:///", {}),
        ("firestore://p", {"project": "p"}),
        ("firestore://p/", {"project": "p"}),
        ("firestore:///data", {"database": "data"}),
        ("firestore://p/(default)?", {"project": "p", "database": "(default)"}),
        ("FIRESTORE://p/%28default%29", {"project": "p", "database": "(default)"}),
        ("firestore://example.com:p/data", {"project": "example.com:p", "database": "data"}),
        ("firestore://example.com%3Ap", {"project": "example.com:p"}),
        (
            "firestore://p?prefix=%61dk2&bucket=my-bucket",
            {"project": "p", "prefix": "adk2", "bucket": "my-bucket"},
        ),
        ("firestore://?on_conflict=merge&durability=turn", {"on_conflict": "merge", "durability": "turn"}),
        (
            "firestore://?on_missing_payload=placeholder&default_ttl_seconds=86400",
            {"on_missing_payload": "placeholder", "default_ttl_seconds": 86400.0},
        ),
        (
            "firestore://?deadline_s=2.5&max_in_flight=8",
            {"limits": SessionLimits(deadline_s=2.5, max_in_flight=8)},
        ),
    ],
)
def test_a_uri_of_sessions_is_read(uri: str, expected: dict[str, Any]) -> None:
    """What it leaves out is left to the service: with the same options, it is the same service."""
    assert session_service(uri) is session_service("firestore://", **expected)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("gs://my-bucket", {}),
        ("gs://my-bucket/", {}),
        ("gs://my%2Dbucket?project=p", {"project": "p"}),
        (
            "gs://my-bucket?kms_key_name=projects%2FP/locations/L/keyRings/R/cryptoKeys/K&storage_class=NEARLINE",
            {"kms_key_name": "projects/P/locations/L/keyRings/R/cryptoKeys/K", "storage_class": "NEARLINE"},
        ),
        (
            "gs://my-bucket?signing_service_account=a+b@p.iam.gserviceaccount.com",
            {"signing_service_account": "a+b@p.iam.gserviceaccount.com"},
        ),
        ("gs://my-bucket?max_workers=4", {"limits": ArtifactLimits(max_workers=4)}),
    ],
)
def test_a_uri_of_artifacts_is_read(uri: str, expected: dict[str, Any]) -> None:
    """A plus is a plus."""
    assert artifact_service(uri) is artifact_service("gs://my-bucket", **expected)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("firestore://p?prefx=x", "unknown option 'prefx'; did you mean 'prefix'?"),
        ("firestore://p?ttl_seconds=5", "unknown option 'ttl_seconds'; did you mean 'default_ttl_seconds'?"),
        (
            "firestore://p?zzz=1",
            "unknown option 'zzz'; the known ones are bucket, deadline_s, ",
        ),
        ("firestore://p?credentials=x", "unknown option 'credentials'; the known ones are "),
        ("firestore://p?prefix=a&prefix=a", "the parameter 'prefix' is there twice"),
        ("firestore://p?prefix", "the parameter 'prefix' has no name or no value"),
        ("firestore://p?prefix=", "the parameter 'prefix' has no name or no value"),
        ("firestore://p?=x", "the parameter '' has no name or no value"),
        ("firestore://p?prefix=a&", "the parameter '' has no name or no value"),
        ("firestore://p?max_in_flight=1.5", "max_in_flight is '1.5', it must be a whole number"),
        ("firestore://p?deadline_s=nan", "deadline_s is 'nan', it must be a number such as 30 or 0.5"),
        ("firestore://p?default_ttl_seconds=-1", "default_ttl_seconds is '-1', it must be a number"),
        ("firestore://p/data/more", "database 'data/more' must be "),
        ("firestore://p//data", "database '/data' must be "),
        ("firestore://u:secret@p", "'firestore://...@p' is not a URI of the form"),
        ("postgresql://u:secret@host/db?x=@", "'postgresql://...@host/db?x=@' is not a URI of the form"),
        ("firestore://p%zz", "in 'p%zz' a % is not followed by two hexadecimal digits"),
        ("firestore://p?prefix=%ff", "'%ff' is not percent-encoded UTF-8"),
        ("firestore://p?prefix=a#b", "is not a URI of the form firestore://...?name=value&..."),
        ("firestore:p", "is not a URI of the form"),
        ("firestore://p\n", "is not a URI of the form"),
        ("fire\tstore://p", "is not a URI of the form"),
        ("firestore://p ?prefix=a", "is not a URI of the form"),
        ("firestore+local:///my agents/a", "or firestore+local:///PATH, with a space as %20 and # as %23"),
        ("gs://bucket", "is not a URI of the form firestore://"),
        ("", "is not a URI of the form"),
    ],
)
def test_a_mistake_in_a_uri_of_sessions_is_reported(uri: str, message: str) -> None:
    """What it is, and for a name what may have been meant; never a password."""
    with pytest.raises(InvalidInputError) as caught:
        session_service(uri)

    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("gs://b", "bucket 'b' must be a bucket's name, without gs:// and folders: 3 to 222"),
        ("gs://", "bucket '' must be a bucket's name, without gs://"),
        ("gs://my-bucket/folder", "gs://my-bucket is a whole bucket; '/folder' cannot follow it"),
        ("gs://my-bucket?prefix=adk", "gs://: unknown option 'prefix'; the known ones are "),
        ("gs://my-bucket?kms_key_name=K", "kms_key_name 'K' must be the full name of a key"),
        (
            "gs://my-bucket?kms_key_name=projects/P/locations/L/keyRings/R/cryptoKeys/K%0D%0AX:1",
            "must be the full name of a key",
        ),
        ("gs://my-bucket?signing_service_account=me", "'me' must be the email of a service account"),
        ("gs://my-bucket?signing_service_account=a/../b@p", "must be the email of a service account"),
        ("firestore://p", "is not a URI of the form gs://"),
    ],
)
def test_a_mistake_in_a_uri_of_artifacts_is_reported(uri: str, message: str) -> None:
    """The same way."""
    with pytest.raises(InvalidInputError) as caught:
        artifact_service(uri)

    assert message in str(caught.value)


@given(
    settings=st.builds(
        StoreSettings,
        project=st.none() | PROJECTS,
        database=DATABASES,
        bucket=st.none() | BUCKETS,
        prefix=PREFIXES,
    )
)
def test_the_uris_of_settings_say_what_the_settings_say(settings: StoreSettings) -> None:
    """A server that is given them stores where ``Store.from_env()`` does."""
    project = {"project": settings.project} if settings.project else {}
    prefix = {"prefix": settings.prefix} if settings.prefix != "adk" else {}
    bucket = {"bucket": settings.bucket} if settings.bucket else {}
    said = {**project, "database": settings.database, **prefix, **bucket}

    assert session_service(settings.session_service_uri()) is session_service("firestore://", **said)
    if settings.bucket is not None:
        artifacts = artifact_service(settings.artifact_service_uri())

        assert artifacts is artifact_service(f"gs://{settings.bucket}", **project)


def test_settings_without_a_bucket_have_no_uri_of_artifacts() -> None:
    """A server without one would keep artifacts in memory, so that is an error."""
    with pytest.raises(InvalidInputError, match="ADK_STORE_BUCKET"):
        StoreSettings().artifact_service_uri()


@pytest.mark.parametrize(
    ("uri", "place", "expected"),
    [
        ("firestore://", "firestore://", {}),
        (
            "firestore://p/data?bucket=my-bucket",
            "firestore://",
            {"project": "p", "database": "data", "bucket": "my-bucket"},
        ),
        (
            "firestore+local:///data/store?prefix=adk2",
            "firestore+local:///data/store",
            {"prefix": "adk2"},
        ),
        (
            "firestore://?default_ttl_seconds=60&max_results=5",
            "firestore://",
            {"default_ttl_seconds": 60.0, "limits": MemoryLimits(max_results=5)},
        ),
    ],
)
def test_the_uri_of_memories_is_that_of_sessions(uri: str, place: str, expected: dict[str, Any]) -> None:
    """With options of its own."""
    assert memory_service(uri) is memory_service(place, **expected)


@pytest.mark.parametrize(
    "uri", ["gs://bucket", "firestore://?on_conflict=merge", "firestore://?max_results=x"]
)
def test_a_uri_that_memories_do_not_have_is_refused(uri: str) -> None:
    """The error names what is unknown."""
    with pytest.raises(InvalidInputError):
        memory_service(uri)


def test_a_path_that_is_not_utf_8_has_no_uri() -> None:
    """A store may be there; no server could read its URI."""
    place = StoreSettings(local="/data/\udcff")

    for uri in (place.session_service_uri, place.artifact_service_uri):
        with pytest.raises(InvalidInputError, match="is not UTF-8, and has no URI"):
            uri()
