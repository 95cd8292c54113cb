"""Options of several commands."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.place import command_line

Command = TypeVar("Command", bound=Callable[..., Any])


def given_id(name: str, *, required: bool = False, says: str) -> Callable[[Command], Command]:
    """Return an option for the unchanged id of an app, a user or a session."""
    return click.option(name, metavar="ID", required=required, help=says)


def json_option(command: Command) -> Command:
    """Add ``--json`` to *command*."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def deletion_options(command: Command) -> Command:
    """Add ``--dry-run`` and ``--yes`` to *command*, of which :func:`require_decision` takes one."""
    command = click.option("--yes", is_flag=True, help="Delete it.")(command)
    return click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")(command)


def require_decision(ctx: click.Context, *, dry_run: bool, yes: bool) -> None:
    """Refuse a deletion that has neither ``--dry-run`` nor ``--yes``, or both.

    Raises:
        CannotLookError: the options do not decide; nothing was deleted.
    """
    if dry_run == yes:
        said = "both are given" if yes else "neither is given"
        dry = f"{command_line(ctx, only=ctx.params.keys() - {'dry_run', 'yes'})} --dry-run"
        raise CannotLookError(
            f"nothing was deleted: --yes deletes, --dry-run says what would be deleted, {said}: {dry}"
        )
