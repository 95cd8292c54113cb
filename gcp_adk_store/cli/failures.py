"""Errors that end a command."""

import click

from gcp_adk_store.cli.terminal import visible


class CannotLookError(click.ClickException):
    """The command cannot do its work and ends with 2; a problem that it finds ends with 1."""

    exit_code = 2

    def format_message(self) -> str:
        """Return the message, made safe for a terminal: it may contain other people's names."""
        return visible(self.message)


class NotThereError(CannotLookError):
    """The store answers, but lacks the named item; the command ends with 1."""

    exit_code = 1
