"""Let code read its session and change the variables."""

from collections.abc import Callable, Iterable
from itertools import dropwhile, takewhile
from typing import Any

import pydantic

from .content import Content, Part
from .events import Event, EventActions
from .models import Model


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
    """Variables that are there and were not sent: too many, or not JSON."""
    _removed: set[str] = pydantic.PrivateAttr(default_factory=set)
    """Those of them that the code removed."""

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
        """Remove the variable *key*.

        Raises:
            KeyError: the variable is missing.
        """
        if key in self._withheld:
            self._withheld.discard(key)
            self._removed.add(key)
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
