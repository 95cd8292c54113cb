"""Look over an agent app without running it: what its platform would refuse, drop or fail on."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from gcp_adk_store.ces.apps.code_rules import check_callback, check_tool, check_tool_names
from gcp_adk_store.ces.apps.findings import Finding, finding
from gcp_adk_store.ces.apps.layout import AgentApp, ToolCode
from gcp_adk_store.ces.apps.parsed import Parsed
from gcp_adk_store.ces.apps.toolsets import Toolset
from gcp_adk_store.ces.tools.openapi import OpenApiTool
from gcp_adk_store.ces.tools.session_fields import is_marked
from gcp_adk_store.errors import InvalidInputError

_ANY_SERVER = "https://server.invalid"
"""Operations are read, and not called."""


def lint_app(app: AgentApp) -> list[Finding]:
    """Return what is wrong with *app*, by file and line; not what ``# noqa: CES...`` on a line allows."""
    found = [*app.problems]
    allowed: dict[str, Mapping[int, frozenset[str]]] = {}
    parsed_tools: list[tuple[ToolCode, Parsed]] = []
    for tool in app.tools:
        parsed = _parsed(app, tool.path)
        if isinstance(parsed, Finding):
            found.append(parsed)
            continue
        parsed_tools.append((tool, parsed))
        allowed[parsed.path] = parsed.allowed
        found += check_tool(parsed, tool.name, asynchronous=tool.asynchronous)
        found += check_tool_names(parsed, app.tool_names)
    found += _duplicates(parsed_tools)
    for callback in app.callbacks:
        parsed = _parsed(app, callback.path)
        if isinstance(parsed, Finding):
            found.append(parsed)
            continue
        allowed[parsed.path] = parsed.allowed
        found += check_callback(parsed, callback.callback)
        found += check_tool_names(parsed, app.tool_names)
    found += [each for toolset in app.toolsets for each in _marks(app, toolset)]
    # Agents may share the file of a callback.
    wrong = (each for each in set(found) if each.code not in allowed.get(each.path, {}).get(each.line, ()))
    return sorted(wrong, key=lambda each: (each.path, each.line, each.column, each.code, each.says))


def _marks(app: AgentApp, toolset: Toolset) -> Iterator[Finding]:
    """Yield the operations of *toolset* that are not called, because the session cannot give a value."""
    if not is_marked(toolset.spec):
        return
    fix = "mark fields of JSON objects and lists, or a parameter"
    try:
        operations = OpenApiTool.from_spec(
            toolset.spec, display_name=toolset.name, server=_ANY_SERVER
        ).operations
        wrong = [
            f"{name} is not called: {each.unfillable}" for name, each in operations.items() if each.unfillable
        ]
    except InvalidInputError as exc:
        wrong = [f"no operation of {toolset.name} is called: {exc}"]
    for says in wrong:
        yield finding("CES601", says, fix, path=app.shown(toolset.path))


def _parsed(app: AgentApp, path: Path) -> Parsed | Finding:
    try:
        source = path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        says = f"it cannot be read: {exc.strerror}"
        return finding("CES001", says, "put a file there that can be read", path=app.shown(path))
    except UnicodeDecodeError as exc:
        return finding("CES001", f"it cannot be read: {exc}", "save it as UTF-8", path=app.shown(path))
    return Parsed.of(source, app.shown(path))


def _duplicates(tools: list[tuple[ToolCode, Parsed]]) -> Iterator[Finding]:
    """Yield functions whose name an earlier tool has: the platform wants each once."""
    owners: dict[str, ToolCode] = {}
    for tool, parsed in tools:
        for function in parsed.functions:
            owner = owners.setdefault(function.name, tool)
            if owner is not tool:
                says = f"{function.name} is in the tool {owner.name} too: the platform refuses the second"
                fix = f"rename it, for instance to _{tool.name}_{function.name.strip('_')}"
                yield parsed.found("CES103", says, fix, function)
