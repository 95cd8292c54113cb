"""Show which version of a file was the latest at a point of its session."""

from collections.abc import Mapping

import pytest

from gcp_adk_store.model.artifacts import ArtifactsAt

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
