"""Show where references lead, which version comes next, and what counts as removed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError
from gcp_adk_store.codec.objects import require_storage_class
from gcp_adk_store.model.artifacts import ArtifactReference, time_after
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
    ("uri", "session", "phrase"),
    [
        ("artifact://apps/a/b/users/u/sessions/t/artifacts/user:f/versions/1", "s", "same session scope"),
        ("artifact://apps/a/b/users/u/sessions/S/artifacts/f/versions/1", "s", "same session scope"),
        ("artifact://apps/a/b/users/u/artifacts/f/versions/1", "s", "Session ID must be provided"),
        ("artifact://apps/a/b/users/u/sessions/s/artifacts/f/versions/1", None, "same session scope"),
    ],
)
def test_a_reference_stays_in_its_scope(uri: str, session: str | None, phrase: str) -> None:
    """A user's artifact that is loaded without a session cannot lead into one."""
    with pytest.raises(InvalidInputError, match=phrase):
        ArtifactReference.parse(uri, within=replace(HERE, session=session))


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=36_500)), st.integers(0, 4_000_000_000))
def test_a_lifetime_is_kept_to_the_microsecond(lifetime: timedelta, now: int) -> None:
    """Whatever it is, and whenever the save comes."""
    assert lifetime == time_after(lifetime, now=now) - datetime.fromtimestamp(now, UTC)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("standard", "'standard'"),
        ("ARCHIVE ", "'ARCHIVE '"),
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
