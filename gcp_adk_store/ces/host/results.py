"""Hold the results of runs and their logs, read the untrusted frames of a sandbox, and answer its calls."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar

from pydantic import OnErrorOmit, TypeAdapter, ValidationError

from gcp_adk_store.ces.guest import contract
from gcp_adk_store.ces.guest.models import fault_of
from gcp_adk_store.ces.host.settings import SessionKey
from gcp_adk_store.ces.sandbox.interface import SandboxOutputError, SandboxProtocolError

if TYPE_CHECKING:  # which the process of a test of callbacks does not need
    from google.adk.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """The exception that ended the code."""

    type: str
    """Name of the exception's class, such as ``KeyError``."""
    message: str
    traceback: str = ""
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
    """The arguments of the tool, or those of the request: ``url``, ``params`` and so on. If they have more
    than 16,384 characters, ``asked_whole`` is False, and the first 16 of them are cut to 512 characters of
    text, or of their JSON."""
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

    error: RunFailure | None = None
    """Why the run failed; None on success. After a failure the session is unchanged."""
    variables: Mapping[str, Any]
    """The variables afterwards."""
    stdout: str = ""
    """The output of the code, to stdout or stderr."""
    warnings: Sequence[str] = ()
    """Code that may not work on the platform, and refusals of the host."""
    calls: Sequence[Call] = ()
    """Host calls of the code, in the order of the answers, without those of called tools."""
    actions: Mapping[str, Any] | None = None
    """``context.actions`` if the code changed them; the caller decides what follows."""
    event_id: str | None = None
    """The appended event; None if nothing changed."""
    invocation_id: str
    duration_s: float = 0.0
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


