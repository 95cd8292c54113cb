"""The results of runs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """The exception that ended the code."""

    type: str
    """Name of the exception's class, such as ``KeyError``."""
    message: str
    traceback: str
    """As Python prints it, with the frames of user code alone."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"

    @property
    def response(self) -> dict[str, Any]:
        """The response of a tool that failed."""
        return {"result": {"error": str(self)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A host call of the code, and its answer."""

    kind: Literal["tool", "http"]
    name: str
    """The name of the tool, or the method of the request."""
    asked: Mapping[str, Any]
    """The arguments of the tool, or those of the request: ``url``, ``params`` and so on; at most about 16,384
    characters. ``asked_whole`` is False if more was cut."""
    status_code: int
    reason: str
    text: str
    """The beginning of it."""
    duration_s: float
    asked_whole: bool = True
    """Whether ``asked`` is complete."""
    background: bool = False
    mocked: bool = False
    """Whether a mock or a fake answered."""
    stdout: str = ""
    """What a called Python tool printed."""
    error: RunFailure | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of any run."""

    error: RunFailure | None
    """Why the run failed; None on success. After a failure the session is unchanged."""
    variables: Mapping[str, Any]
    """The variables afterwards."""
    stdout: str
    """The output of the code, to stdout or stderr."""
    warnings: Sequence[str]
    """Code that may not work on the platform, and refusals of the host."""
    calls: Sequence[Call]
    """Host calls of the code, in the order of the answers, without those of called tools."""
    actions: Mapping[str, Any] | None
    """``context.actions`` if the code changed them; the caller decides what follows."""
    event_id: str | None
    """The appended event; None if nothing changed."""
    invocation_id: str
    duration_s: float
    """Seconds from the first read of the session to its append."""

    @property
    def ok(self) -> bool:
        """Whether the run succeeded."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun(Run):
    """The result of a tool call."""

    response: Mapping[str, Any] | None
    """The content of the function response: ``{"result": ...}``, or the placeholder."""
    function_call_id: str
    late: "asyncio.Task[ToolRun] | None" = field(default=None, repr=False, compare=False)
    """The task of an asynchronous tool."""

    @property
    def pending(self) -> bool:
        """Whether the response is a placeholder."""
        return self.late is not None

    async def finished(self) -> "ToolRun":
        """Return the result of an asynchronous tool when its response is stored; other tools return this one.

        Raises:
            StoreError: the response could not be stored.
        """
        return self if self.late is None else await asyncio.shield(self.late)

    @property
    def result(self) -> Any:
        """The return value of the tool."""
        return None if self.response is None else self.response.get("result")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackRun(Run):
    """The result of the callbacks of one kind."""

    kind: str
    """``before_agent`` and the like."""
    override: Mapping[str, Any] | None
    """The JSON of what a callback returned: Content, LlmResponse, or the dict; None if all returned None."""
    overridden_by: int | None
    """Index of that callback; later ones did not run."""
    llm_request: Mapping[str, Any] | None = None
    """The request after the callbacks; None if the caller gave none."""
    llm_response: Mapping[str, Any] | None = None
    args: Mapping[str, Any] | None = None
    """The tool's arguments after the callbacks, their ``input``."""
    tool_response: Mapping[str, Any] | None = None
    changed: frozenset[str] = field(default_factory=frozenset)
    """The names of those four that the callbacks changed."""
