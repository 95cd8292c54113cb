"""Run a program to its end, and return what it printed."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ran(
    words: Sequence[str | Path], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program without an input of its own; a test looks at its status unless it gives ``check``."""
    if "input" not in options:
        options["stdin"] = subprocess.DEVNULL
    return subprocess.run(words, capture_output=True, text=True, check=check, **options)
