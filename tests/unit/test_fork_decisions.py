"""The segments of a fork are written in commits that Firestore takes."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.sessions.fork.format import SEGMENTS_PER_COMMIT, in_commits


@given(st.lists(st.integers(1, 1024 * 1024), max_size=12))
def test_segments_are_written_in_commits_that_firestore_takes(sizes: list[int]) -> None:
    """All of them, in order; the last run goes with the session document."""
    parts: list[Any] = [SimpleNamespace(fields={"body": bytes(size)}) for size in sizes]
    runs = list(in_commits(parts))
    assert parts == [part for run in runs for part in run]
    for run in runs:
        assert len(run) <= SEGMENTS_PER_COMMIT
        bodies = [part.fields["body"] for part in run]
        assert sum(len(body) for body in bodies if isinstance(body, bytes)) <= 4 * 1024 * 1024
    assert runs
