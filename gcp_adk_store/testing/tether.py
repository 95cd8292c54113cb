"""Run a command that must not outlive its parent: it ends when standard input does.

Run by path, with nothing but the standard library, so that it starts at once. A pipe closes however the
parent ends, ``kill -9`` included, which no signal handler or fixture can promise.
"""

import subprocess
import sys
import threading

_GRACE_S = 5.0


def main(command: list[str]) -> int:
    """Run *command* until it exits or standard input closes; return its exit status."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # the caller's own command

    def follow() -> None:
        sys.stdin.buffer.read()
        child.terminate()
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()

    threading.Thread(target=follow, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
