"""Start one Firestore emulator for all processes of a run of pytest, once the first of them needs it.

Each test has a project of its own there. The process that starts the others starts it, so it ends after them.
"""

import os
import threading
from contextlib import suppress
from multiprocessing.connection import Client, Listener
from typing import Final

from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator, EmulatorError, firestore_emulator

_VARIABLE: Final = "TESTS_SHARED_FIRESTORE"
_ENDS: Final = "ends"


class SharedEmulator:
    """What the processes of a run ask for their emulator."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._listener = Listener(backlog=64, authkey=self._key)
        self._emulator: Emulator | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        os.environ[_VARIABLE] = f"{self._key.hex()}@{self._listener.address}"

    def stop(self) -> None:
        """End the emulator where it was started."""
        with Client(self._listener.address, authkey=self._key) as asking:
            asking.send(_ENDS)
        self._thread.join()
        self._listener.close()
        os.environ.pop(_VARIABLE)
        if self._emulator is not None:
            self._emulator.stop()

    def _serve(self) -> None:
        while True:
            with self._listener.accept() as asked:
                if asked.recv() == _ENDS:
                    return
                with suppress(OSError):  # who asked has ended
                    asked.send(self._answer())

    def _answer(self) -> tuple[str, str]:
        try:
            self._emulator = self._emulator or firestore_emulator()
        except EmulatorError as exc:
            return "", str(exc)
        return self._emulator.address, ""


def firestore_of_run() -> Emulator:
    """Return the emulator of this run, or one of this process, which is a run by itself.

    Raises:
        EmulatorError: It does not start.
    """
    shared = os.environ.get(_VARIABLE)
    if shared is None:
        return firestore_emulator()
    key, _, at = shared.partition("@")
    with Client(at, authkey=bytes.fromhex(key)) as asking:
        asking.send("")
        address, why_not = asking.recv()
    if why_not:
        raise EmulatorError(why_not)
    return firestore_emulator(environ={FIRESTORE_VARIABLE: address})
