"""The command ``gcp-adk-store``; it needs the extra ``cli``."""

import sys


def main() -> None:
    """Run the command."""
    try:
        from gcp_adk_store.cli.command import command  # noqa: PLC0415  # only here its dependencies are needed
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("click", "rich"):
            raise
        sys.exit("gcp-adk-store needs its extra: pip install 'gcp-adk-store[cli]'")
    command()
