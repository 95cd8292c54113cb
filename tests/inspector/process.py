"""Run ``gcp-adk-store inspect`` as a reader does."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ready_programs import ready_programs


@contextmanager
def inspected(line: str, *options: str, at: Path) -> Iterator[str]:
    """Run a command of the document with a free port, and yield the address that it prints."""
    words = [str(ready_programs() / "gcp-adk-store"), *line.split()[1:], "--port", "0", *options]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ADK_STORE_")}
    with subprocess.Popen(
        words, cwd=at, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        where, address = process.stdout.readline(), process.stdout.readline()
        try:
            assert where.startswith("folder support-store, prefix adk"), process.communicate()
            yield address.split()[0]
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert "Traceback" not in said
