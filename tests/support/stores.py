"""The stores that tests run on: the emulators of the cloud's, and a folder of this machine."""

from typing import Final

import pytest

STORES: Final = (pytest.param("emulators", marks=pytest.mark.emulators), "folder")
"""For the ``params`` of a fixture that makes a store; `make quick` leaves out the emulators."""
