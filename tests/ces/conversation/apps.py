"""Write agent apps into folders, as exports have them, and run commands on them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gcp_adk_store.ces import AgentApp, read_app
from gcp_adk_store.cli.command import command
from tests.ces.callbacks import callback


def write_app(
    folder: Path,
    agents: Mapping[str, Mapping[str, Any]],
    *,
    tools: Mapping[str, str] | None = None,
    asynchronous: tuple[str, ...] = (),
    variables: Mapping[str, Any] | None = None,
    root: str = "root",
) -> AgentApp:
    """Write an app and return it, read.

    Args:
        folder: Where to.
        agents: By name: ``callbacks``, a mapping of a kind to statements of one callback or to a list of
            such; the other members are of the agent's configuration.
        tools: Their code, by name.
        asynchronous: Names of those that answer later.
        variables: The declared ones, with their defaults.
        root: The agent that begins.
    """
    declared = [{"name": name, "schema": {"default": value}} for name, value in (variables or {}).items()]
    files: dict[str, Any] = {
        "app.json": {"displayName": "Test", "rootAgent": root, "variableDeclarations": declared}
    }
    for name, fields in agents.items():
        config = {"displayName": name, **fields}
        for kind, bodies in config.pop("callbacks", {}).items():
            for number, body in enumerate([bodies] if isinstance(bodies[0], str) else bodies):
                place = f"agents/{name}/{kind}_callbacks/{number:02}/python_code.py"
                files[place] = callback(kind, *body)
        files[f"agents/{name}/{name}.json"] = config
    for name, code in (tools or {}).items():
        execution = "ASYNCHRONOUS" if name in asynchronous else "SYNCHRONOUS"
        config = {"displayName": name, "executionType": execution, "pythonFunction": {"name": name}}
        files |= {f"tools/{name}/{name}.json": config, f"tools/{name}/python_function/python_code.py": code}
    app = read_app(write_files(folder, files))
    assert not app.problems
    return app


def write_slow_app(folder: Path, code: str = "return {result}") -> AgentApp:
    """Write an app whose asynchronous tool ``work`` calls the tool ``slow``; *code* takes its result."""
    body = code.format(result="tools.slow({}).json()['result']")
    return write_app(
        folder,
        {"root": {"tools": ["work"]}},
        tools={"work": f"def work():\n    {body}"},
        asynchronous=("work",),
    )


def change(path: Path, **members: Any) -> None:
    """Set *members* of the object in a file, which is made if it is missing."""
    before = json.loads(path.read_text()) if path.exists() else {}
    write_files(path.parent, {path.name: {**before, **members}})


def write_files(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write *files* into *folder*, and return it; what is no text becomes JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def ces(*words: object, says: str | bytes | None = None, **environ: str) -> Result:
    """Run a command of ``gcp-adk-store ces`` on a wide terminal; *says* is its standard input."""
    env = {"COLUMNS": "200", **environ}
    return CliRunner().invoke(command, ["ces", *map(str, words)], input=says, env=env)
