"""Load what the turns of an app need: its code, its conditions, and the declarations of its tools."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gcp_adk_store.ces.apps.agents import TransferRule
from gcp_adk_store.ces.apps.guardrails import GuardrailSpec, in_force
from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.apps.loading import load_code, load_tools
from gcp_adk_store.ces.conversation.conditions import Condition
from gcp_adk_store.ces.tools.declarations import CodeFile, PythonTool, Tool, by_name
from gcp_adk_store.ces.tools.signatures import declaration_of
from gcp_adk_store.errors import InvalidInputError

_ENTRY = "ces_condition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An app, with its files read."""

    app: AgentApp
    tools: tuple[Tool, ...]
    declarations: Mapping[str, dict[str, Any]]
    """Of tools, by name, as models get them."""
    asynchronous: frozenset[str]
    """Names of the tools that answer with a placeholder first."""
    callbacks: Mapping[tuple[str, str], tuple[CodeFile, ...]]
    """By the folder of the agent and the kind, without those that are disabled."""
    guardrails: Mapping[str, tuple[GuardrailSpec, ...]] = field(default_factory=dict)
    """Of each agent, by its folder, in order."""
    guardrail_code: Mapping[tuple[str, str], CodeFile] = field(default_factory=dict)
    """By the folder of the guardrail and the kind, without what is disabled."""
    conditions: Mapping[TransferRule, Condition] = field(default_factory=dict)
    condition_code: Mapping[TransferRule, CodeFile] = field(default_factory=dict)

    @classmethod
    def of(cls, app: AgentApp, tools: Iterable[Tool] = ()) -> Self:
        """Return the program of *app*; *tools* replace those of the same name.

        Raises:
            InvalidInputError: a file cannot be read, or a condition is not valid.
        """
        given = by_name(tools)
        own = [tool for tool in load_tools(app) if not set(by_name([tool])) & given.keys()]
        callees = {**by_name(own), **given}
        callbacks: dict[tuple[str, str], tuple[CodeFile, ...]] = {}
        for each in app.callbacks:
            if not (each.disabled or each.guardrail):
                place = (each.agent, each.callback)
                callbacks[place] = (*callbacks.get(place, ()), load_code(each.path))
        rules = [rule for agent in app.agents for rule in agent.rules]
        return cls(
            app=app,
            tools=(*own, *tools),
            declarations={name: declaration_of(callee) for name, callee in callees.items()},
            asynchronous=frozenset(
                name
                for name, callee in callees.items()
                if isinstance(callee, PythonTool) and callee.execution == "ASYNCHRONOUS"
            ),
            callbacks=callbacks,
            guardrails={
                agent.folder: tuple(in_force(app.guardrails, app.guards_all, agent)) for agent in app.agents
            },
            guardrail_code={
                (each.guardrail, each.callback): load_code(each.path)
                for each in app.callbacks
                if each.guardrail and not each.disabled
            },
            conditions={rule: Condition.of(rule.expression) for rule in rules if rule.expression is not None},
            condition_code={
                rule: _condition_code(app, rule.code)
                for rule in rules
                if rule.expression is None and rule.code is not None
            },
        )


def _condition_code(app: AgentApp, code: str) -> CodeFile:
    """Return *code*, or the file whose path it is, with a function that returns whether it holds.

    The code is an expression, or has a function, whose first parameter, if it has one, is the context.

    Raises:
        InvalidInputError: it is neither.
    """
    path = app.folder / code if "\n" not in code and code.endswith(".py") else None
    file = CodeFile(code, "transfer_rule.py") if path is None else load_code(path)
    try:
        tree = ast.parse(file.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise InvalidInputError(f"the code of a transfer rule cannot be read: {exc}") from exc
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if functions:
        argument = "context" if functions[0].args.args else ""
        source = f"{file.source}\n\ndef {_ENTRY}():\n    return bool({functions[0].name}({argument}))\n"
    elif len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
        source = f"def {_ENTRY}():\n    return bool({ast.unparse(tree.body[0])})\n"
    else:
        raise InvalidInputError(
            "the code of a transfer rule must be an expression, or define a function that returns whether "
            "it holds"
        )
    return CodeFile(source, file.filename, _ENTRY)
