"""Write agent apps into folders, as exports have them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gcp_adk_store.ces import AgentApp, read_app
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
    _write(
        folder / "app.json",
        json.dumps({"displayName": "Test", "rootAgent": root, "variableDeclarations": declared}),
    )
    for name, told in agents.items():
        config = {"displayName": name, **told}
        for kind, bodies in config.pop("callbacks", {}).items():
            files = [bodies] if isinstance(bodies[0], str) else bodies
            for number, body in enumerate(files):
                place = folder / "agents" / name / f"{kind}_callbacks" / f"{number:02}" / "python_code.py"
                _write(place, callback(kind, *body))
        _write(folder / "agents" / name / f"{name}.json", json.dumps(config))
    for name, code in (tools or {}).items():
        execution = "ASYNCHRONOUS" if name in asynchronous else "SYNCHRONOUS"
        config = {"displayName": name, "executionType": execution, "pythonFunction": {"name": name}}
        _write(folder / "tools" / name / f"{name}.json", json.dumps(config))
        _write(folder / "tools" / name / "python_function" / "python_code.py", code)
    app = read_app(folder)
    assert not app.problems
    return app


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
