"""The options that choose the model of a conversation."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gcp_adk_store.cli.ces.options import with_options
from gcp_adk_store.cli.failures import CannotLookError

if TYPE_CHECKING:
    from google.adk.models.base_llm import BaseLlm

    from gcp_adk_store.ces import AgentApp

Command = TypeVar("Command", bound=Callable[..., Any])


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
        click.option(
            "--replay",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Recording of a model's replies, which the same conversation gets again.",
        ),
        click.option(
            "--record",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False, writable=True),
            help="Append the model's replies to this recording.",
        ),
    )


def chosen_model(
    app: "AgentApp", *, model: str | None, script: Path | None, replay: Path | None, record: Path | None
) -> "BaseLlm | str | None":
    """Return the model that was asked for; None for the one that *app* names.

    Raises:
        CannotLookError: more than one was asked for, or none can be recorded.
        InvalidInputError: a file cannot be read.
    """
    from gcp_adk_store.ces import RecordingModel, ReplayedModel, ScriptedModel  # noqa: PLC0415  # of the extra

    if sum(each is not None for each in (model, script, replay)) > 1:
        raise CannotLookError("give one of --model, --script and --replay")
    chosen: BaseLlm | str | None = model
    if script is not None:
        chosen = ScriptedModel.from_file(script)
    elif replay is not None:
        chosen = ReplayedModel(replay)
    if record is None:
        return chosen
    return RecordingModel(chosen or own_model(app), record)


def own_model(app: "AgentApp") -> str:
    """Return the name of the model that *app* names.

    Raises:
        CannotLookError: it names none.
    """
    named = (app.root.model if app.root else "") or app.model
    if not named:
        raise CannotLookError("the app names no model; give --model")
    return named
