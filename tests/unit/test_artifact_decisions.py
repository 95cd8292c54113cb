"""Show where references lead, which version comes next, and what counts as removed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.artifacts import (
    STORAGE_CLASSES,
    ArtifactReference,
    is_tombstone,
    next_version,
    require_storage_class,
    time_after,
)
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope

HERE = ArtifactScope(app="a/b", user="u", session="s")


@pytest.mark.parametrize(
    ("uri", "session", "filename", "version"),
    [
        ("artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/0", "s", "f", 0),
        ("artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/012", "s", "f", 12),
        ("artifact://apps/a/b/users/u/sessions/ s /artifacts/f/versions/3", "s", "f", 3),
        ("artifact://apps/a/b/users/u/sessions/s/artifacts/x/y.txt/versions/3", "s", "x/y.txt", 3),
        ("artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/1/versions/2", "s", "f/versions/1", 2),
        ("artifact://apps/a/b/users/u/sessions/s/artifacts/user:f/versions/3", None, "user:f", 3),
        ("artifact://apps/a/b/users/u/artifacts/user:f/versions/3", None, "user:f", 3),
        (
            "artifact://apps/a/b/users/u/artifacts/user:x/artifacts/y/versions/3",
            None,
            "user:x/artifacts/y",
            3,
        ),
    ],
)
def test_a_reference_leads_to_an_artifact(uri: str, session: str | None, filename: str, version: int) -> None:
    """Names with slashes, user artifacts and padded sessions are found as ADK finds them."""
    target = ArtifactReference.parse(uri, within=HERE)

    assert (
        ArtifactKey(scope=ArtifactScope(app="a/b", user="u", session=session), filename=filename),
        version,
    ) == (target.key, target.version)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "artifact://",
        "gs://bucket/f",
        "artifact://apps/a/b/users/u/sessions/s/artifacts/f",
        "artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/",
        "artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/latest",
        "artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/-1",
        "artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/٣",
        "artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/1\n",
        "artifact://apps/a/b/users/u/sessions/s/artifacts//versions/1",
        "artifact://apps//users/u/sessions/s/artifacts/f/versions/1",
        " artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/1",
    ],
)
def test_what_is_no_reference_is_refused(uri: str) -> None:
    """An incomplete or foreign URI is named in the error, in ADK's words."""
    with pytest.raises(InvalidInputError) as caught:
        ArtifactReference.parse(uri, within=HERE)

    assert f"Invalid artifact reference URI: {uri}" == str(caught.value)


@pytest.mark.parametrize(
    ("uri", "phrase"),
    [
        ("artifact://apps/a/users/u/sessions/s/artifacts/f/versions/1", "same app and user scope"),
        ("artifact://apps/a/b/users/v/sessions/s/artifacts/f/versions/1", "same app and user scope"),
        ("artifact://apps/a/b/users/v/artifacts/user:f/versions/1", "same app and user scope"),
        ("artifact://apps/a/b/users/u/sessions/t/artifacts/f/versions/1", "same session scope"),
        ("artifact://apps/a/b/users/u/sessions/t/artifacts/user:f/versions/1", "same session scope"),
        ("artifact://apps/a/b/users/u/sessions/S/artifacts/f/versions/1", "same session scope"),
        ("artifact://apps/a/b/users/u/artifacts/f/versions/1", "Session ID must be provided"),
    ],
)
def test_a_reference_stays_in_its_scope(uri: str, phrase: str) -> None:
    """No reference reaches another app, user or session."""
    with pytest.raises(InvalidInputError, match=phrase):
        ArtifactReference.parse(uri, within=HERE)


def test_a_reference_of_no_session_reaches_no_session() -> None:
    """A user's artifact loaded without a session cannot lead into one."""
    with pytest.raises(InvalidInputError, match="same session scope"):
        ArtifactReference.parse(
            "artifact://apps/a/users/u/sessions/s/artifacts/f/versions/1",
            within=ArtifactScope(app="a", user="u", session=None),
        )


