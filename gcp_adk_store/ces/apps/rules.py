"""Rules of the linter about configuration, and about what the runtime does."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pydantic
from pydantic.alias_generators import to_camel

from gcp_adk_store.ces.apps.agents import AgentSpec
from gcp_adk_store.ces.apps.files import Config, Files, config_file, declared_variables, folders, member
from gcp_adk_store.ces.apps.findings import METHODS, Finding, Parsed, unknown
from gcp_adk_store.ces.apps.layout import AgentApp, own_names
from gcp_adk_store.ces.guest.context import ToolContext
from gcp_adk_store.ces.guest.host_calls import ExternalResponse
from gcp_adk_store.ces.guest.namespace import CLASSES

SYSTEM_TOOLS: Final = {
    "end_session": "Part.from_end_session(reason=...)",
    "transfer_to_agent": "Part.from_agent_transfer(agent)",
    "customize_response": "Part.from_customized_response(content=...)",
}
"""Tools of the platform that models call, and a callback's content: ``tools`` does not have them."""
_MENTION: Final = re.compile(r"\{@(TOOL|AGENT):\s*([^{}]+?)\s*\}")
_VARIABLE: Final = re.compile(r"\$context\.variables\.\w+")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "STRING": (str,),
    "BOOLEAN": (bool,),
    "INTEGER": (int,),
    "NUMBER": (int, float),
    "OBJECT": (dict,),
    "ARRAY": (list,),
}
"""Of the default of a variable, by the type that its schema declares."""
_KEYS: Final = frozenset(
    {
        *("rootAgent", "displayName", "variableDeclarations", "globalInstruction", "modelSettings"),
        *("childAgents", "transferRules", "childAgent", "deterministicTransfer", "disablePlannerTransfer"),
        *("expressionCondition", "pythonCodeCondition", "beforeAgentCallbacks", "afterAgentCallbacks"),
        *("beforeModelCallbacks", "afterModelCallbacks", "beforeToolCallbacks", "afterToolCallbacks"),
        *("pythonCode", "pythonFunction", "executionType", "toolExecutionMode", "toolIds"),
        *("openApiToolset", "openApiSchema", "apiAuthentication", "apiKeyConfig", "bearerTokenConfig"),
        *("mcpToolset", "connectorToolset", "codeCallback", "respondImmediately", "transferAgent"),
        *("generativeAnswer", "beforeAgentCallback", "afterAgentCallback", "beforeModelCallback"),
        *("toolFakeConfig", "codeBlock", "enableFakeMode", "proactiveExecutionEnabled", "customHeaders"),
        *("errorHandlingSettings", "errorHandlingStrategy", "fallbackResponseConfig", "endSessionConfig"),
        *("customFallbackMessages", "maxFallbackAttempts", "escalateSession", "evaluationSettings"),
        *("goldenEvaluationToolCallBehaviour", "languageSettings", "defaultLanguageCode"),
        *("afterModelCallback", "agentTool", "clientFunction", "dataStoreTool", "googleSearchTool"),
    }
)
"""Keys of two words or more that the platform reads; it ignores their other spelling."""
_FREE: Final = frozenset(
    {"schema", "parameters", "inputSchema", "default", "customHeaders", "customFallbackMessages"}
)
"""Keys whose values have names that the app chooses."""


def check_configuration(app: AgentApp) -> Iterator[Finding]:
    """Yield what is wrong with the configuration of *app* that can be read; see ``problems`` for the rest."""
    files = Files(app.folder)
    files.configs |= app.configs
    of_app = files.config(app.folder / "app")
    of_agents = [files.config(app.folder / "agents" / each.folder / each.folder) for each in app.agents]
    for config in files.configs.values():
        yield from _check_keys(config.members, config)
        yield from _check_headers(config)
    yield from _check_variables(of_app)
    parents: dict[str, str] = {}
    for agent, config in zip(app.agents, of_agents, strict=True):
        yield from _check_names(agent, app, config)
        for child in filter(None, map(app.agent, agent.children)):
            if parents.setdefault(child.folder, agent.folder) != agent.folder:
                says = (
                    f"{child.name} is a child of {parents[child.folder]} too: the platform wants one parent"
                )
                yield config.found("CES609", says, "take it out of one of them", child.name)
        path = _instruction_of(agent, app, config.members.get("instruction"))
        yield from _check_mentions(agent, app, Config(path, app.shown(path), agent.instruction, {}))


def _check_keys(config: Any, place: Config) -> Iterator[Finding]:
    """Yield keys in snake_case, at every depth, that the platform knows in camelCase."""
    if isinstance(config, list):
        for each in config:
            yield from _check_keys(each, place)
    if not isinstance(config, Mapping):
        return
    for key, below in config.items():
        name = str(key)
        if "_" in name and to_camel(name) in _KEYS:
            says = f"the platform ignores the key {name}"
            yield place.found("CES608", says, f"write {to_camel(name)}", name)
        if name not in _FREE:
            yield from _check_keys(below, place)


