"""Say how a command ends that could not do its work."""

import click

from gcp_adk_store.cli.terminal import visible


class CannotLookError(click.ClickException):
    """Says why there is nothing to look at; what is looked at and found wrong ends with 1."""

    exit_code = 2

    def format_message(self) -> str:
        """Return what is shown: it may name what others wrote."""
        return visible(self.message)


class NotThereError(CannotLookError):
    """Says that the store answers, and does not have what was named."""

    exit_code = 1
