"""Show where references lead, which version counts at a point, and which versions are equal."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, StoredArtifactVersion
from gcp_adk_store.codec.objects import require_storage_class
from gcp_adk_store.model.artifacts import ArtifactReference, ArtifactsAt, time_after
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


SAVED = {0: 10.0, 1: 20.0, 2: 30.0}


@pytest.mark.parametrize(
    ("kept", "later", "until", "saved", "expected"),
    [
        pytest.param([{"f": 0}], [{"f": 1}, {"f": 2}], 15.0, SAVED, 0, id="the last that was named"),
        pytest.param([{"f": 0}, {"f": 2}], [], None, SAVED, 2, id="the point is now"),
        pytest.param([], [{"f": 0}], 5.0, SAVED, None, id="it did not exist"),
        pytest.param([{"g": 0}], [{"g": 1}], 5.0, SAVED, None, id="another file"),
        pytest.param([], [{"f": 2}], 25.0, SAVED, 1, id="saved without an event, before the point"),
        pytest.param([{"f": 0}], [{"f": 2}], 25.0, SAVED, 1, id="saved without an event, after one with"),
        pytest.param([{"f": 0}], [{"g": 5}], 15.0, SAVED, 0, id="saved without an event, after the point"),
        pytest.param([], [{"g": 5}], 25.0, SAVED, 1, id="no event names it"),
        pytest.param([], [], None, SAVED, 2, id="no event names it, and the point is now"),
        # The clock of the bucket is ahead of that of the process by an hour, or behind it.
        pytest.param([{"f": 1}], [{"f": 2}], 15.0, SAVED, 1, id="named before, saved later by the clock"),
        pytest.param([{"f": 0}], [{"f": 1}], 99.0, SAVED, 0, id="named after, saved before by the clock"),
        pytest.param([{"f": 5}], [{"f": 0}], 5.0, SAVED, 5, id="deleted and saved anew"),
        pytest.param([{"f": 5}], [{"g": 0}], 5.0, {}, 5, id="deleted"),
    ],
)
def test_the_latest_version_at_a_point(
    kept: list[Mapping[str, int]],
    later: list[Mapping[str, int]],
    until: float | None,
    saved: Mapping[int, float],
    expected: int | None,
) -> None:
    """By the events that name it, and else by the time of its save."""
    assert expected == ArtifactsAt.of(kept=kept, later=later, until=until).version("f", saved)


@pytest.mark.parametrize(
    ("kept", "later", "until", "follows", "expected"),
    [
        # Version 3 is the copy of a restore, whose clock is ahead of that of the events, or a later version.
        pytest.param([{"f": 0}], [{"g": 0}], 25.0, {3: 0}, 0, id="the clock of the copy is ahead"),
        pytest.param([{"f": 0}], [{"g": 0}], 45.0, {3: 0}, 3, id="the copy"),
        pytest.param([], [{"g": 0}], 35.0, {3: -1}, None, id="a tombstone, before which there was nothing"),
        pytest.param([{"f": 1}], [{"f": 3}], 45.0, {3: 1}, 1, id="a later writer's"),
        pytest.param([{"f": 0}], [{"g": 0}], 35.0, {3: 2}, 2, id="what it follows counts"),
        pytest.param([{"f": 0}], [{"g": 0}], 35.0, {3: 10**18}, 2, id="a mark that follows itself"),
        pytest.param([], [{"g": 0}], 35.0, {10**18: -1}, None, id="a mark of a version that nobody has"),
    ],
)
def test_what_a_restore_cut_off_is_of_no_later_point(
    kept: list[Mapping[str, int]],
    later: list[Mapping[str, int]],
    until: float,
    follows: Mapping[int, int],
    expected: int | None,
) -> None:
    """The first version after the restore says which one it follows."""
    at = ArtifactsAt.of(kept=kept, later=later, until=until)
    assert expected == at.version("f", {**SAVED, 3: 40.0}, follows)


def test_the_artifacts_of_a_user_are_of_no_point() -> None:
    """All sessions of the user share them, as with ADK's rewind."""
    assert ArtifactsAt(until=1.0) == ArtifactsAt.of(kept=[{"user:f": 3}], later=[{"user:f": 4}], until=1.0)


def test_the_lowest_version_after_the_point_counts() -> None:
    """An event after the point may name an older version than one before it."""
    assert {"f": 2} == ArtifactsAt.of(kept=[], later=[{"f": 4}, {"f": 2}, {"f": 3}], until=1.0).later


DESCRIBED: dict[str, Any] = {
    "version": 3,
    "canonical_uri": "gs://bkt/app/user/session/f/3",
    "custom_metadata": {"n": [1, None]},
    "create_time": 1.5,
    "mime_type": "a/b",
}
OBJECT: dict[str, Any] = {"size": 5, "generation": 7, "crc32c": "AAAAAA==", "md5": None}
STORED = StoredArtifactVersion(**DESCRIBED, **OBJECT)
PLAIN = ArtifactVersion(**DESCRIBED)


def test_a_stored_version_equals_what_adk_says_of_it() -> None:
    """Both ways, in lists, and under ``!=``: what ADK does not describe does not count."""
    assert STORED == PLAIN
    assert PLAIN == STORED
    assert not STORED != PLAIN  # noqa: SIM202  # the operator is what is shown
    assert not PLAIN != STORED  # noqa: SIM202  # as above
    assert [PLAIN] == [STORED]


@pytest.mark.parametrize("change", [{"version": 4}, {"custom_metadata": {}}, {"mime_type": None}])
def test_a_stored_version_differs_where_adk_says_something_else(change: dict[str, Any]) -> None:
    """Both ways."""
    other = ArtifactVersion(**{**DESCRIBED, **change})

    assert STORED != other
    assert other != STORED


@pytest.mark.parametrize(
    "change", [{"size": 6}, {"generation": 8}, {"crc32c": None}, {"md5": "x"}, {"version": 4}]
)
def test_two_stored_versions_are_compared_as_a_whole(change: dict[str, Any]) -> None:
    """Bytes that were replaced under the same number are another version."""
    assert StoredArtifactVersion(**DESCRIBED, **OBJECT) == STORED
    assert StoredArtifactVersion(**{**DESCRIBED, **OBJECT, **change}) != STORED


def test_other_things_are_never_equal() -> None:
    """Nor other classes that describe a version, which say what equality with them is."""

    class Theirs(ArtifactVersion):
        """A version of another service."""

    assert STORED != DESCRIBED
    assert STORED != 3
    assert STORED != Theirs(**DESCRIBED)