def _check_headers(config: Config) -> Iterator[Finding]:
    """Yield custom headers of an MCP toolset whose values are not variables: the platform takes no others."""
    headers = member(config.members, "mcpToolset", "customHeaders")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if not _VARIABLE.fullmatch(str(value)):
            says = f"the value of the custom header {name} is not a variable, and the platform takes no other"
            yield config.found("CES610", says, "write $context.variables.NAME", str(name))


def _check_variables(config: Config) -> Iterator[Finding]:
    """Yield declared variables whose defaults are of another type than their schemas say."""
    for name, schema in declared_variables(config.members):
        if schema.get("default") is None or "type" not in schema:
            continue
        kind, default = str(schema["type"]).upper(), schema["default"]
        fits = isinstance(default, _TYPES.get(kind, ())) and (
            kind == "BOOLEAN" or not isinstance(default, bool)
        )
        if not fits:
            found = type(default).__name__
            says = f"the variable {name} is declared as {kind[:40]}, and its default is a {found}"
            yield config.found("CES607", says, f"write one of {', '.join(_TYPES)}, and such a default", name)


def _check_names(agent: AgentSpec, app: AgentApp, config: Config) -> Iterator[Finding]:
    """Yield tools, toolsets and children that *agent* names and the app does not have."""
    tools = _tool_names(app)
    for name in agent.tools:
        if name not in tools:
            yield config.found("CES603", *unknown(f"the tool {name!r}", app.tool_names), name)
    toolsets = {name: each for each in app.toolsets for name in each.names}
    for use in agent.toolsets:
        toolset = toolsets.get(use.toolset)
        if toolset is None:
            yield config.found("CES603", *unknown(f"the toolset {use.toolset!r}", toolsets), use.toolset)
            continue
        for each in use.operations:
            if not toolset.kind and f"{toolset.name}_{each}" not in toolset.tool_names:
                what = f"the operation {each!r} of the toolset {toolset.name}"
                yield config.found("CES603", *unknown(what, toolset.tool_names), each)
    for child in dict.fromkeys((*agent.children, *(rule.child for rule in agent.rules))):
        if app.agent(child) is None:
            names = [each.name for each in app.agents]
            yield config.found("CES604", *unknown(f"the child {child!r}", names), child)


def _check_mentions(agent: AgentSpec, app: AgentApp, place: Config) -> Iterator[Finding]:
    """Yield what the instruction of *agent* mentions that the app, or the agent, does not have."""
    tools = {name.casefold() for name in _tool_names(app)}
    named = own_names(app)
    own = {
        name.casefold()
        for name in (*agent.tools, *(named.get(each, each) for each in agent.tools), *SYSTEM_TOOLS)
    }
    used = {use.toolset for use in agent.toolsets}
    prefixes = tuple(f"{each.name}_".casefold() for each in app.toolsets if used & each.names)
    for kind, name in dict.fromkeys(_MENTION.findall(agent.instruction)):
        if kind == "AGENT" and app.agent(name) is None:
            known = [each.name for each in app.agents]
            yield place.found("CES605", *unknown(f"{{@AGENT: {name}}}", known), name)
        elif kind == "TOOL" and name.casefold() not in tools:
            yield place.found("CES605", *unknown(f"{{@TOOL: {name}}}", app.tool_names), name)
        elif kind == "TOOL" and name.casefold() not in own and not name.casefold().startswith(prefixes):
            says = f"{{@TOOL: {name}}} is not among the tools of {agent.name}: its model cannot call it"
            yield place.found("CES606", says, "add it to the agent's tools, or take it out", name)


def _tool_names(app: AgentApp) -> frozenset[str]:
    """Return what agents and instructions may call tools, by their folders too, and the platform's own."""
    by_folder = (each.name for each in folders(app.folder / "tools"))
    return app.tool_names | SYSTEM_TOOLS.keys() | frozenset(by_folder)


def _instruction_of(agent: AgentSpec, app: AgentApp, instruction: Any) -> Path:
    """Return the file that has the *instruction* of *agent*, which is a text, the path of one, or None."""
    folder = app.folder / "agents" / agent.folder
    if instruction is None:
        return folder / "instruction.txt"
    return (
        app.folder / instruction
        if (app.folder / str(instruction)[:200]).is_file()
        else config_file(folder / agent.folder)
    )


_REQUEST_METHODS: Final = METHODS | {f"async_{name}" for name in METHODS}
_REQUEST_KEYWORDS: Final = frozenset({"method", "url", "params", "headers", "data", "json"})
_OF_ANSWERS: Final = frozenset(
    {"json", "raise_for_status", "ok"} | {each.name for each in fields(ExternalResponse)}
)
_CONTEXTS: Final = ("context", "callback_context")


