"""Show which segments hold a session's events, after any seals and restores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.model.session_fields import Cut, are_runs, cut_from, is_cut, live_numbers, newest_live


@pytest.mark.parametrize(
    ("sealed", "cut", "live"),
    [
        (0, (), []),
        (3, (), [0, 1, 2]),
        (3, (range(3),), []),
        (6, (range(2, 4),), [0, 1, 4, 5]),
        (7, (range(1), range(2, 4), range(5, 7)), [1, 4]),
    ],
)
def test_segments_that_were_not_cut_off_hold_the_events(sealed: int, cut: Cut, live: list[int]) -> None:
    """The newest of them is known without the list."""
    assert live == list(live_numbers(sealed, cut))
    assert (live[-1] if live else None) == newest_live(sealed, cut)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 10)), max_size=12))
def test_numbers_are_those_of_a_list_of_segments(steps: list[tuple[int, int]]) -> None:
    """Any seals, each followed by a restore that keeps some: no number is used twice, and runs stay few."""
    model: list[int] = []
    used: set[int] = set()
    sealed = 0
    cut: Cut = ()
    for seals, kept in steps:
        for _ in range(seals):
            assert sealed not in used
            used.add(sealed)
            model.append(sealed)
            sealed += 1
        tail = sealed
        del model[kept:]
        last = model[-1] if model else -1
        first = next((number for number in range(last + 1, sealed) if not is_cut(number, cut)), sealed)
        cut = cut_from(first, sealed=sealed, cut=cut)
        sealed += 1

        assert model == list(live_numbers(sealed, cut))
        assert (model[-1] if model else None) == newest_live(sealed, cut)
        assert are_runs(cut, sealed=sealed)
        assert is_cut(tail, cut)
        assert not is_cut(sealed, cut)
        assert len(cut) <= len(model) + 1


@pytest.mark.parametrize(
    "runs", [[range(1, 1)], [range(2, 1)], [range(3, 6)], [range(2), range(2, 3)], [range(3, 4), range(1)]]
)
def test_damaged_runs_are_recognised(runs: list[range]) -> None:
    """Empty, beyond the segments, touching each other, or out of order."""
    assert not are_runs(runs, sealed=5)
