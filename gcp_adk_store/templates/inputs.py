"""Fill prompts from inputs before a run: the input dialect.

``{name}`` stands for an input, ``{{name}}`` for the text ``{name}``; a name is one or more of
``A-Z a-z 0-9 _``. A value is inserted once and never parsed: ``{other}`` in it stays as it is.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

from google.adk.agents import BaseAgent

from gcp_adk_store.errors import InvalidInputError, PromptTemplateError
from gcp_adk_store.kernel.calls import checks_arguments, require_kinds
from gcp_adk_store.templates.parsing import require_template, text_of

logger = logging.getLogger(__name__)

# As in Java, the origin of this dialect, a word is ASCII.
_PLACEHOLDER: Final = re.compile(r"\{\{(?P<escaped>\w+)\}\}|\{(?P<name>\w+)\}", re.ASCII)

Agent = TypeVar("Agent", bound=BaseAgent)

_AGENT_TEXTS = ("description", "instruction", "global_instruction", "static_instruction")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTask:
    """A task as templates, or with resolved templates; immutable."""

    description: str | None = None
    """The task's description."""
    expected_output: str | None = None
    """The expected result."""
    name: str | None = None
    agent: Any = None
    """The agent of the task; kept unchanged."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Other data of the task; kept unchanged."""


@overload
def resolve_template(template: None, inputs: Mapping[str, Any] | None) -> None: ...
@overload
def resolve_template(template: str, inputs: Mapping[str, Any] | None) -> str: ...
def resolve_template(template: str | None, inputs: Mapping[str, Any] | None) -> str | None:
    """Return *template* with its variables replaced by *inputs*.

    Args:
        template: The template; ``None`` and a blank one are returned unchanged.
        inputs: Values by name, or ``None``. A value of ``None`` becomes empty, any other its ``str``.

    Raises:
        PromptTemplateError: variables have no input; the error names all of them.
        InvalidInputError: *template* is neither a text nor ``None``, *inputs* is not a mapping, or a value
            has no text.
    """
    require_kinds(resolve_template, (), {"inputs": inputs})
    if template is None:
        return None
    require_template(template)
    if not template.strip():
        return template
    given = inputs or {}
    logger.debug("Resolving template (%d chars) with %d variables", len(template), len(given))
    names = dict.fromkeys(match["name"] for match in _PLACEHOLDER.finditer(template) if match["name"])
    missing = [name for name in names if name not in given]
    if missing:
        raise PromptTemplateError.of(missing, template)
    texts = {name: text_of(given[name], name) for name in names}
    logger.debug("Resolved %d variables in template", len(texts))
    return _PLACEHOLDER.sub(
        lambda match: texts[match["name"]] if match["name"] else f"{{{match['escaped']}}}", template
    )


@checks_arguments
def resolve_tasks(tasks: Iterable[PromptTask], inputs: Mapping[str, Any] | None) -> list[PromptTask]:
    """Return copies of *tasks* with resolved texts; the tasks themselves stay unchanged.

    Raises:
        PromptTemplateError: a text of a task has a variable without input.
        InvalidInputError: one of *tasks* is not a task, or *inputs* is not a mapping.
    """
    given = [*tasks]
    for task in given:
        if not isinstance(task, PromptTask):
            raise InvalidInputError(f"each of tasks must be a PromptTask, not {type(task).__name__}")
    return [
        replace(
            task,
            description=resolve_template(task.description, inputs),
            expected_output=resolve_template(task.expected_output, inputs),
        )
        for task in given
    ]


@checks_arguments
def resolve_agent(agent: Agent, inputs: Mapping[str, Any] | None) -> Agent:
    """Return a copy of *agent* and its sub-agents with resolved descriptions and instructions.

    Instructions that are functions stay as they are. ``{user:name}``, which cannot name an input, and
    ``{{name}}``, which becomes ``{name}``, stay for the session's state when the agent runs. So does
    ``{other}`` in a value: ADK cannot distinguish it from the template's.

    Raises:
        PromptTemplateError: a text has a variable without input.
        InvalidInputError: *agent* is not an agent of ADK, or *inputs* is not a mapping.
    """
    if not isinstance(agent, BaseAgent):
        raise InvalidInputError(f"agent must be an agent of ADK, not {type(agent).__name__}")
    update: dict[str, Any] = {
        name: resolve_template(text, inputs)
        for name in _AGENT_TEXTS
        if isinstance(text := getattr(agent, name, None), str)
    }
    update["sub_agents"] = [resolve_agent(below, inputs) for below in agent.sub_agents]
    return agent.clone(update=update)
