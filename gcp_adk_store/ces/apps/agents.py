"""Read what agents are told, what they may call, and to whom they hand over."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_TO_CHILD: Final = "PARENT_TO_CHILD"
_TO_PARENT: Final = "CHILD_TO_PARENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRule:
    """A condition that forces or forbids a transfer between an agent and its child."""

    child: str
    """The child, as the configuration names it."""
    to_child: bool
    """Whether it is about the way from the parent to the child, and not the way back."""
    forbids: bool
    """Whether the model may not choose the transfer while the condition holds; else it is forced then."""
    expression: str | None = None
    code: str | None = None
    """Python, or the path of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetUse:
    """The operations of a toolset that an agent may call."""

    toolset: str
    operations: tuple[str, ...] = ()
    """Their ids; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An agent of an app, as its configuration has it."""

    name: str
    """The display name: what a transfer names."""
    folder: str
    description: str = ""
    instruction: str = ""
    model: str = ""
    """Of its own model settings; empty for those of the app."""
    temperature: float | None = None
    tools: tuple[str, ...] = ()
    """System tools such as ``end_session`` too."""
    toolsets: tuple[ToolsetUse, ...] = ()
    children: tuple[str, ...] = ()
    """As the configuration names them."""
    rules: tuple[TransferRule, ...] = ()
    guardrails: tuple[str, ...] = ()
    """Beside those of the app, as the configuration names them."""

    @property
    def names(self) -> frozenset[str]:
        """What configurations may call it."""
        return frozenset({self.name, self.folder})


def agent_of(folder: str, config: Mapping[str, Any], instruction: str) -> AgentSpec:
    """Return the agent in *folder*; what is malformed in *config* is left out.

    Args:
        folder: The name of its folder.
        config: Its configuration; may be empty.
        instruction: The text, not its path.
    """
    settings = _mapping(config.get("modelSettings"))
    temperature = settings.get("temperature")
    return AgentSpec(
        name=str(config.get("displayName") or folder),
        folder=folder,
        description=str(config.get("description") or ""),
        instruction=instruction,
        model=str(settings.get("model") or ""),
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
        tools=tuple(map(last_of, _texts(config.get("tools")))),
        toolsets=tuple(_toolsets(config.get("toolsets"))),
        children=tuple(map(last_of, _texts(config.get("childAgents")))),
        rules=tuple(_rules(config.get("transferRules"))),
        guardrails=named(config.get("guardrails")),
    )


def named(listed: Any) -> tuple[str, ...]:
    """Return the names that *listed* has; what is no list or no name stays, and names nothing that exists."""
    return tuple(map(str, listed if isinstance(listed, list) else () if listed is None else [listed]))


def last_of(name: str) -> str:
    """Return the last part of a resource name; other names stay as they are."""
    return name.rpartition("/")[2] if name.startswith("projects/") else name


def _toolsets(listed: Any) -> Iterator[ToolsetUse]:
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, str):
            yield ToolsetUse(toolset=last_of(each))
        elif isinstance(each, Mapping) and isinstance(each.get("toolset"), str):
            yield ToolsetUse(toolset=last_of(each["toolset"]), operations=tuple(_texts(each.get("toolIds"))))


def _rules(listed: Any) -> Iterator[TransferRule]:
    for each in listed if isinstance(listed, list) else ():
        told = _mapping(each)
        forced, forbidden = told.get("deterministicTransfer"), told.get("disablePlannerTransfer")
        condition = _mapping(forced if forced is not None else forbidden)
        child, direction = told.get("childAgent"), told.get("direction")
        if not isinstance(child, str) or direction not in {_TO_CHILD, _TO_PARENT} or not condition:
            continue
        yield TransferRule(
            child=last_of(child),
            to_child=direction == _TO_CHILD,
            forbids=forced is None,
            expression=_text_in(condition.get("expressionCondition"), "expression"),
            code=_text_in(condition.get("pythonCodeCondition"), "pythonCode"),
        )


def _text_in(holder: Any, name: str) -> str | None:
    text = _mapping(holder).get(name)
    return text if isinstance(text, str) else None


def _texts(listed: Any) -> list[str]:
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
