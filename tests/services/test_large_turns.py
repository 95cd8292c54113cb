"""Large pictures go through a turn of ADK's runner, in little memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gcp_adk_store.testing.emulators import Emulator

ROOT = Path(__file__).parents[2]
MB = 1_000_000


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
    command = [sys.executable, "-m", "tests.services.large_turn", f"{size}"]
    run = subprocess.run(
        [*command, adk_store_bucket] if with_bucket else command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == run.returncode, run.stderr
    took = json.loads(run.stdout.splitlines()[-1])

    assert (f"{size} bytes", True) == (took["answer"], took["equal"])
    assert took["turn"] < 4
    assert took["read"] < 4
