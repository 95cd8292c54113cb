"""The options of a run, as a caller gives them and complete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypedDict

from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.ces.host.keys import SessionKey, SessionKeyLike
from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.host.toolbox import new_call_id
from gcp_adk_store.ces.tools.mocks import MockConfig
from gcp_adk_store.errors import InvalidInputError

_USER: Final = "user"


class RunOptions(TypedDict, total=False):
    """Options of a run."""

    agent_name: str | None
    """By default that of the settings."""
    invocation_id: str | None
    """By default a new one."""
    function_call_id: str | None
    """Of a tool, or of callbacks of tools; by default a new one."""
    event_id: str | None
    """Of the event that the run appends; by default a new one. If the events that code sees include it
    already, the run raises a SessionConflictError before its code begins. So a repeat is safe."""
    user_content: Any
    """The last message of the user, if the session does not have it yet: ADK's Content, or JSON."""
    context: Mapping[str, Any] | None
    """Further fields of ``context``, such as ``language_code``."""
    mocks: MockConfig | None
    """Answers to the tool calls of the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The options of one run, complete."""

    what: str
    """The public operation and what it is about, for messages: names, never content."""
    key: SessionKey
    agent_name: str
    invocation_id: str
    function_call_id: str
    event_id: str
    may_be_stored: bool
    """Whether the caller names the event, which an earlier run may have stored then."""
    user_content: Any
    context: Mapping[str, Any]
    mocks: MockConfig | None

    @property
    def operation(self) -> str:
        """The public operation, such as ``run_tool``."""
        return self.what.partition(" ")[0]

    @classmethod
    def of(
        cls,
        what: str,
        key: SessionKeyLike,
        settings: RuntimeSettings,
        *,
        agent_name: str | None = None,
        invocation_id: str | None = None,
        function_call_id: str | None = None,
        event_id: str | None = None,
        user_content: Any = None,
        context: Mapping[str, Any] | None = None,
        mocks: MockConfig | None = None,
    ) -> Self:
        """Return the invocation, with defaults for missing options.

        Raises:
            InvalidInputError: *key* is not valid, or the agent has the name ``user``.
        """
        if agent_name == _USER:
            raise InvalidInputError(f"agent_name cannot be {_USER!r}")
        return cls(
            what=what,
            key=SessionKey.of(key),
            agent_name=agent_name or settings.agent_name,
            invocation_id=invocation_id or f"e-{platform_uuid.new_uuid()}",
            function_call_id=function_call_id or new_call_id(),
            event_id=event_id or Event.new_id(),
            may_be_stored=bool(event_id),
            user_content=user_content,
            context=context or {},
            mocks=mocks,
        )
