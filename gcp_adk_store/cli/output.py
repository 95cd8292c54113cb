"""Open the file that a command writes to, or standard output."""

import errno
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Final

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.place import command_line
from gcp_adk_store.cli.terminal import in_one_line

_STANDARD: Final = "-"


def called(out: Path) -> str:
    """Return the readable name of the output file."""
    return "standard output" if str(out) == _STANDARD else in_one_line(str(out))


@asynccontextmanager
async def opened_file(out: Path) -> AsyncIterator[BinaryIO]:
    """Open *out* for a block, or standard output for ``-``.

    A file appears, or is replaced, when the block succeeds: never a part of it.

    Raises:
        CannotLookError: it cannot be written.
    """
    from gcp_adk_store.artifacts.files import opened_target  # noqa: PLC0415  # brings half of Google's clients

    standard = str(out) == _STANDARD
    target: BinaryIO | Path = sys.stdout.buffer if standard else out
    try:
        async with opened_target(target) as file:
            yield file
            file.flush()
    except OSError as exc:
        if standard and exc.errno == errno.EPIPE:
            raise  # the reader closed the pipe, for which click ends silently
        says = f"{called(out)} cannot be written: {exc.strerror}; name another file: "
        raise CannotLookError(says + command_line(out="FILE")) from exc
