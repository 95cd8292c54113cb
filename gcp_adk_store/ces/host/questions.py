"""Read the untrusted frames of a sandbox: host calls, and the answer of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, TypeVar

from gcp_adk_store.ces.host.results import RunFailure
from gcp_adk_store.ces.sandbox.errors import SandboxOutputError, SandboxProtocolError

T = TypeVar("T")

_SHOWN: Final = {"type": 200, "message": 10_000, "traceback": 40_000}
"""Of a failure, how many characters are kept: more than an honest process sends."""
_MOST_CHANGES: Final = 10_000
"""Variables that a run changes: storing takes its time for each."""
_WHILE_OPTIONAL: Final = ("llm_request", "llm_response", "args", "tool_response", "actions", "response")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What code asks of the host."""

    call: Literal["tool", "http", "collect"]
    id: int
    background: bool
    tool: str
    args: dict[str, Any]
    state: dict[str, Any] | None
    """The variables as they are; None where called tools do not see them."""
    method: str
    url: str
    rest: Mapping[str, Any]
    """``params``, ``headers``, ``data`` and ``json`` of a request, where they are given."""

    @classmethod
    def of(cls, frame: Mapping[str, Any]) -> Self:
        """Return the question that *frame* is.

        Raises:
            SandboxProtocolError: *frame* is not a valid host call.
        """
        call = _field(frame, "call", str)
        if call not in {"tool", "http", "collect"}:
            raise SandboxProtocolError(f"unknown host call {call[:40]!r}; known: tool, http, collect")
        is_tool, is_http = call == "tool", call == "http"
        return cls(
            call=call,  # type: ignore[arg-type]  # one of the three
            id=_field(frame, "id", int),
            background=bool(frame.get("background")) and call != "collect",
            tool=_field(frame, "tool", str) if is_tool else "",
            args=_field(frame, "args", dict) if is_tool else {},
            state=_field(frame, "state", dict) if is_tool and "state" in frame else None,
            method=_field(frame, "method", str) if is_http else "",
            url=_field(frame, "url", str) if is_http else "",
            rest={name: frame[name] for name in ("params", "headers", "data", "json") if name in frame},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """How variables changed."""

    changed: dict[str, Any]
    removed: list[str]

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
        return type(self)(
            changed=later.applied_to(self.changed), removed=[name for name in before if name in removed]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a run, as it says itself."""

    result: Any
    response: dict[str, Any] | None
    overridden_by: int | None
    state: dict[str, Any]
    """The variables as they will be stored."""
    delta: Delta
    changed: Mapping[str, dict[str, Any]]
    """``llm_request``, ``llm_response``, ``args`` and ``tool_response`` that code changed in place."""
    actions: dict[str, Any] | None
    warnings: list[str]
    lines: list[int]
    """Lines of the code that ran, where the request asked for them."""
    error: RunFailure | None

    @classmethod
    def of(cls, frame: Mapping[str, Any], *, before: Mapping[str, Any]) -> Self:
        """Return the answer that *frame* is, of a run that began with the variables *before*.

        Raises:
            SandboxProtocolError: *frame* is not a valid answer.
        """
        delta = _delta(frame)
        for name in _WHILE_OPTIONAL:
            if frame.get(name) is not None:
                _field(frame, name, dict)
        error = None
        if frame.get("error") is not None:
            told = _field(frame, "error", dict)
            error = RunFailure(**{name: _field(told, name, str)[:most] for name, most in _SHOWN.items()})
            delta = Delta(changed={}, removed=[])
        override = _field(frame, "override", bool) and error is None
        if override:
            _field(frame, "result", dict)
        return cls(
            result=frame.get("result"),
            response=frame.get("response"),
            overridden_by=_field(frame, "overridden_by", int) if override else None,
            state=delta.applied_to(before),
            delta=delta,
            changed={
                name: frame[name]
                for name in ("llm_request", "llm_response", "args", "tool_response")
                if frame.get(name) is not None
            },
            actions=frame.get("actions"),
            warnings=_texts(frame, "warnings"),
            lines=_numbers(frame, "lines"),
            error=error,
        )

    def failed(
        self, error: RunFailure, *, before: Mapping[str, Any], response: dict[str, Any] | None
    ) -> Self:
        """Return the answer of a run that failed by *error*; *before* are the variables it began with."""
        return replace(
            self,
            result=None,
            response=response,
            overridden_by=None,
            state=dict(before),
            delta=Delta(changed={}, removed=[]),
            changed={},
            actions=None,
            error=error,
        )


def _delta(frame: Mapping[str, Any]) -> Delta:
    told = _field(frame, "state_delta", dict)
    delta = Delta(changed=_field(told, "changed", dict), removed=_texts(told, "removed"))
    changes = len(delta.changed) + len(delta.removed)
    if changes > _MOST_CHANGES:
        raise SandboxOutputError(
            f"the code changed {changes:,} variables; a run may change {_MOST_CHANGES:,} (keep lists in one)"
        )
    if not delta.changed.keys().isdisjoint(delta.removed):
        raise SandboxProtocolError("the code's process changes variables that it removes")
    return delta


def _field(frame: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = frame.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SandboxProtocolError(f"the code's process sent a frame whose {name} is not a {kind.__name__}")
    return value


def _numbers(frame: Mapping[str, Any], name: str) -> list[int]:
    numbers = _field(frame, name, list) if name in frame else []
    if not all(type(number) is int for number in numbers):
        raise SandboxProtocolError(f"the code's process sent a frame whose {name} is not a list of numbers")
    return numbers


def _texts(frame: Mapping[str, Any], name: str) -> list[str]:
    texts = _field(frame, name, list)
    if not all(isinstance(text, str) for text in texts):
        raise SandboxProtocolError(f"the code's process sent a frame whose {name} is not a list of texts")
    return texts
