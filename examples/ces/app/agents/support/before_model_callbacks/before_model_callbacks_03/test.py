"""The counter of silences, run in the sandbox."""

import pytest

SILENCE = "<context>no user activity detected for 10 seconds.</context>"


@pytest.mark.parametrize(("before", "parts"), [(0, 1), (1, 1), (2, 2)])
def test_the_third_silence_ends_the_session(ces_callback, before: int, parts: int) -> None:
    """The first two are asked about."""
    ran = ces_callback(said=SILENCE, state={"silences": before})

    assert len(ran.override["content"]["parts"]) == parts
    assert ran.variables["silences"] == before + 1


def test_a_word_starts_the_count_again(ces_callback) -> None:
    """So only silences in a row count."""
    ran = ces_callback(said="here I am", state={"silences": 2})

    assert ran.override is None
    assert ran.variables["silences"] == 0
