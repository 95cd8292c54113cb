"""Find the Python of an agent app, and what it may call, in the folders that an export has.

::

    app.json                                             rootAgent, variableDeclarations
    tools/{tool}/{tool}.json                             displayName, executionType, pythonFunction
    tools/{tool}/python_function/python_code.py
    toolsets/{toolset}/{toolset}.json                    displayName, openApiToolset
    agents/{agent}/{agent}.json                          childAgents, tools, beforeModelCallbacks and so on
    agents/{agent}/instruction.txt
    agents/{agent}/before_model_callbacks/{name}/python_code.py

Configuration may be YAML instead of JSON, and may be missing: then a folder's name is the tool's, and
callbacks are in the order of their folders. A folder of ``{tool}.py`` files is read too.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from gcp_adk_store.ces.apps.agents import AgentSpec, agent_of, last_of
from gcp_adk_store.ces.apps.findings import Finding, finding
from gcp_adk_store.ces.apps.locating import CODE_FILE
from gcp_adk_store.ces.guest.contract import CALLBACKS, Callback
from gcp_adk_store.ces.tools.openapi import identifier

_EXECUTIONS: Final = ("SYNCHRONOUS", "ASYNCHRONOUS")
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_VALUES: Final = 500_000
"""Of a configuration or a schema."""
_DEFINED: Final = re.compile(r"^(?:async +)?def +(\w+)", re.MULTILINE)
_METHODS: Final = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCode:
    """A tool that is Python."""

    name: str
    """What ``tools.X`` and models call it."""
    path: Path
    asynchronous: bool
    """Whether its answer comes on a later turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackCode:
    """A callback of an agent."""

    agent: str
    callback: Callback
    path: Path
    disabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """Tools that an OpenAPI document describes."""

    name: str
    """What the names of its tools begin with."""
    spec: Mapping[str, Any]
    """The document."""

    @property
    def tool_names(self) -> frozenset[str]:
        """How code calls its operations: ``{name}_{operationId}``, else by method and path."""
        paths = self.spec.get("paths")
        return frozenset(
            f"{self.name}_{identifier(named)}"
            for path, operations in (paths.items() if isinstance(paths, dict) else ())
            for method, operation in (operations.items() if isinstance(operations, dict) else ())
            if method in _METHODS and isinstance(operation, dict)
            for named in (str(operation.get("operationId") or f"{method}_{identifier(str(path))}"),)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentApp:
    """What a folder has."""

    folder: Path
    tools: tuple[ToolCode, ...] = ()
    """By name."""
    callbacks: tuple[CallbackCode, ...] = ()
    """By agent and kind, in the order in which they run."""
    toolsets: tuple[Toolset, ...] = ()
    other_tools: frozenset[str] = frozenset()
    """Names of tools that are neither, such as searches."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Those that are declared, with their defaults."""
    agents: tuple[AgentSpec, ...] = ()
    """By the names of their folders."""
    root_agent: str = ""
    """As the configuration names it; empty where it names none."""
    name: str = ""
    """The display name."""
    model: str = ""
    """Of agents that name none."""
    global_instruction: str = ""
    """For all agents."""
    problems: tuple[Finding, ...] = ()
    """What could not be read."""

    @property
    def tool_names(self) -> frozenset[str]:
        """What ``tools.X`` may be."""
        operations = frozenset().union(*(each.tool_names for each in self.toolsets))
        return frozenset(tool.name for tool in self.tools) | operations | self.other_tools

    @property
    def root(self) -> AgentSpec | None:
        """The agent that begins: the one that the app names, else the only one that is nobody's child."""
        if named := self.agent(self.root_agent):
            return named
        children = {name for agent in self.agents for name in agent.children}
        orphans = [agent for agent in self.agents if not agent.names & children]
        return orphans[0] if len(orphans) == 1 else None

    def agent(self, name: str) -> AgentSpec | None:
        """Return the agent of that display name, folder or resource name, or None."""
        wanted = last_of(name)
        return next((agent for agent in self.agents if wanted in agent.names), None)

    def shown(self, path: Path) -> str:
        """Return how *path* is named: from the app's folder."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)


def read_app(folder: Path) -> AgentApp:
    """Return what *folder* has; what cannot be read is among the problems.

    Args:
        folder: Of an app, its folder of tools, or any folder of ``{tool}.py`` files.
    """
    return _Reading(folder).app()


class _Reading:
    """One pass over a folder, and what went wrong in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._problems: list[Finding] = []

    def app(self) -> AgentApp:
        root = self._folder
        tools: list[ToolCode] = []
        others: set[str] = set()
        place = root / "tools" if (root / "tools").is_dir() else root
        for each in _folders(place):
            self._add_tool(each, tools, others)
        files = [
            path
            for path in sorted(place.glob("*.py"))
            if not path.stem.startswith(("test_", "_")) and path.stem not in {"test", "conftest"}
        ]
        alone = {path: callback for path in files if (callback := _callback_of(path))}
        tools += [
            ToolCode(name=path.stem, path=path, asynchronous=False) for path in files if path not in alone
        ]
        toolsets = [found for each in _folders(root / "toolsets") if (found := self._toolset(each))]
        callbacks = [code for each in _folders(root / "agents") for code in self._callbacks(each)]
        config = self._config(root / "app")
        model = config.get("modelSettings")
        callbacks += [
            CallbackCode(agent="", callback=callback, path=path, disabled=False)
            for path, callback in alone.items()
        ]
        return AgentApp(
            folder=root,
            tools=tuple(sorted(tools, key=lambda tool: tool.name)),
            callbacks=tuple(callbacks),
            toolsets=tuple(toolsets),
            other_tools=frozenset(others),
            variables=self._variables(config),
            agents=tuple(self._agent(each) for each in _folders(root / "agents")),
            root_agent=str(config.get("rootAgent") or ""),
            name=str(config.get("displayName") or ""),
            model=str(model.get("model") or "") if isinstance(model, dict) else "",
            global_instruction=self._text_at(root, config.get("globalInstruction")),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    def _add_tool(self, folder: Path, tools: list[ToolCode], others: set[str]) -> None:
        config = self._config(folder / folder.name)
        function = config.get("pythonFunction")
        code = folder / "python_function" / CODE_FILE
        name = str(config.get("displayName") or folder.name)
        if isinstance(function, dict):
            name = str(function.get("name") or name)
            if isinstance(function.get("pythonCode"), str):
                code = self._folder / function["pythonCode"]
        elif config or not code.is_file():
            if config:
                others.add(name)
            return
        execution = config.get("executionType") or _EXECUTIONS[0]
        if execution not in (*_EXECUTIONS, "EXECUTION_TYPE_UNSPECIFIED"):
            path, fix = _config_file(folder / folder.name), f"write {' or '.join(_EXECUTIONS)}"
            says = f"executionType {execution!r} of the tool {name}: the platform refuses it"
            self._problems.append(finding("CES107", says, fix, path=self._shown(path)))
        if self._is_file(code, f"the code of the tool {name}"):
            tools.append(ToolCode(name=name, path=code, asynchronous=execution == "ASYNCHRONOUS"))

    def _toolset(self, folder: Path) -> Toolset | None:
        config = self._config(folder / folder.name)
        name = str(config.get("displayName") or folder.name)
        declared = config.get("openApiToolset")
        schema = declared.get("openApiSchema") if isinstance(declared, dict) else None
        if not isinstance(schema, str):
            return None
        if "\n" in schema:  # the document itself, not its path
            return Toolset(
                name=name, spec=self._parsed(_config_file(folder / folder.name), schema, document=True)
            )
        path = self._folder / schema
        if not self._is_file(path, f"the schema of the toolset {name}"):
            return None
        return Toolset(name=name, spec=self._parsed(path, self._text(path)))

    def _callbacks(self, folder: Path) -> Iterator[CallbackCode]:
        config = self._config(folder / folder.name)
        for callback in CALLBACKS:
            first, _, second = callback.partition("_")
            listed = config.get(f"{first}{second.capitalize()}Callbacks")
            if listed is None:
                listed = [
                    {"pythonCode": str((each / CODE_FILE).relative_to(self._folder))}
                    for each in _folders(folder / f"{callback}_callbacks")
                    if (each / CODE_FILE).is_file()
                ]
            for number, each in enumerate(listed if isinstance(listed, list) else ()):
                code = each.get("pythonCode") if isinstance(each, dict) else None
                if not isinstance(code, str):
                    says = f"{callback} callback {number} has no pythonCode"
                    self._problem(_config_file(folder / folder.name), says)
                elif self._is_file(self._folder / code, f"a {callback} callback of the agent {folder.name}"):
                    yield CallbackCode(
                        agent=folder.name,
                        callback=cast("Callback", callback),
                        path=self._folder / code,
                        disabled=bool(each.get("disabled")),
                    )

    def _agent(self, folder: Path) -> AgentSpec:
        config = self._config(folder / folder.name)
        told = config.get("instruction")
        if told is None and (folder / "instruction.txt").is_file():
            told = str((folder / "instruction.txt").relative_to(self._folder))
        return agent_of(folder.name, config, self._text_at(folder, told))

    def _text_at(self, folder: Path, told: Any) -> str:
        """Return *told*, or the text of the file whose path it is."""
        if not isinstance(told, str):
            return ""
        is_path = told.endswith(".txt") and not set(told) & {"\n", " "}
        if not is_path:
            return told
        path = self._folder / told
        return self._text(path) if self._is_file(path, f"a text of {folder.name}") else ""

    def _variables(self, config: Mapping[str, Any]) -> dict[str, Any]:
        declared = config.get("variableDeclarations")
        variables = {}
        for each in declared if isinstance(declared, list) else ():
            if isinstance(each, dict) and isinstance(each.get("name"), str):
                schema = each.get("schema")
                if isinstance(schema, dict) and "default" in schema:
                    variables[each["name"]] = schema["default"]
        return variables

    def _config(self, stem: Path) -> dict[str, Any]:
        """Return the configuration of that name, with any suffix; empty if it is missing."""
        path = _config_file(stem)
        return self._parsed(path, self._text(path)) if path.is_file() else {}

    def _text(self, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            self._problem(path, f"it cannot be read: {exc}")
            return "{}"

    def _parsed(self, path: Path, text: str, *, document: bool = False) -> dict[str, Any]:
        """Return the object that *text* is; with *document* it is a text within the file *path*."""
        try:
            read = json.loads(text) if path.suffix == ".json" and not document else yaml.safe_load(text)
        except json.JSONDecodeError as exc:
            self._problem(path, f"it is not JSON: {exc.msg}", line=exc.lineno)
            return {}
        except (ValueError, RecursionError) as exc:  # an invalid date in YAML, or too many brackets
            self._problem(path, f"it cannot be read: {exc}")
            return {}
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None)
            says = f"it is not YAML: {getattr(exc, 'problem', None) or exc}"
            self._problem(path, says, line=mark.line + 1 if mark else 1)
            return {}
        if not isinstance(read, dict):
            self._problem(path, f"an object is expected, not {type(read).__name__}")
            return {}
        if _is_larger(read, _VALUES):
            self._problem(path, f"it has more than {_VALUES:,} values, those referred to counted each time")
            return {}
        return read

    def _is_file(self, path: Path, what: str) -> bool:
        try:
            inside = path.resolve().is_relative_to(self._folder.resolve())
            found = path.is_file()
        except (OSError, RuntimeError, ValueError) as exc:  # a loop of links, or no path at all
            self._problem(path, f"{what} is not there: {exc}")
            return False
        if not (inside and found):
            self._problem(path, f"{what} is {'not there' if inside else 'outside of the folder of the app'}")
        return inside and found

    def _problem(self, path: Path, says: str, *, line: int = 1) -> None:
        fix = "mend the file, or put one there, or take its name out of the configuration"
        self._problems.append(finding("CES001", says, fix, path=self._shown(path), line=line))

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._folder)) if path.is_relative_to(self._folder) else str(path)


def _callback_of(path: Path) -> Callback | None:
    """Return which callback a file among tools is; None of a tool, and where it cannot be read."""
    try:
        defined = _DEFINED.findall(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        return None
    found = (cast("Callback", kind) for kind in CALLBACKS if f"{kind}_callback" in defined)
    return next(found, None)


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def _is_larger(value: Any, most: int) -> bool:
    """Whether *value*, as JSON, would have more values than *most*: YAML refers to some again and again."""
    waiting, seen = [value], 0
    while waiting and seen <= most:
        each = waiting.pop()
        seen += 1
        if isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
    return seen > most


def _config_file(stem: Path) -> Path:
    """Return the configuration of that name, with any suffix; with the first suffix if it is missing."""
    named = [stem.with_name(stem.name + suffix) for suffix in _SUFFIXES]
    return next((path for path in named if path.is_file()), named[0])
