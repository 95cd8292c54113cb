"""Make the tools of an agent app callable, and the code of its callbacks runnable."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from gcp_adk_store.ces.apps.agents import OtherTool, Toolset
from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.tools.declarations import (
    CodeFile,
    Execution,
    FakeTools,
    MockTool,
    PythonTool,
    Tool,
)
from gcp_adk_store.ces.tools.openapi import OpenApiTool
from gcp_adk_store.ces.tools.parameters import Authentication
from gcp_adk_store.errors import InvalidInputError

_NOT_IMPLEMENTED: Final = 501


def load_tools(app: AgentApp, *, use_fakes: bool = False) -> list[Tool]:
    """Return the tools of *app*: those that are Python, operations of toolsets, and stand-ins for others.

    A stand-in answers what keeps the tool from being called here, unless a mock answers first.

    Args:
        app: The app.
        use_fakes: Whether the fakes that the app enables answer in place of their tools.

    Raises:
        InvalidInputError: the code of one cannot be read.
    """
    found: list[tuple[Path | None, Tool]] = [
        (each.fake, tool) for each, tool in zip(app.tools, _python_tools(app), strict=True)
    ]
    found += [(toolset.fake, tool) for toolset in app.toolsets for tool in _of_toolset(toolset)]
    found += [(each.fake, _other(each)) for each in app.other_tools]
    if not use_fakes:
        return [tool for _, tool in found]
    return [tool if path is None else replace(tool, fake=_fake(path)) for path, tool in found]


def _fake(path: Path) -> FakeTools:
    code = load_code(path)
    return FakeTools(source=code.source, filename=code.filename)


def load_code(path: Path) -> CodeFile:
    """Return the code of the file *path*, which tracebacks name by its path.

    Raises:
        InvalidInputError: it cannot be read.
    """
    try:
        return CodeFile(path.read_text(encoding="utf-8-sig"), filename=str(path))
    except OSError as exc:
        raise InvalidInputError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidInputError(f"{path} is not UTF-8; save it as UTF-8: {exc}") from exc


def _python_tools(app: AgentApp) -> Iterator[PythonTool]:
    for tool in app.tools:
        execution: Execution = "ASYNCHRONOUS" if tool.asynchronous else "SYNCHRONOUS"
        yield PythonTool(
            name=tool.name, code=load_code(tool.path), execution=execution, timeout_s=tool.timeout_s
        )


def _of_toolset(toolset: Toolset) -> Iterator[Tool]:
    if not toolset.tool_names:
        return
    why = f"is one of the {toolset.kind}, and runs on the platform alone"
    try:
        if not toolset.kind:
            yield OpenApiTool.from_spec(
                toolset.spec,
                display_name=toolset.name,
                server=toolset.server or None,
                authentication=Authentication.of(toolset.authentication, toolset.name, toolset.credential),
            )
            return
    except InvalidInputError as exc:  # such as a server that is filled in when the app is deployed
        why = f"cannot be called here: {exc}"
    for name in sorted(toolset.tool_names):
        yield _stand_in(name, why)


def _other(tool: OtherTool) -> MockTool:
    stand_in = _stand_in(tool.name, f"is {tool.kind}, and runs on the platform alone")
    return replace(stand_in, description=tool.description, parameters=tool.parameters)


def _stand_in(name: str, why: str) -> MockTool:
    error = f"{name} {why}; give it a mock"
    return MockTool(name=name, response={"error": error}, status_code=_NOT_IMPLEMENTED, reason=error)
