"""The command that runs the evaluations of an agent app."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gcp_adk_store import ces
from gcp_adk_store.cli.ces import options
from gcp_adk_store.cli.ces.check import report
from gcp_adk_store.cli.screen import CannotLookError, Number, Result

if TYPE_CHECKING:
    from google.adk.models.base_llm import BaseLlm

    from gcp_adk_store.ces.testing.evaluations import Evaluation

_OTHERS: Final = frozenset(
    {"callback_tests", "eval-reports", "guardrail_tests", "scenarios", "simulations", "tool_tests"}
)
"""Folders beside evaluations. Their files are not evaluations, or need a model that plays the user."""


@click.command("eval", cls=options.RunsCode)
@options.of_app
@options.tests_option("evals/ of the project or the app, and evaluations/")
@click.option(
    "--name",
    metavar="NAME",
    multiple=True,
    help="Run the evaluation of this name; may be given several times.",
)
@click.option(
    "--tag", metavar="TAG", multiple=True, help="Run those with this tag; may be given several times."
)
@click.option(
    "--expected",
    is_flag=True,
    help="Let the model reply as each golden turn expects, to test the callbacks and tools around it.",
)
@click.option(
    "--similar",
    metavar="SCORE",
    type=Number(0, 1),
    help="Least similarity to the expected text that passes; by default 0.8.",
)
@options.defaults_option
@options.TalkOptions.given_to
@options.json_option
@options.junit_option
async def evaluate(
    folder: Path,
    app: Path,
    *,
    tests: Path | None,
    name: tuple[str, ...],
    tag: tuple[str, ...],
    expected: bool,
    similar: float | None,
    variables: dict[str, Any],
    junit: Path | None,
    chosen: options.TalkOptions,
) -> Result:
    """Run the evaluations of an agent app: golden conversations, and tests of turns.

    Each is a conversation of its own in memory. Ends with 1 if one fails or is malformed, with 2 if none is
    found, none can run, or the app has problems.
    """
    from gcp_adk_store.ces.testing.evaluation_runs import EvaluationRuns  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.testing.evaluations import read_evaluations  # noqa: PLC0415  # likewise
    from gcp_adk_store.ces.testing.matching import SIMILAR  # noqa: PLC0415  # likewise
    from gcp_adk_store.ces.testing.nodes import read_all  # noqa: PLC0415  # likewise
    from gcp_adk_store.ces.testing.outcomes import Outcome  # noqa: PLC0415  # likewise

    places = [tests] if tests is not None else _places(folder, app)
    files = [each for place in places for each in _files(place)]
    if not files:
        raise CannotLookError(
            f"{tests or folder} has no evaluations: put them into evals/goldens/*.yaml beside the app, "
            "or name their folder by --tests"
        )
    read = chosen.read_app(app, allow_problems=chosen.allow_problems, whole=True)
    found = [
        each
        for each in read_all(files, read_evaluations)
        if isinstance(each, Outcome)
        or ((not name or each.name in name) and (not tag or set(tag) & set(each.tags)))
    ]
    if not found:
        raise CannotLookError("no evaluation has such a name or tag")
    async with chosen.opened_sandbox() as sandbox:
        given = {**chosen.conversation(), "sandbox": sandbox, "use_fakes": chosen.fakes or read.uses_fakes}
        runs = EvaluationRuns(
            app=read,
            model_for=_models(read, chosen, expected=expected),
            options=given,
            variables=variables,
            similar=SIMILAR if similar is None else similar,
        )
        outcomes = [each if isinstance(each, Outcome) else await runs.run(each) for each in found]
    return report(outcomes, junit=junit, suite="ces eval")


def _places(whole: Path, app: Path) -> list[Path]:
    """Return the folders that may have evaluations: of the project and of the app."""
    project = app.parent.parent if app.parent.name == "cxas_app" else whole
    found = (
        parent / name for parent in dict.fromkeys((project, whole, app)) for name in ("evals", "evaluations")
    )
    return list(dict.fromkeys(place for place in found if place.is_dir()))


def _files(place: Path) -> list[Path]:
    """Return the files of evaluations in *place*: YAML, and the JSON of exports."""
    found = [
        path
        for path in place.rglob("*")
        if path.suffix in {".yaml", ".yml"} or (path.suffix == ".json" and _is_exported(path))
    ]
    return sorted(path for path in found if not _OTHERS & set(path.relative_to(place).parts[:-1]))


def _is_exported(path: Path) -> bool:
    return path.stem == path.parent.name and path.resolve().parent.parent.name == "evaluations"


def _models(
    app: "ces.AgentApp", chosen: options.TalkOptions, *, expected: bool
) -> "Callable[[Evaluation], BaseLlm]":
    """Return the model of each evaluation: one of all, a script for each by its name, or what it expects."""
    from gcp_adk_store.ces.conversation.models import as_model, read_script  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.testing.evaluation_runs import ExpectedModel  # noqa: PLC0415  # likewise

    if expected:
        if chosen.model or chosen.script:
            raise CannotLookError("give --expected without --model and --script")
        return lambda _: ExpectedModel()
    scripts = None if chosen.script is None else read_script(chosen.script)
    if isinstance(scripts, dict) and not chosen.model:
        return lambda evaluation: ces.ScriptedModel(scripts.get(evaluation.name, ()))
    named = chosen.chosen_model() or app.own_model
    if not named:
        raise CannotLookError("the app names no model; give --model")
    model = as_model(named)
    return lambda _: model