@pytest.mark.parametrize(
    ("versions", "expected"), [([], 0), ([0], 1), ([0, 1, 2], 3), ([7, 3], 8), ([9, 10], 11)]
)
def test_the_next_version_follows_the_highest(versions: list[int], expected: int) -> None:
    """Numbering starts at 0 and goes on after the highest, gaps or not."""
    assert expected == next_version(iter(versions))


@pytest.mark.parametrize(
    ("lifetime", "expected"),
    [
        (timedelta(days=1), datetime(2026, 1, 2, tzinfo=UTC)),
        (timedelta(hours=1, seconds=0.5), datetime(2026, 1, 1, 1, 0, 0, 500_000, tzinfo=UTC)),
        (timedelta(microseconds=1), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        (
            datetime(9999, 12, 31, tzinfo=UTC) - datetime(2026, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, tzinfo=UTC),
        ),
    ],
)
def test_a_lifetime_is_counted_from_the_save(lifetime: timedelta, expected: datetime) -> None:
    """As an absolute time, which no zone of the machine moves."""
    assert expected == time_after(lifetime, now=1767225600)


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=36_500)), st.integers(0, 4_000_000_000))
def test_a_lifetime_is_kept_to_the_microsecond(lifetime: timedelta, now: int) -> None:
    """Whatever it is, and whenever the save comes."""
    assert lifetime == time_after(lifetime, now=now) - datetime.fromtimestamp(now, UTC)


@pytest.mark.parametrize(
    ("lifetime", "shown"),
    [
        (timedelta(0), "datetime.timedelta(0)"),
        (timedelta(seconds=-1), "datetime.timedelta(days=-1, seconds=86399)"),
        (timedelta.min, "datetime.timedelta(days=-999999999)"),
        (timedelta.max, "datetime.timedelta(days=999999999, seconds=86399, microseconds=999999"[:60]),
        (60, "60"),
        (60.0, "60.0"),
        (True, "True"),
        (None, "None"),
        ("1h", "'1h'"),
        (datetime(2026, 1, 2, tzinfo=UTC), repr(datetime(2026, 1, 2, tzinfo=UTC))[:60]),
        ("x" * 100, "'" + "x" * 59),
    ],
)
def test_what_is_no_lifetime_is_refused(lifetime: Any, shown: str) -> None:
    """A number has no unit, a point in time is none, and the calendar ends; little of a long one is shown."""
    with pytest.raises(InvalidInputError) as caught:
        time_after(lifetime, now=1767225600.0)

    assert f"expires_after is {shown}, it must be a timedelta above 0" == str(caught.value)


@pytest.mark.parametrize("name", [None, "STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"])
def test_a_storage_class_is_taken_as_it_is_called(name: str | None) -> None:
    """Or none at all, for the bucket's own."""
    assert name == require_storage_class(name)
    assert name is None or name in STORAGE_CLASSES


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "''"),
        ("standard", "'standard'"),
        ("ARCHIVE ", "'ARCHIVE '"),
        ("REGIONAL", "'REGIONAL'"),
        (5, "5"),
        (True, "True"),
        (["STANDARD"], "['STANDARD']"),
        ("X" * 100, "'" + "X" * 59),
    ],
)
def test_what_is_no_storage_class_is_refused(name: Any, shown: str) -> None:
    """The error says which there are, before anything is sent, and shows little of a long one."""
    with pytest.raises(InvalidInputError) as caught:
        require_storage_class(name)

    assert f"storage_class is {shown}, it must be one of STANDARD, NEARLINE, COLDLINE, ARCHIVE" == str(
        caught.value
    )


def blob(data: bytes, mime_type: str | None, name: str | None = None) -> types.Part:
    """Return a part with inline bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name=name))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (blob(b"", "application/octet-stream"), True),
        (blob(b"x", "application/octet-stream"), False),
        (blob(b"", "application/pdf"), False),
        (blob(b"", None), False),
        (blob(b"", "application/octet-stream", "empty.bin"), False),
        (types.Part(text=""), False),
        (types.Part(), False),
    ],
)
def test_only_what_a_rewind_saves_counts_as_removed(part: types.Part, expected: bool) -> None:  # noqa: FBT001
    """Empty text, empty documents and named empty files are artifacts like any other."""
    assert expected is is_tombstone(part)
