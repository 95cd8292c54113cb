"""The command ``gcp-adk-store``."""

import io
import sys
from typing import TextIO, cast


def main() -> None:
    """Run the command."""
    from gcp_adk_store.cli.command import command  # noqa: PLC0415  # bulk workers import this package without it
    from gcp_adk_store.cli.screen import StandardOutput  # noqa: PLC0415  # likewise

    if not isinstance(sys.stdout, io.TextIOWrapper):  # such as none, where it is closed
        command()
        return
    output = StandardOutput(sys.stdout)
    sys.stdout = cast("TextIO", output)
    try:
        command()
    finally:
        output.discard()
