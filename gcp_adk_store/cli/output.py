"""Open the file that a command writes to, or standard output."""

import errno
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import click

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.place import command_line


@asynccontextmanager
async def opened_file(ctx: click.Context, out: Path) -> AsyncIterator[BinaryIO]:
    """Open *out* for a block, or standard output for ``-``.

    A file appears, or is replaced, when the block succeeds: never a part of it.

    Raises:
        CannotLookError: it cannot be written.
    """
    from gcp_adk_store.artifact_files import opened_target  # noqa: PLC0415  # brings half of Google's clients

    standard = str(out) == "-"
    target: BinaryIO | Path = sys.stdout.buffer if standard else out
    try:
        async with opened_target(target) as file:
            yield file
            file.flush()
    except OSError as exc:
        if standard and exc.errno == errno.EPIPE:
            raise  # who reads has seen enough, for which click has a silent end
        shown = "standard output" if standard else str(out)
        raise CannotLookError(
            f"{shown} cannot be written: {exc.strerror}; name another file: {command_line(ctx, out='FILE')}"
        ) from exc
