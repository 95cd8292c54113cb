"""Rules of the linter about configuration, and about what the runtime does."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pydantic
from pydantic.alias_generators import to_camel

from gcp_adk_store.ces.apps.agents import MENTION, AgentSpec, by_names
from gcp_adk_store.ces.apps.files import Config, Files, declared_variables, folders, typed
from gcp_adk_store.ces.apps.findings import Finding, Parsed
from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.guest.host_calls import AsyncTools, ExternalResponse, Requests, Tools
from gcp_adk_store.ces.guest.namespace import INTERNAL_MODULE

SYSTEM_TOOLS: Final = {
    "end_session": "Part.from_end_session(reason=...)",
    "transfer_to_agent": "Part.from_agent_transfer(agent)",
    "customize_response": "Part.from_customized_response(content=...)",
}
"""Tools of the platform that models call, and a callback's content: ``tools`` does not have them."""
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
    files = Files(folder=app.folder, configs=dict(app.configs))
    whole = files.config(app.folder / "app")
    yield from _check_variables(whole)
    yield from _check_mentions(app.global_instruction, None, app, whole)
    parents: dict[str, str] = {}
    for agent in app.agents:
        config = files.config(app.folder / "agents" / agent.folder / agent.folder)
        yield from _check_names(agent, app, config)
        for child in filter(None, map(app.agent, agent.children)):
            parent = parents.setdefault(child.folder, agent.folder)
            if parent != agent.folder:
                says = f"{child.name} is a child of {parent} too: the platform wants one parent"
                yield config.found("CES609", says, "take it out of one of them", child.name)
        place = Config(agent.path, app.shown(agent.path), agent.instruction, {})
        yield from _check_mentions(agent.instruction, agent, app, place)
    for config in files.configs.values():
        yield from _check_keys(config.members, config)
        yield from _check_headers(config)


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
    for name, value in typed(dict, config.members, "mcpToolset", "customHeaders").items():
        if not _VARIABLE.fullmatch(str(value)):
            says = f"the value of the custom header {name} is not a variable, and the platform takes no other"
            yield config.found("CES610", says, "write $context.variables.NAME", str(name))


def _check_variables(config: Config) -> Iterator[Finding]:
    """Yield declared variables whose defaults are of another type than their schemas say."""
    for name, schema in declared_variables(config.members):
        if schema.get("default") is None or "type" not in schema:
            continue
        kind, default = str(schema["type"]).upper(), schema["default"]
        if type(default) not in _TYPES.get(kind, ()):
            found = type(default).__name__
            says = f"the variable {name} is declared as {kind[:40]}, and its default is a {found}"
            yield config.found("CES607", says, f"write one of {', '.join(_TYPES)}, and such a default", name)


def _check_names(agent: AgentSpec, app: AgentApp, config: Config) -> Iterator[Finding]:
    """Yield tools, toolsets and children that *agent* names and the app does not have."""
    yield from config.unknown("CES603", "the tool", agent.tools, _tool_names(app), app.tool_names)
    toolsets = by_names(app.toolsets)
    for name, operations in agent.toolsets:
        yield from config.unknown("CES603", "the toolset", [name], toolsets)
        toolset = toolsets.get(name)
        if toolset is not None and not toolset.kind:
            known = {each.removeprefix(f"{toolset.name}_") for each in toolset.tool_names}
            what = f"in the toolset {toolset.name}, the operation"
            yield from config.unknown("CES603", what, operations, known, toolset.tool_names)
    children = dict.fromkeys((*agent.children, *(rule.child for rule in agent.rules)))
    names = [each.name for each in app.agents]
    yield from config.unknown("CES604", "the child", children, by_names(app.agents), names)


def _check_mentions(text: str, agent: AgentSpec | None, app: AgentApp, place: Config) -> Iterator[Finding]:
    """Yield what an instruction, of *agent* or of all, mentions that the app, or the agent, does not have."""
    tools = {name.casefold() for name in _tool_names(app)}
    listed = () if agent is None else (*agent.tools, *app.tools_of(agent), *SYSTEM_TOOLS)
    own = {name.casefold() for name in listed}
    names = [each.name for each in app.agents]
    for kind, name in dict.fromkeys(MENTION.findall(text)):
        if kind == "AGENT":
            yield from place.unknown("CES605", "the mentioned agent", [name], by_names(app.agents), names)
        elif name.casefold() not in tools:
            yield from place.unknown("CES605", "the mentioned tool", [name], (), app.tool_names)
        elif agent is not None and name.casefold() not in own:
            says = f"{{@TOOL: {name}}} is not among the tools of {agent.name}: its model cannot call it"
            yield place.found("CES606", says, "add it to the agent's tools, or take it out", name)


