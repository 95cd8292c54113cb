"""Run a command beside other work: ``python -m tests.load 4 make test``.

So many busy loops, and two writers of the disk, run as long as the command. Its status is the status of this.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

# Each ends when this process does, however that ends: its input closes then.
_UNTIL_ALONE: Final = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
"""
_BUSY: Final = _UNTIL_ALONE + "while True: sum(range(10_000))\n"
_WRITING: Final = (
    _UNTIL_ALONE
    + """
with open(sys.argv[1], "wb") as file:
    while True:
        file.seek(0)
        file.write(bytes(8_000_000))
        file.flush()
        os.fsync(file.fileno())
"""
)
_WRITERS: Final = 2


def run_beside(loops: int, command: Sequence[str]) -> int:
    """Return the status of *command*, which runs beside *loops* busy loops and two writers."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        works = [[_BUSY]] * loops + [[_WRITING, f"{folder}/{number}"] for number in range(_WRITERS)]
        for work in works:
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", *work], stdin=subprocess.PIPE)
            )
            stack.callback(process.kill)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdecimal():  # a number and a command
        sys.exit("usage: python -m tests.load LOOPS COMMAND [ARGUMENT ...]")
    sys.exit(run_beside(int(sys.argv[1]), sys.argv[2:]))
