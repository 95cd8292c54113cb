"""The command ``gcp-adk-store``."""

import io
import sys


def main() -> None:
    """Run the command."""
    from gcp_adk_store.cli.command import command  # noqa: PLC0415  # bulk workers import this package without it

    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # Text of any language, and the bars of a chart, also where the encoding is not UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")
    command()
