"""Measure how far a process's memory rises."""

import gc
from pathlib import Path
from typing import Self


class Peak:
    """How far the process's memory rose above where it stood at the start of a block, in bytes."""

    def __enter__(self) -> Self:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark to what is used now
        self._start = self._high_water_mark()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = self._high_water_mark() - self._start

    @staticmethod
    def _high_water_mark() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
