"""The options that choose the model of a conversation."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gcp_adk_store.cli.ces.options import Command, with_options
from gcp_adk_store.cli.screen import CannotLookError

if TYPE_CHECKING:
    from google.adk.models.base_llm import BaseLlm

    from gcp_adk_store.ces import AgentApp


def model_options(command: Command) -> Command:
    """Add the options of :func:`chosen_model` to *command*."""
    return with_options(
        command,
        click.option(
            "--model", metavar="NAME", help="Model of ADK, such as gemini-2.5-flash; by default the app's."
        ),
        click.option(
            "--script",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Replies in place of a model's, a list in JSON or YAML.",
        ),
    )


def chosen_model(*, model: str | None, script: Path | None) -> "BaseLlm | str | None":
    """Return the model that was asked for; None for the one that the app names.

    Raises:
        CannotLookError: both were asked for.
        InvalidInputError: the script cannot be read.
    """
    from gcp_adk_store.ces import ScriptedModel  # noqa: PLC0415  # of the extra

    if model and script:
        raise CannotLookError("give one of --model and --script")
    return model if script is None else ScriptedModel.from_file(script)


def own_model(app: "AgentApp") -> str:
    """Return the name of the model that *app* names.

    Raises:
        CannotLookError: it names none.
    """
    named = (app.root.model if app.root else "") or app.model
    if not named:
        raise CannotLookError("the app names no model; give --model")
    return named