def check_use(parsed: Parsed) -> Iterator[Finding]:
    """Yield what is wrong with how the code of a tool or a callback uses the runtime."""
    for node in parsed.nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="tools" | "async_tools" as owner), attr=method)
            ):
                if parsed.is_global(owner):
                    yield from _check_tool_call(parsed, node, owner, method)
            case ast.Attribute(value=ast.Name(id="ces_requests" | "requests" as owner)):
                if parsed.is_global(owner):
                    yield from _check_requests(parsed, node, owner)
        if isinstance(node, ast.Attribute):
            yield from _check_member(parsed, node)
            yield from _check_answer(parsed, node)


def _check_tool_call(parsed: Parsed, call: ast.Call, owner: str, method: str) -> Iterator[Finding]:
    if call.keywords or len(call.args) > 1:
        says = f"{owner}.{method}(...) takes its arguments as one dict"
        yield parsed.found("CES402", says, f'write: {owner}.{method}({{"name": value}})', call)
    if owner == "async_tools":
        yield from _check_collected(parsed, call, f"{owner}.{method}(...)")


def _check_collected(parsed: Parsed, call: ast.Call, what: str) -> Iterator[Finding]:
    """Yield a background call whose answer the code does not wait for."""
    if isinstance(parsed.parents[call], ast.Expr | ast.Attribute):
        says = f"{what} returns a function, and only its call waits for the answer"
        yield parsed.found(
            "CES405", says, "keep the function, and call it: waits = ...; answer = waits()", call
        )


def _check_requests(parsed: Parsed, node: ast.Attribute, owner: str) -> Iterator[Finding]:
    method = node.attr
    if method not in _REQUEST_METHODS:
        fix = f"there are {', '.join(sorted(METHODS))}, and each with async_ before it"
        says = f"{owner}.{method} does not exist: it raises AttributeError"
        yield parsed.found("CES406", says, fix, node)
        return
    call = parsed.parents[node]
    if not isinstance(call, ast.Call) or call.func is not node:
        return
    if method.startswith("async_"):
        yield from _check_collected(parsed, call, f"{owner}.{method}(...)")
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg not in _REQUEST_KEYWORDS:
            says = f"{owner}.{method}() has no keyword {keyword.arg}: it raises TypeError"
            yield parsed.found("CES403", says, "there are params, headers, data and json", keyword)
        elif keyword.arg == "data" and _is_bytes(keyword.value):
            says = "data= of ces_requests cannot be bytes: it raises TypeError"
            yield parsed.found("CES407", says, "give text, or json=", keyword)


def _is_bytes(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bytes()) | ast.Call(func=ast.Name(id="bytes")):
            return True
        case ast.Call(func=ast.Attribute(attr="encode")):
            return True
        case _:
            return False


def _check_member(parsed: Parsed, node: ast.Attribute) -> Iterator[Finding]:
    """Yield attributes, and keywords of methods, that a class of the runtime does not have."""
    if not isinstance(node.value, ast.Name) or node.attr.startswith("_"):
        return
    name = node.value.id
    is_context = name in _CONTEXTS and name not in parsed.stored
    if is_context and (name != "context" or name not in parsed.parameters):
        of_class: type = ToolContext
    elif name in CLASSES and parsed.is_global(name):
        of_class = CLASSES[name]
    else:
        return
    is_field = issubclass(of_class, pydantic.BaseModel) and node.attr in of_class.model_fields
    if not (is_field or hasattr(of_class, node.attr)):
        says = f"{name}.{node.attr} does not exist in the platform's reference: it raises AttributeError"
        yield parsed.found("CES409", says, "fix the name, or read what the reference has instead", node)
        return
    call = parsed.parents[node]
    if not isinstance(call, ast.Call) or call.func is not node or not node.attr.startswith("from_"):
        return
    known = inspect.signature(getattr(of_class, node.attr)).parameters
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg not in known:
            says = f"{name}.{node.attr}() has no keyword {keyword.arg} in the platform's reference"
            yield parsed.found("CES409", says, f"it has: {', '.join(known)}", keyword)


def _check_answer(parsed: Parsed, node: ast.Attribute) -> Iterator[Finding]:
    """Yield attributes that an ExternalResponse does not have."""
    is_answer = parsed.is_answer(node.value) or (
        isinstance(node.value, ast.Name) and node.value.id in parsed.answers
    )
    if is_answer and node.attr not in _OF_ANSWERS | parsed.asked_for:
        says = f"an ExternalResponse has no attribute {node.attr}"
        fix = (
            f"there are {', '.join(sorted(_OF_ANSWERS))}; json() returns what the tool or the server answered"
        )
        yield parsed.found("CES404", says, fix, node)
