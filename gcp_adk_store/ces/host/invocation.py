"""Hold the options of a run, and of the calls within it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypedDict

from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.ces.host.results import RunFailure
from gcp_adk_store.ces.host.settings import USER, RuntimeSettings, SessionKey, SessionKeyLike
from gcp_adk_store.ces.sandbox.interface import Clock
from gcp_adk_store.ces.tools.declarations import MockConfig
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import kinds_of_members

CALL_ID: Final = "call-"
"""What ids of calls begin with that this package makes."""


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
    """The options of one run, complete; or of a tool that its code calls."""

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
    """Once the session is open, all that code sees of it."""
    mocks: MockConfig | None
    warnings: Sequence[str] = ()
    """What code cannot see of the open session."""
    clocks: Sequence[Clock] = ()
    """Of the runs that it is within, the first one first: they stand still while it waits for a sandbox. A
    model's call has none. For code's, a mock must fit if `MockConfig.unmatched` says so."""

    @property
    def subject(self) -> str:
        """What it is about: the name of the tool, or the kind of the callbacks."""
        return self.what.partition(" ")[2]

    @property
    def place(self) -> dict[str, Any]:
        """The public operation and the session, as the attributes of errors."""
        return {"operation": self.what.partition(" ")[0], "key": str(self.key)}

    @property
    def asker(self) -> str:
        """The user, for what is shared fairly among them."""
        return str(self.key).rpartition("/")[0]

    @classmethod
    def of(cls, what: str, key: SessionKeyLike, settings: RuntimeSettings, given: RunOptions) -> Self:
        """Return the invocation with the options *given*, and defaults for missing ones.

        Raises:
            InvalidInputError: *key* is not valid, an option is of another kind, or the agent has the name
                ``user``.
            TypeError: an option is unknown.
        """
        kinds = kinds_of_members(RunOptions)
        if unknown := given.keys() - kinds.keys():
            raise TypeError(f"unknown options of a run: {', '.join(sorted(unknown))}")
        for option, value in given.items():
            kinds[option].require(value)
        if given.get("agent_name") == USER:
            raise InvalidInputError(f"agent_name cannot be {USER!r}")
        return cls(
            what=what,
            key=SessionKey.of(key),
            agent_name=given.get("agent_name") or settings.agent_name,
            invocation_id=given.get("invocation_id") or f"e-{platform_uuid.new_uuid()}",
            function_call_id=given.get("function_call_id") or new_call_id(),
            event_id=given.get("event_id") or Event.new_id(),
            may_be_stored=bool(given.get("event_id")),
            user_content=given.get("user_content"),
            context=given.get("context") or {},
            mocks=given.get("mocks"),
        )

    def calling(self, tool: str, state: Mapping[str, Any]) -> Self:
        """Return the call of *tool*, which sees the variables *state*."""
        call_id = new_call_id()
        context = {**self.context, "state": state, "functionCallId": call_id}
        return replace(self, what=f"call_tool {tool}", function_call_id=call_id, context=context)


def new_call_id() -> str:
    """Return an id for a call of a function."""
    return f"{CALL_ID}{platform_uuid.new_uuid()}"


def failure_of(error: Exception) -> RunFailure:
    """Return what ended a run from outside as its failure."""
    return RunFailure(type=type(error).__name__, message=str(error))
