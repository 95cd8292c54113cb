"""The command ``gcp-adk-store``; it needs the extra ``cli``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def or_end_without_extra() -> Iterator[None]:
    """Import what the extra ``cli`` brings, or end the process with how to get it."""
    try:
        yield
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("click", "rich"):
            raise
        sys.exit("gcp-adk-store needs its extra: pip install 'gcp-adk-store[cli]'")


def main() -> None:
    """Run the command."""
    with or_end_without_extra():
        from gcp_adk_store.cli.command import command  # noqa: PLC0415  # only here its dependencies are needed
    command()
