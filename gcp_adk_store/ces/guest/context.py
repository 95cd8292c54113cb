"""Let code read its session and change the variables, and report how it changed them."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from typing import Any

import pydantic

from .contract import StateDelta
from .messages import Content, Event, EventActions, Part
from .models import Model, NotJsonError, OfRuntime, plain, same_json


class CallbackContext(Model):
    """The session that a callback belongs to."""

    user_content: Content | None = None
    """The user's latest message."""
    invocation_id: str = ""
    agent_name: str = ""
    session_id: str = ""
    state: dict[str, Any] = pydantic.Field(
        default_factory=dict, validation_alias=pydantic.AliasChoices("state", "variables")
    )
    """The variables; a plain dict."""
    actions: EventActions = pydantic.Field(default_factory=EventActions)
    events: list[Event] = pydantic.Field(default_factory=list)
    streaming_stage: str | None = None
    language_code: str = ""
    project_id: str = ""
    project_number: int = 0
    location: str = ""
    app_id: str = ""
    turn_index: int = 0
    _withheld: set[str] = pydantic.PrivateAttr(default_factory=set)
    """Names of variables that the host has, and did not send because they are not JSON."""

    @property
    def variables(self) -> dict[str, Any]:
        """The same as ``state``."""
        return self.state

    @variables.setter
    def variables(self, value: dict[str, Any]) -> None:
        self.state = value

    def get_variable(self, key: str, default: Any = None) -> Any:
        """Return the variable *key*, or *default* if it is missing."""
        return self.state.get(key, default)

    def set_variable(self, key: str, value: Any) -> None:
        """Set the variable *key*."""
        self.state[key] = value

    def remove_variable(self, key: str) -> None:
        """Remove the variable *key*, also one that is withheld because it is not JSON.

        Raises:
            KeyError: the variable is missing.
        """
        if key in self._withheld:
            self._withheld.remove(key)
            self.state.pop(key, None)
        else:
            del self.state[key]

    def get_last_user_input(self) -> list[Part]:
        """Return the parts of the latest run of events by the user, in order."""
        return _last_parts(self.events, Event.is_user)

    def get_last_agent_output(self) -> list[Part]:
        """Return the parts of the latest run of events by agents, in order."""
        return _last_parts(self.events, Event.is_agent)

    def parts(self) -> list[Part]:
        """Return the parts of all events, in order."""
        return _parts(self.events)


class ToolContext(CallbackContext):
    """The session that a tool call belongs to."""

    function_call_id: str = ""


def _parts(events: Iterable[Event]) -> list[Part]:
    return [part for event in events for part in event.parts()]


def _last_parts(events: list[Event], of_author: Callable[[Event], bool]) -> list[Part]:
    newest_first = dropwhile(lambda event: not of_author(event), reversed(events))
    return _parts(reversed([*takewhile(of_author, newest_first)]))


class VariableTooLargeError(OfRuntime, ValueError):
    """A variable is larger than the platform takes; the whole turn would fail."""


@dataclass(slots=True)
class Variables:
    """The variables of a context, beside what they were."""

    context: CallbackContext
    before: dict[str, Any]
    """Plain JSON; never handed to the code."""
    withheld: frozenset[str] = frozenset()
    """Names of further variables, which the code is not sent."""
    given: dict[str, Any] = field(init=False)
    """Copies of those values, as the code got them."""

    def __post_init__(self) -> None:
        self.given = plain(self.before, "variables")
        self.context.state = dict(self.given)
        self.context._withheld = {*self.withheld}  # noqa: SLF001  # kept from code, by name

    def as_json(self) -> dict[str, Any]:
        """Return the variables as the code left them so far, as JSON.

        Raises:
            NotJsonError: a variable cannot be JSON, or the variables are not a dict.
        """
        current: object = self.context.state
        if not isinstance(current, dict):
            raise NotJsonError(f"variables: {type(current).__name__} is not a dict")
        state: dict[str, Any] = plain(current, "variables")
        return state

    def apply(self, delta: StateDelta | None) -> None:
        """Change the variables as *delta* says, if there is one."""
        changed, removed = (delta["changed"], delta["removed"]) if delta else ({}, [])
        self.context.state.update(changed)
        for name in removed:
            with suppress(KeyError):
                self.context.remove_variable(name)

    def changes(self, warn: Callable[[str], None], *, max_bytes: int | None) -> StateDelta:
        """Return how the variables changed, none with more than *max_bytes* of JSON in UTF-8; None is any.

        *warn* gets what is to be said of large ones that stay, and of those that changed inside alone.

        Raises:
            NotJsonError: a variable cannot be JSON.
            VariableTooLargeError: one is too large.
        """
        state = self.as_json()
        current = self.context.state
        changed = {
            name: value
            for name, value in state.items()
            if name not in self.before or not same_json(self.before[name], value)
        }
        for name, value in changed.items():
            if too_large := _too_large(name, value, max_bytes):
                raise VariableTooLargeError(too_large)
        for name, value in self.before.items():
            if name not in changed and (too_large := _too_large(name, value, max_bytes)):
                warn(too_large)
        for name in changed:
            if name in self.given and current[name] is self.given[name]:
                warn(f"variable {name!r} was changed inside and not set again: the platform may miss it")
        removed = [*self.before, *sorted(self.withheld - self.context._withheld)]  # noqa: SLF001  # as above
        return {"changed": changed, "removed": [name for name in removed if name not in state]}


def _too_large(name: str, value: Any, max_bytes: int | None) -> str | None:
    """Return what is wrong with a variable that is too large, or None."""
    size = len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if max_bytes is None or size <= max_bytes:
        return None
    return (
        f"variable {name!r} has {size:,} bytes of JSON, the limit is {max_bytes:,} (max_variable_bytes): "
        "the platform ends such a turn with FAILED_PRECONDITION"
    )
