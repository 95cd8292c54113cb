"""The command ``gcp-adk-store``."""


def main() -> None:
    """Run the command."""
    from gcp_adk_store.cli.command import command  # noqa: PLC0415  # bulk workers import this package without it

    command()