def _tool_names(app: AgentApp) -> frozenset[str]:
    """Return what agents and instructions may call tools, by their folders too, and the platform's own."""
    by_folder = (each.name for each in folders(app.folder / "tools"))
    return app.tool_names | SYSTEM_TOOLS.keys() | frozenset(by_folder)


_NO_MEMBER: Final[Mapping[type, str]] = {ExternalResponse: "CES404", Requests: "CES406"}
"""Rules about members that a class does not have; CES409 of other classes."""


def check_use(parsed: Parsed) -> Iterator[Finding]:
    """Yield what is wrong with how the code of a tool or a callback uses the runtime."""
    for node in parsed.nodes:
        if not isinstance(node, ast.Attribute) or (of_class := parsed.class_of(node.value)) is None:
            continue
        call = parsed.parents[node]
        called = call if isinstance(call, ast.Call) and call.func is node else None
        if of_class not in (Tools, AsyncTools):
            yield from _check_member(parsed, node, called, of_class)
        elif called is not None and (called.keywords or len(called.args) > 1):
            says = f"{ast.unparse(node)}(...) takes its arguments as one dict"
            yield parsed.found("CES402", says, f'write: {ast.unparse(node)}({{"name": value}})', called)
        begins = of_class is AsyncTools or (of_class is Requests and node.attr.startswith("async_"))
        if begins and called is not None and isinstance(parsed.parents[called], ast.Expr | ast.Attribute):
            says = f"{ast.unparse(node)}(...) returns a function, and only its call waits for the answer"
            fix = "keep the function, and call it: waits = ...; answer = waits()"
            yield parsed.found("CES405", says, fix, called)


def _check_member(
    parsed: Parsed, node: ast.Attribute, called: ast.Call | None, of_class: type
) -> Iterator[Finding]:
    """Yield that *of_class* has no member *node*, or what is wrong with the keywords of its call."""
    name = node.attr
    own = [vars(each) for each in of_class.__mro__ if each.__module__ == INTERNAL_MODULE]
    fields = of_class.model_fields if issubclass(of_class, pydantic.BaseModel) else {}
    if not (name.startswith("_") or name in fields or hasattr(of_class, name)):
        if of_class is ExternalResponse and name in parsed.asked_for:
            return
        known = {each for each in {*fields}.union(*own) if not each.startswith("_")}
        says = f"{of_class.__name__} of the platform has no {name}: it raises AttributeError"
        fix = f"it has: {', '.join(sorted(known))}"
        yield parsed.found(_NO_MEMBER.get(of_class, "CES409"), says, fix, node)
    elif called is not None and of_class is Requests:
        yield from _check_keywords(parsed, called, Requests.request, "CES403")
        for keyword in called.keywords:
            if keyword.arg == "data" and _is_bytes(keyword.value):
                says = "data= of ces_requests cannot be bytes: it raises TypeError"
                yield parsed.found("CES407", says, "give text, or json=", keyword)
    elif called is not None and name.startswith("from_"):
        yield from _check_keywords(parsed, called, getattr(of_class, name), "CES409")


def _check_keywords(
    parsed: Parsed, call: ast.Call, method: Callable[..., Any], code: str
) -> Iterator[Finding]:
    """Yield the keywords of *call* that *method* does not know."""
    known = [each for each in inspect.signature(method).parameters if each != "self"]
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg not in known:
            says = f"{ast.unparse(call.func)}() has no keyword {keyword.arg}: it raises TypeError"
            yield parsed.found(code, says, f"it has: {', '.join(known)}", keyword)


def _is_bytes(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bytes()):
            return True
        case ast.Call(func=ast.Name(id="bytes") | ast.Attribute(attr="encode")):
            return True
        case _:
            return False
