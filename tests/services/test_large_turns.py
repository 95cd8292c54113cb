"""Large pictures go through a turn of ADK's runner, in little memory."""

import pytest

from gcp_adk_store.testing.emulators import Emulator
from tests.services.large_turn import take_large_turn
from tests.support.ready_processes import elsewhere

MB = 1_000_000


@pytest.mark.sample(1)
@pytest.mark.linux
@pytest.mark.parametrize(("size", "with_bucket"), [(5 * MB, False), (20 * MB, True)])
def test_a_large_picture_goes_through_a_turn(
    firestore_emulator: Emulator,
    adk_store_bucket: str,
    size: int,
    with_bucket: bool,  # noqa: FBT001  # a case
) -> None:
    """The model sees it, it is read back byte by byte, and neither takes more than 4 times its size."""
    assert firestore_emulator.address
    took = elsewhere(take_large_turn, size, adk_store_bucket if with_bucket else None)

    assert (f"{size} bytes", True) == (took["answer"], took["equal"])
    assert took["turn"] < 4
    assert took["read"] < 4
