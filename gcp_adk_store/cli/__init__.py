"""The command ``gcp-adk-store``."""

import io
import sys
from typing import TextIO, cast


def main() -> None:
    """Run the command."""
    try:
        from gcp_adk_store.cli.command import command  # noqa: PLC0415  # bulk workers import this package alone
        from gcp_adk_store.cli.screen import StandardOutput  # noqa: PLC0415  # likewise
    except KeyboardInterrupt:
        sys.stderr.write("\nAborted!\n")  # as click does from here on
        sys.exit(1)

    if not isinstance(sys.stdout, io.TextIOWrapper):  # such as none, where it is closed
        command()
        return
    output = StandardOutput(sys.stdout)
    sys.stdout = cast("TextIO", output)
    try:
        command()
    finally:
        output.discard()
