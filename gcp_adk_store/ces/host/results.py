"""Hold what became of a run."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """Why code failed: an exception of its own."""

    type: str
    """Name of the exception's class, such as ``KeyError``."""
    message: str
    traceback: str
    """As Python prints it, with the frames of user code alone."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"

    @property
    def response(self) -> dict[str, Any]:
        """What a tool that failed answers."""
        return {"result": {"error": str(self)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What code asked of the host, and what it was answered."""

    kind: Literal["tool", "http"]
    name: str
    """Of the tool; of a request the method."""
    asked: Mapping[str, Any]
    """A tool's arguments; of a request what it was given: ``url``, ``params`` and so on. The beginning of it,
    where it has more than 16,384 characters; ``asked_whole`` says so."""
    status_code: int
    reason: str
    text: str
    """The beginning of it."""
    duration_s: float
    asked_whole: bool = True
    """Whether ``asked`` is all that was asked."""
    background: bool = False
    mocked: bool = False
    """Whether a mock or a fake answered."""
    stdout: str = ""
    """What a called Python tool printed."""
    error: RunFailure | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of any run."""

    error: RunFailure | None
    """Why it failed; None where it ended well. After a failure the session is as it was."""
    variables: Mapping[str, Any]
    """The variables afterwards."""
    stdout: str
    """What the code printed, to stdout or stderr."""
    warnings: Sequence[str]
    """What works here and may not on the platform, and what the host refused."""
    calls: Sequence[Call]
    """What the code asked of the host, in the order of the answers; not what called tools asked."""
    actions: Mapping[str, Any] | None
    """``context.actions``, where the code changed them; what follows of them is up to the caller."""
    event_id: str | None
    """The event that was appended; None where nothing was to be stored."""
    invocation_id: str
    duration_s: float
    """Seconds from the first read of the session to its append."""

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun(Run):
    """What became of a tool call."""

    response: Mapping[str, Any] | None
    """What the function response holds: ``{"result": ...}``, of an asynchronous tool the placeholder."""
    function_call_id: str
    late: "asyncio.Task[ToolRun] | None" = field(default=None, repr=False, compare=False)
    """Of an asynchronous tool, what goes on."""

    @property
    def pending(self) -> bool:
        """Whether the response is but a placeholder."""
        return self.late is not None

    async def finished(self) -> "ToolRun":
        """Return what became of an asynchronous tool once its response is stored; of others, this.

        Raises:
            StoreError: it could not be stored.
        """
        return self if self.late is None else await asyncio.shield(self.late)

    @property
    def result(self) -> Any:
        """What the tool returned."""
        return None if self.response is None else self.response.get("result")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackRun(Run):
    """What became of the callbacks of one kind."""

    kind: str
    """``before_agent`` and the like."""
    override: Mapping[str, Any] | None
    """What a callback returned, as JSON: Content, LlmResponse, or the dict; None where all returned None."""
    overridden_by: int | None
    """Index of the callback that did; those after it were not run."""
    llm_request: Mapping[str, Any] | None = None
    """As the callbacks left it; None where none was given."""
    llm_response: Mapping[str, Any] | None = None
    args: Mapping[str, Any] | None = None
    """The tool's arguments, as callbacks left their ``input``."""
    tool_response: Mapping[str, Any] | None = None
    changed: frozenset[str] = field(default_factory=frozenset)
    """Which of those four are not as they were given."""