LOG: Final = "ces_log"
"""The key of the logs in the ``custom_metadata`` of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """What one run of a tool or of callbacks printed, warned of and failed with."""

    what: str
    """The name of the tool, or the kind of the callbacks."""
    agent: str
    """The agent that acts."""
    printed: str = ""
    warnings: tuple[str, ...] = ()
    """As :class:`~gcp_adk_store.ces.ToolRun` has them: also why a request was refused, and what allows it."""
    failure: str = ""
    """The traceback, or what ended the code from outside; empty on success."""
    late: bool = False
    """Whether it is of an asynchronous tool, whose turn may be over."""

    @property
    def size(self) -> int:
        """Characters of all its texts; 0 if it printed nothing, warned of nothing and did not fail."""
        return len(self.printed) + len(self.failure) + sum(map(len, self.warnings))

    @property
    def text(self) -> str:
        """All of it as lines, below one with the agent and what ran."""
        lines = [*self.printed.splitlines(), *(f"warning: {each}" for each in self.warnings)]
        return "\n  ".join([f"{self.agent}: {self.what}", *lines, *self.failure.splitlines()])

    def cut(self, most: int) -> Self:
        """Return it with at most *most* characters: the end of the failure, then warnings, then prints."""
        failure = self.failure[max(0, len(self.failure) - most) :]
        left, warnings = most - len(failure), []
        for each in self.warnings:
            warnings.append(each[:left])
            left -= len(warnings[-1])
        kept = tuple(filter(None, warnings))
        return replace(self, failure=failure, warnings=kept, printed=self.printed[:left])


NoteRun: TypeAlias = Callable[[SessionKey, RunLog], None]
"""Gets the session of a run, and its log, as soon as the run has ended."""


def logs_of_run(log: RunLog, error: RunFailure | None, calls: Sequence[Call]) -> Iterator[RunLog]:
    """Yield the logs of the tools that a run called, then its own; empty ones are left out.

    *error* is what ended it.
    """
    for call in calls:
        failed = _text_of(call.error) if call.error is not None and call.kind == "tool" else ""
        called = replace(log, what=call.name, printed=call.stdout, warnings=(), failure=failed)
        if called.size:
            yield called
    whole = log if error is None else replace(log, failure=_text_of(error))
    if whole.size:
        yield whole


def _text_of(error: RunFailure) -> str:
    return error.traceback.rstrip("\n") or str(error)


def with_logs(event: "Event", logs: Iterable[RunLog], most: int) -> "Event":
    """Keep *logs* with *event*, *most* characters of them together, and return it."""
    kept = []
    for log in logs:
        cut = log.cut(most)
        most -= cut.size
        if cut.size:
            kept.append(asdict(cut) | {"warnings": list(cut.warnings)})
    if kept:
        event.custom_metadata = {**(event.custom_metadata or {}), LOG: kept}
    return event


_LOGS: Final = TypeAdapter(list[OnErrorOmit[RunLog]])


def logs_of(event: "Event") -> tuple[RunLog, ...]:
    """Return the logs that are kept with *event*, without entries that are not logs."""
    found = (event.custom_metadata or {}).get(LOG)
    return tuple(_LOGS.validate_python(found if isinstance(found, list) else []))


T = TypeVar("T")

_SHOWN: Final = {"type": 200, "message": 10_000, "traceback": 40_000}
"""Of a failure, how many characters are kept: more than an honest process sends."""
_SHOWN_FAULT: Final = 400
_MOST_CHANGES: Final = 10_000
"""Variables that a run changes: storing takes its time for each."""
MAY_CHANGE: Final = tuple(name for name in contract.SUBJECTS if name != "tool")
"""What callbacks are about, and may change in place."""


_ANSWER: Final = TypeAdapter(contract.Answer)
_HOST_CALL: Final = TypeAdapter(contract.HostCall)
_NEEDS: Final = {"tool": ("tool", "args", "state"), "http": ("method", "url"), "collect": ()}
"""Members of a host call, by its kind, beside those of all."""


def read_host_call(frame: Mapping[str, Any]) -> contract.HostCall:
    """Return the host call that *frame* is.

    Raises:
        SandboxProtocolError: *frame* is not a valid host call.
    """
    read = _read(_HOST_CALL, frame, "host call")
    if missing := [name for name in _NEEDS[read["call"]] if name not in read]:
        raise SandboxProtocolError(f"the code's process sent a host call without {missing[0]}")
    return read


def _read(adapter: TypeAdapter[T], frame: Mapping[str, Any], what: str) -> T:
    """Return the untrusted *frame*, checked: each member is of the type that the contract declares."""
    try:
        return adapter.validate_python(frame, strict=True)
    except ValidationError as exc:
        says = f"the code's process sent an invalid {what}: {fault_of(exc)}"
        raise SandboxProtocolError(says[:_SHOWN_FAULT]) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """How variables changed."""

    changed: dict[str, Any] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def wire(self) -> dict[str, Any]:
        """Return it as the guest reads it."""
        return {"changed": self.changed, "removed": self.removed}

    def applied_to(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return *state* as it changed."""
        removed = set(self.removed)  # code may send a long list
        kept = {name: value for name, value in state.items() if name not in removed}
        return {**kept, **self.changed}

    def then(self, later: Self, *, before: Iterable[str]) -> Self:
        """Return this change and *later* after it as one; *before* has the names that were there."""
        removed = (set(self.removed) - later.changed.keys()) | set(later.removed)
        in_order = [name for name in before if name in removed]
        return type(self)(changed=later.applied_to(self.changed), removed=in_order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a run: what its code says, and what the host saw of it."""

    result: Any = None
    response: dict[str, Any] | None = None
    overridden_by: int | None = None
    delta: Delta = field(default_factory=Delta)
    changed: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Those of `MAY_CHANGE` that code changed in place."""
    actions: dict[str, Any] | None = None
    warnings: Sequence[str] = ()
    error: RunFailure | None = None
    calls: Sequence[Call] = ()
    stdout: str = ""

    @classmethod
    def of(cls, frame: Mapping[str, Any], request: Mapping[str, Any]) -> Self:
        """Return the answer to *request* that *frame* is.

        Raises:
            SandboxProtocolError: *frame* is not a valid answer.
        """
        read = _read(_ANSWER, frame, "answer")
        delta, failure = _delta(read["state_delta"]), read["error"]
        if failure is not None:
            cut = {name: str(text)[: _SHOWN[name]] for name, text in failure.items()}
            return cls(warnings=read["warnings"]).failed(RunFailure(**cut))
        overridden_by, may_change = read["overridden_by"], {*MAY_CHANGE} & {*request}
        if overridden_by is not None and not isinstance(read["result"], dict):
            raise SandboxProtocolError("the code's process overrides, and says not by what")
        if overridden_by is not None and overridden_by not in range(len(request["code"])):
            raise SandboxProtocolError(f"the code's process names the unknown callback {overridden_by}")
        return cls(
            result=read["result"],
            response={"result": read["result"]},
            overridden_by=overridden_by,
            delta=delta,
            changed={name: each for name, each in read["changed"].items() if name in may_change},
            actions=read["actions"],
            warnings=read["warnings"],
        )

    def failed(self, error: RunFailure) -> Self:
        """Return the answer of a run that failed by *error*."""
        return type(self)(
            response=error.response, error=error, warnings=self.warnings, calls=self.calls, stdout=self.stdout
        )


def _delta(found: contract.StateDelta) -> Delta:
    delta = Delta(changed=found["changed"], removed=found["removed"])
    changes = len(delta.changed) + len(delta.removed)
    if changes > _MOST_CHANGES:
        limit = f"a run may change {_MOST_CHANGES:,} (keep lists in one)"
        raise SandboxOutputError(f"the code changed {changes:,} variables; {limit}")
    if not delta.changed.keys().isdisjoint(delta.removed):
        raise SandboxProtocolError("the code's process changes variables that it removes")
    return delta


_FIRST_REDIRECT: Final = 300
"""From this status on, an answer is not a result: it is a redirect that was not followed, or an error."""
_FAILED: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the host answers a call, and what became of the run that answers it."""

    status_code: int = 200
    reason: str = ""
    text: str = ""
    answer: Answer = field(default_factory=Answer)
    """Of that run: what it changed, printed and warned of, and why it failed."""
    ending: RunFailure | None = None
    """Why the asking run is over."""
    mocked: bool = False

    @classmethod
    def of_json(cls, value: Any, **more: Any) -> Self:
        """Return an answer that is *value*.

        Raises:
            TypeError, ValueError: *value* is not JSON.
        """
        return cls(text=json.dumps(value, allow_nan=False), **more)

    @classmethod
    def ends(cls, kind: str, message: str) -> Self:
        """Return an answer that ends the asking run."""
        return cls(ending=RunFailure(type=kind, message=message))

    @classmethod
    def of_tool(cls, answer: Answer) -> Self:
        """Return the response of a Python tool; one that failed has a status for ``raise_for_status``."""
        failed = {} if answer.error is None else {"status_code": _FAILED, "reason": str(answer.error)}
        return cls.of_json(answer.response, answer=answer, **failed)

    @property
    def for_model(self) -> dict[str, Any]:
        """The response for a model."""
        if not 0 < self.status_code < _FIRST_REDIRECT:
            why = self.text or "; ".join(self.answer.warnings)
            return {"error": ": ".join(filter(None, (f"{self.status_code} {self.reason}".rstrip(), why)))}
        try:
            body = json.loads(self.text)
        except (ValueError, RecursionError):
            body = self.text
        return body if isinstance(body, dict) else {"result": body}

    def wire(self) -> dict[str, Any]:
        """Return it as the guest reads it."""
        if self.ending is not None:
            return {"error": {"type": self.ending.type, "message": self.ending.message}}
        return {
            "status_code": self.status_code,
            "reason": self.reason,
            "text": self.text,
            "state_delta": self.answer.delta.wire(),
        }
