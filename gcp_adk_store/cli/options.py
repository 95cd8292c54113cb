"""Options of several commands."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import click

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.place import OpenStore, Work, command_line
from gcp_adk_store.cli.screen import Result

Command = TypeVar("Command", bound=Callable[..., Any])

_PARAMETERS: Final = {"--app": "app_name", "--user": "user_id", "--session": "session_id"}
IDS: Final = tuple(_PARAMETERS.values())
"""Parameters of the ids, with the names that ADK gives them."""


def given_id(name: str, *, required: bool = False, says: str) -> Callable[[Command], Command]:
    """Return ``--app``, ``--user`` or ``--session``, an id that stays unchanged."""
    return click.option(name, _PARAMETERS[name], metavar="ID", required=required, help=says)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def user_options(command: Command) -> Command:
    """Add ``--app`` and ``--user`` to *command*."""
    command = given_id("--user", required=True, says="Id of the user.")(command)
    return given_id("--app", required=True, says="Name of the app.")(command)


def deletion_options(work: Work) -> Work:
    """Add ``--dry-run`` and ``--yes`` to a command at a store, which then gets *dry_run*.

    With neither of them, or both, it deletes nothing and raises a `CannotLookError`.
    """

    @wraps(work)
    async def decided(at: OpenStore, /, *, dry_run: bool, yes: bool, **given: Any) -> Result | None:
        if dry_run == yes:
            said = "both are given" if yes else "neither is given"
            others = click.get_current_context().params.keys() - {"dry_run", "yes"}
            raise CannotLookError(
                "nothing was deleted: --yes deletes, --dry-run says what would be deleted, "
                f"{said}: {command_line(only=others, dry_run=True)}"
            )
        return await work(at, dry_run=dry_run, **given)

    with_yes = click.option("--yes", is_flag=True, help="Delete it.")(decided)
    return click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")(with_yes)
