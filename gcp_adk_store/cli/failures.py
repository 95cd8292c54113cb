"""Say how a command ends that could not do its work."""

import click


class CannotLookError(click.ClickException):
    """Says why there is nothing to look at; what is looked at and found wrong ends with 1."""

    exit_code = 2
