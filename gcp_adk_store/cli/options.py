"""Options of several commands."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.place import command_line

Command = TypeVar("Command", bound=Callable[..., Any])

IDS: Final = ("app_name", "user_id", "session_id")
"""Parameters of the ids: ADK's names of them."""


def given_id(name: str, *, required: bool = False, says: str) -> Callable[[Command], Command]:
    """Return ``--app``, ``--user`` or ``--session``, an id that stays unchanged."""
    parameter = next(each for each in IDS if each.startswith(name.strip("-")))
    return click.option(name, parameter, metavar="ID", required=required, help=says)


app_option = given_id("--app", required=True, says="Name of the app.")
user_option = given_id("--user", required=True, says="Id of the user.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def deletion_options(command: Command) -> Command:
    """Add ``--dry-run`` and ``--yes`` to *command*, of which :func:`require_decision` takes one."""
    command = click.option("--yes", is_flag=True, help="Delete it.")(command)
    return click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")(command)


def require_decision(*, dry_run: bool, yes: bool) -> None:
    """Refuse a deletion that has neither ``--dry-run`` nor ``--yes``, or both.

    Raises:
        CannotLookError: the options do not decide; nothing was deleted.
    """
    if dry_run == yes:
        said = "both are given" if yes else "neither is given"
        others = click.get_current_context().params.keys() - {"dry_run", "yes"}
        raise CannotLookError(
            "nothing was deleted: --yes deletes, --dry-run says what would be deleted, "
            f"{said}: {command_line(only=others)} --dry-run"
        )
