"""Make folders that last as long as a test."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder, in memory where the system has such: tests lose processes, never the machine."""
    memory = "/dev/shm"  # noqa: S108  # within, a new folder
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
