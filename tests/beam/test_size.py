"""The extra is as large as its page says; tests/release measures the others."""

from tests.release.test_sizes import ROWS, near
from tools.release.sizes import installed, sizes


def test_the_size_of_beam_is_that_of_the_page() -> None:
    """With what it needs in turn, in the environment that has it."""
    assert near(ROWS["beam"][1], sizes(installed())["beam"])
