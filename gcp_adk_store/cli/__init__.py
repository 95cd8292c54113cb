"""The command ``gcp-adk-store``; it needs the extra ``cli``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gcp_adk_store.imports import how_to_install


@contextmanager
def or_end_without_extra() -> Iterator[None]:
    """Import the packages of the extra ``cli``, or end the process with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("click", "rich"):
            raise
        sys.exit(f"gcp-adk-store needs its extra: {how_to_install('cli')}")


def main() -> None:
    """Run the command."""
    with or_end_without_extra():
        from gcp_adk_store.cli.command import command  # noqa: PLC0415  # only here its dependencies are needed
    command()
