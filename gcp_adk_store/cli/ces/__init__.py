"""Commands about the runtime of customer-engagement agents."""

import warnings
from pathlib import Path

import click

from gcp_adk_store.ces.sandbox.environment import (
    PACKAGES,
    InterpreterWarning,
    default_folder,
    install_environment,
)
from gcp_adk_store.cli.ces.chat import chat, golden
from gcp_adk_store.cli.ces.check import evaluate, lint, test
from gcp_adk_store.cli.ces.options import RunsCode
from gcp_adk_store.cli.ces.run import run_callback, run_tool
from gcp_adk_store.cli.screen import waiting


@click.group()
def ces() -> None:
    """Check, run and test the Python of agent apps of CX Agent Studio on this machine."""


@ces.command(cls=RunsCode)
@click.option(
    "--python",
    metavar="PYTHON",
    help="Interpreter; by default a CPython 3.12 of pyenv's or on PATH, else the one that runs this.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder of it; by default ADK_STORE_CES_ENVIRONMENT, or gcp-adk-store/ces in the user's cache.",
)
def install(python: str | None, folder: Path | None) -> None:
    """Install the environment of user code: pydantic, numpy and protobuf in the platform's releases.

    Replaces an earlier environment, and refuses a folder with other content. Ends with 2 if it fails.
    """
    place = (folder or default_folder()).absolute()
    click.echo(f"{place}: installing {', '.join(PACKAGES)} by pip, some 90 MB", err=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", InterpreterWarning)
        with waiting("installing"):
            environment = install_environment(place, python=python)
    for warning in said:
        click.echo(f"{warning.message}", err=True)
    version = ".".join(map(str, environment.interpreter.version))
    click.echo(f"{place}: Python {version} of {environment.interpreter.executable}")


for _each in (chat, evaluate, golden, lint, run_callback, run_tool, test):
    ces.add_command(_each)
