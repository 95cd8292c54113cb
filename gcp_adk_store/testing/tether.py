"""Run a command that must not outlive its parent: it ends when standard input does.

Run by path, with nothing but the standard library, so that it starts at once. A pipe closes however the
parent ends, ``kill -9`` included, which no signal handler or fixture can promise.
"""

import os
import signal
import subprocess
import sys
import threading
from queue import SimpleQueue

_GRACE_S = 2.0  # an emulator has nothing to save
_STDIN = 0


def main(command: list[str]) -> int:
    """Run *command* until it exits, standard input speaks or closes, or SIGTERM comes; return its status.

    A command that a signal ended has the status that a shell gives it.
    """
    over: SimpleQueue[object] = SimpleQueue()  # its put() may be called by a signal handler
    signal.signal(signal.SIGTERM, lambda *_: over.put(None))
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # the caller's own command
    # Not sys.stdin: a thread that waits in its buffer aborts the interpreter's exit.
    threading.Thread(target=lambda: over.put(os.read(_STDIN, 1)), daemon=True).start()
    threading.Thread(target=lambda: over.put(child.wait()), daemon=True).start()
    over.get()
    child.terminate()
    try:
        status = child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        status = child.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
