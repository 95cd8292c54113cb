"""Find the Python of an agent app, and what it may call, in the folders that an export has.

::

    app.json                                             rootAgent, variableDeclarations
    tools/{tool}/{tool}.json                             displayName, executionType, pythonFunction
    tools/{tool}/python_function/python_code.py
    toolsets/{toolset}/{toolset}.json                    displayName, openApiToolset
    agents/{agent}/{agent}.json                          childAgents, tools, beforeModelCallbacks and so on
    agents/{agent}/instruction.txt
    agents/{agent}/before_model_callbacks/{name}/python_code.py
    guardrails/{guardrail}/{guardrail}.json              enabled, action, codeCallback
    environment.json                                     toolsets: what differs between deployments

Configuration may be YAML instead of JSON, and may be missing: then a folder's name is the tool's, and
callbacks are in the order of their folders. A folder of ``{tool}.py`` files is read too.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, get_args

from pydantic.alias_generators import to_camel

from gcp_adk_store.ces.apps import CODE_FILE, files
from gcp_adk_store.ces.apps.agents import (
    TOOLSETS,
    AgentSpec,
    GuardrailSpec,
    OtherTool,
    Toolset,
    TransferRule,
    by_names,
    merged,
    named,
    other_tool,
    rule_of,
    toolsets_of,
)
from gcp_adk_store.ces.apps.layout import AgentApp, CallbackCode, ToolCode
from gcp_adk_store.ces.guest.contract import AGENT_CALLBACKS, GUARDRAILS, Callback
from gcp_adk_store.ces.guest.scanning import UNREADABLE, scan
from gcp_adk_store.ces.tools.declarations import Execution
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import require_arguments

FILLED_IN: Final = "$env_var"
"""What stands for a value of ``environment.json``."""
_EXTRA_CALLS: Final = (
    "evaluationMetricsThresholds",
    "goldenEvaluationMetricsThresholds",
    "toolMatchingSettings",
    "extraToolCallBehavior",
)
_GOLDEN_CALLS: Final = ("evaluationSettings", "goldenEvaluationToolCallBehaviour")
_EXECUTIONS: Final = get_args(Execution)


def read_app(
    folder: Path, *, servers: Mapping[str, str] | None = None, credentials: Mapping[str, str] | None = None
) -> AgentApp:
    """Return what *folder* has; what cannot be read is among the problems.

    Args:
        folder: Of an app, its folder of tools, or any folder of ``{tool}.py`` files.
        servers: Where toolsets answer, by name, in place of their documents' and ``environment.json``'s URLs.
        credentials: The keys or tokens by which toolsets authenticate themselves, by name.

    Raises:
        InvalidInputError: the app has no toolset of a name in *servers* or *credentials*, or an argument is
            of another kind.
    """
    require_arguments(read_app, locals())
    servers, credentials = servers or {}, credentials or {}
    app = _Reading(folder=folder, servers=servers, credentials=credentials).app()
    known = by_names(app.toolsets)
    if unknown := [name for name in (*servers, *credentials) if name not in known]:
        there = ", ".join(sorted(known)) or "none"
        raise InvalidInputError(f"the app has no toolset {unknown[0][:100]!r}; it has: {there}")
    return app


@dataclass(kw_only=True)
class _Reading(files.Files):
    """One pass over the folder of an app."""

    servers: Mapping[str, str]
    credentials: Mapping[str, str]
    unlike: list[str] = field(default_factory=list)
    tools: list[ToolCode] = field(default_factory=list)
    other_tools: list[OtherTool] = field(default_factory=list)
    callbacks: list[CallbackCode] = field(default_factory=list)
    agents: tuple[AgentSpec, ...] = ()

    def app(self) -> AgentApp:
        root = self.folder
        config, environment = self.config(root / "app").members, self.config(root / "environment").members
        place = root / "tools" if (root / "tools").is_dir() else root
        for each in files.folders(place):
            self._add_tool(each)
        self.tools += [
            ToolCode(name=path.stem, path=path)
            for path in place.glob("*.py")
            if not path.stem.startswith(("test_", "_")) and path.stem not in {"test", "conftest"}
        ]
        self.agents = tuple(map(self._agent, files.folders(root / "agents")))
        guardrails = tuple(map(self._guardrail, files.folders(root / "guardrails")))
        toolsets = [self._toolset(each, environment) for each in files.folders(root / "toolsets")]
        self._require_named(guardrails)
        model = str(files.member(config, "modelSettings", "model") or "")
        errors = files.error_handling_of(config)
        self._note_unlike(guardrails, model, errors)
        declared = files.declared_variables(config)
        return AgentApp(
            folder=root,
            tools=tuple(sorted(self.tools, key=lambda tool: tool.name)),
            callbacks=tuple(self.callbacks),
            toolsets=tuple(filter(None, toolsets)),
            other_tools=tuple(sorted(self.other_tools, key=lambda tool: tool.name)),
            variables={name: schema["default"] for name, schema in declared if "default" in schema},
            agents=self.agents,
            root_agent=str(config.get("rootAgent") or ""),
            name=str(config.get("displayName") or ""),
            model=model,
            global_instruction=self._text_at(root, config.get("globalInstruction"))[0],
            guardrails=guardrails,
            guards_all=named(config.get("guardrails")),
            allows_extra_calls=files.member(config, *_EXTRA_CALLS) == "ALLOW",
            errors=errors,
            uses_fakes=files.member(config, *_GOLDEN_CALLS) == "FAKE",
            unlike_platform=tuple(dict.fromkeys(self.unlike)),
            problems=tuple(dict.fromkeys(self.problems)),
            configs={stem: each for stem, each in self.configs.items() if stem != root / "environment"},
        )

    def _note_unlike(
        self, guardrails: tuple[GuardrailSpec, ...], model: str, errors: files.ErrorHandling
    ) -> None:
        """Note what of the whole app only the platform does."""
        with_code = {each.owner for each in self.callbacks if each.callback in GUARDRAILS}
        self.unlike += [
            f"the guardrail {each.name} has no code, and does not run here"
            for each in guardrails
            if each.enabled and each.folder not in with_code
        ]
        models = {each for each in (model, *(agent.model for agent in self.agents)) if each}
        if len(models) > 1:
            listed = ", ".join(sorted(models))
            self.unlike.append(f"one model answers for all agents here, and the app has {listed}")
        if errors.says == "":
            why = "only the platform has its own: if the model fails, the turn fails here"
            self.unlike.append(f"the app has no customFallbackMessages, and {why}")

    def _add_tool(self, folder: Path) -> None:
        file = self.config(folder / folder.name)
        config, function = file.members, file.members.get("pythonFunction")
        code = folder / "python_function" / CODE_FILE
        name = str(config.get("displayName") or folder.name)
        if isinstance(function, dict):
            name = str(function.get("name") or name)
            if isinstance(function.get("pythonCode"), str):
                code = function["pythonCode"]
        elif config or not code.is_file():
            if config:
                self.other_tools.append(other_tool(config, folder.name, self._fake(config, name)))
            return
        execution: Any = config.get("executionType") or _EXECUTIONS[0]
        if execution not in (*_EXECUTIONS, "EXECUTION_TYPE_UNSPECIFIED"):
            says = f"executionType {execution!r} of the tool {name}: the platform refuses it"
            self.problems.append(file.found("CES107", says, f"write {' or '.join(_EXECUTIONS)}"))
        if path := self.file(code, f"the code of the tool {name}"):
            self.tools.append(
                ToolCode(
                    name=name,
                    path=path,
                    execution="ASYNCHRONOUS" if execution == "ASYNCHRONOUS" else "SYNCHRONOUS",
                    folder=folder.name,
                    selected=bool(files.member(function, "name")),
                    timeout_s=files.seconds_of(config.get("timeout")),
                    fake=self._fake(config, name),
                )
            )

    def _fake(self, config: Mapping[str, Any], name: str) -> Path | None:
        """Return the code of the fake of a tool or a toolset; None if it has none, or does not use it."""
        code = files.member(config, "toolFakeConfig", "codeBlock", "pythonCode")
        if not isinstance(code, str) or files.member(config, "toolFakeConfig", "enableFakeMode") is not True:
            return None
        return self.file(code, f"the fake of {name}")

    def _toolset(self, folder: Path, environment: Mapping[str, Any]) -> Toolset | None:
        file = self.config(folder / folder.name)
        config, name = file.members, str(file.members.get("displayName") or folder.name)
        for each in (folder.name, name):
            config = merged(config, files.typed(dict, environment, "toolsets", each))
        fake = self._fake(config, name)
        if files.member(config, "mcpToolset", "customHeaders"):
            why = "tools of an MCP server run on the platform alone"
            self.unlike.append(f"the customHeaders of {name} are not sent: {why}")
        if files.seconds_of(config.get("timeout")) is not None:
            why = "its requests have HttpPolicy.timeout_s, by default 10 s"
            self.unlike.append(f"the timeout of {name} does not count: {why}")
        declared = config.get("openApiToolset")
        schema = files.member(declared, "openApiSchema")
        if not isinstance(schema, str):
            kind = next((each for each in TOOLSETS if isinstance(config.get(each), Mapping)), None)
            if kind is None:
                return None
            uses = [use for agent in self.agents for use in agent.toolsets if use[0] in {name, folder.name}]
            listed = {f"{name}_{operation}" for _, operations in uses for operation in operations}
            listed |= {each for each in self._called if each.startswith(f"{name}_")}
            return Toolset(name=name, folder=folder.name, kind=kind, listed=frozenset(listed), fake=fake)
        is_document = "\n" in schema  # itself, not its path
        path = file.path if is_document else self.file(schema, f"the schema of the toolset {name}")
        if path is None:
            return None
        spec = self.parsed(path, schema if is_document else self.text(path), document=is_document)
        url = files.typed(str, declared, "url")
        of_app = "" if url == FILLED_IN else url
        return Toolset(
            name=name,
            folder=folder.name,
            spec=spec,
            path=path,
            server=self.servers.get(name) or self.servers.get(folder.name) or of_app,
            authentication=files.typed(dict, declared, "apiAuthentication"),
            credential=self.credentials.get(name) or self.credentials.get(folder.name),
            fake=fake,
        )

    @cached_property
    def _called(self) -> set[str]:
        """The tools that code names, where it can be read."""
        found: set[str] = set()
        code: list[ToolCode | CallbackCode] = [*self.tools, *self.callbacks]
        for each in code:
            with suppress(OSError, *UNREADABLE):
                tree = ast.parse(each.path.read_text(encoding="utf-8-sig"))
                found |= {called.attr for called in scan(tree).tools}
        return found

    def _require_named(self, guardrails: tuple[GuardrailSpec, ...]) -> None:
        """Add a root agent and guardrails that are named and not in the app."""
        app = self.config(self.folder / "app")
        root = filter(None, [str(app.members.get("rootAgent") or "")])
        self.problems += app.unknown("CES602", "rootAgent", root, by_names(self.agents))
        of_agents = (self.config(self.folder / "agents" / each.folder / each.folder) for each in self.agents)
        for config in (app, *of_agents):
            listed = named(config.members.get("guardrails"))
            self.problems += config.unknown("CES602", "the guardrail", listed, by_names(guardrails))

    def _guardrail(self, folder: Path) -> GuardrailSpec:
        """Return the guardrail in *folder*; what is malformed in its action is left out."""
        config = self.config(folder / folder.name)
        if not config.members:
            self.problem(config.path, f"the guardrail {folder.name} has no configuration")
        declared = config.members.get("codeCallback") or {}
        kinds = {f"{to_camel(kind.removesuffix('_guardrail'))}Callback": kind for kind in GUARDRAILS}
        if not isinstance(declared, dict) or declared.keys() - kinds.keys():
            self.problem(config.path, "codeCallback has a member that is not known")
        for name, kind in kinds.items():
            if (found := files.member(declared, name)) is not None:
                what = f"the {kind} of the guardrail {folder.name}"
                self._add_callback(config, kind, found, what, folder.name)
        members = config.members
        answer = files.member(members, "action", "generativeAnswer")
        transfer_to = files.typed(str, members, "action", "transferAgent", "agent")
        target = filter(None, [transfer_to])
        self.problems += config.unknown("CES602", "the agent", target, by_names(self.agents))
        return GuardrailSpec(
            name=str(members.get("displayName") or folder.name),
            folder=folder.name,
            enabled=members.get("enabled", True) is not False,
            responses=tuple(
                str(each["text"])
                for each in files.typed(list, members, "action", "respondImmediately", "responses")
                if files.member(each, "text") and not each.get("disabled")
            ),
            transfer_to=files.last_of(transfer_to),
            prompt=str(answer.get("prompt") or "") if isinstance(answer, Mapping) else None,
        )

    def _add_callbacks(self, folder: Path, config: files.Config) -> None:
        for callback in AGENT_CALLBACKS:
            listed = config.members.get(f"{to_camel(callback)}Callbacks")
            if listed is None:
                listed = [
                    {"pythonCode": str((each / CODE_FILE).relative_to(self.folder))}
                    for each in files.folders(folder / f"{callback}_callbacks")
                    if (each / CODE_FILE).is_file()
                ]
            for number, each in enumerate(listed if isinstance(listed, list) else [listed]):
                what = f"{callback} callback {number} of {folder.name}"
                self._add_callback(config, callback, each, what, folder.name)

    def _add_callback(self, config: files.Config, kind: Callback, found: Any, what: str, owner: str) -> None:
        """Add the callback *found* in *config*; its *owner* is an agent or a guardrail."""
        code = files.member(found, "pythonCode")
        if not isinstance(code, str):
            self.problem(config.path, f"{what} has no pythonCode")
        elif path := self.file(code, f"the code of {what}"):
            is_disabled = found.get("disabled") is True
            self.callbacks.append(CallbackCode(callback=kind, path=path, disabled=is_disabled, owner=owner))
            streams = kind == "after_model" and found.get("proactiveExecutionEnabled") is True
            if streams and not is_disabled:
                why = "models are not streamed, and have no parts before it"
                self.unlike.append(f"{what} runs once for each response here: {why}")

    def _rules(self, folder: Path, config: files.Config) -> Iterator[TransferRule]:
        """Yield the transfer rules of an agent, with the code of files."""
        listed = config.members.get("transferRules") or []
        for number, each in enumerate(listed if isinstance(listed, list) else [listed]):
            rule = rule_of(each)
            if rule is None:
                says = (
                    f"transfer rule {number} is not known: it needs a childAgent, a direction "
                    "(PARENT_TO_CHILD or CHILD_TO_PARENT), and deterministicTransfer or "
                    "disablePlannerTransfer with an expression or pythonCode"
                )
                self.problem(config.path, says)
            elif not (rule.filename and rule.condition.endswith(".py") and "\n" not in rule.condition):
                yield rule
            elif path := self.file(rule.condition, f"the code of transfer rule {number} of {folder.name}"):
                yield replace(rule, condition=self.text(path), filename=str(path))

    def _agent(self, folder: Path) -> AgentSpec:
        """Return the agent in *folder*; what is malformed in its configuration is left out."""
        config = self.config(folder / folder.name)
        self._add_callbacks(folder, config)
        members = config.members
        temperature = files.member(members, "modelSettings", "temperature")
        instruction = members.get("instruction")
        if instruction is None and (folder / "instruction.txt").is_file():
            instruction = str((folder / "instruction.txt").relative_to(self.folder))
        text, path = self._text_at(folder, instruction)
        return AgentSpec(
            name=str(members.get("displayName") or folder.name),
            folder=folder.name,
            description=str(members.get("description") or ""),
            instruction=text,
            path=path or config.path,
            model=str(files.member(members, "modelSettings", "model") or ""),
            temperature=float(temperature) if isinstance(temperature, int | float) else None,
            tools=tuple(map(files.last_of, named(members.get("tools")))),
            toolsets=tuple(toolsets_of(members)),
            children=tuple(map(files.last_of, named(members.get("childAgents")))),
            rules=tuple(self._rules(folder, config)),
            guardrails=named(members.get("guardrails")),
        )

    def _text_at(self, folder: Path, given: Any) -> tuple[str, Path | None]:
        """Return *given*; or the text of the file whose path it is, and the file."""
        if not isinstance(given, str):
            return "", None
        # Folders of agents may have a space in their names, as a sentence that ends with .txt has.
        is_path = " " not in given or given.startswith("agents/")
        if not (given.endswith(".txt") and is_path and "\n" not in given):
            return given, None
        path = self.file(given, f"a text of {folder.name}")
        return ("", None) if path is None else (self.text(path), path)
