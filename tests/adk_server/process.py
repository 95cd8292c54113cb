"""Run a server as a process of its own, on a port that it picks itself."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from gcp_adk_store.testing import tether

READY_S: Final = 60.0
_ADDRESS: Final = re.compile(r"Uvicorn running on (http://\S+)")
_PROCESS: Final = re.compile(r"Started server process \[(\d+)\]")


class Server:
    """A server that answers; it ends with this process in any case."""

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str], cwd: Path, log: Path) -> None:
        """Start it with port 0, and wait until it says that it runs, and where."""
        self._log = log
        with log.open("wb") as output:
            self._tether = subprocess.Popen(
                [sys.executable, "-S", tether.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
        try:
            self.url = self.says(_ADDRESS).replace("//0.0.0.0:", "//127.0.0.1:")
            self._pid = int(self.says(_PROCESS))
        except BaseException:
            self.stop()
            raise

    @property
    def log(self) -> str:
        """What it printed so far."""
        return self._log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send the server itself a signal."""
        os.kill(self._pid, number)

    def ended(self) -> int:
        """Wait until it is gone; return its status as a shell's."""
        status = self._tether.wait(READY_S)
        self.stop()
        return status

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.send(signal.SIGKILL)
        assert 128 + signal.SIGKILL == self.ended()

    def stop(self) -> None:
        """End it where it still runs."""
        # Whatever it is asked, the tether ends the server when this pipe closes.
        self._tether.communicate(timeout=READY_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def says(self, what: re.Pattern[str]) -> str:
        """Wait until its log has *what*; return the first group."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            found = what.search(self.log)
            if found:
                return found[1]
            try:
                status = self._tether.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the server ended with status {status} as it started:\n{self.log}")
        raise AssertionError(f"the server does not run after {READY_S:.0f} s:\n{self.log}")
