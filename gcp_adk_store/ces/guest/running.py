"""Run user code: a tool, or the callbacks of one kind in their order.

`run` is the whole of it: a JSON object in, a JSON object out, and a function that asks the host in between;
contract describes all three. What the code prints goes to another function. It reads and writes nothing
else. Runs of one process may nest, as they do where a host answers a call with a run; they must not overlap,
for standard streams and modules are the process's.
"""

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Self, cast

import pydantic

from .callbacks import GUARDRAIL_GLOBALS, Subjects
from .context import CallbackContext, ToolContext, Variables
from .contract import CALLBACKS, Answer, Request, RunError, RunSettings
from .host_calls import AsyncTools, CallHost, HostCalls, Requests, Tools
from .models import RequestError, fault_of, from_wire, plain, same_json, sendable, to_wire
from .namespace import INTERNAL_MODULE, PUBLIC_MODULE, entries, runtime_names
from .scanning import UNREADABLE
from .source import Source, describe, shown_in_tracebacks

_REQUEST: Final = pydantic.TypeAdapter(Request)
_CUT = "\n[output was cut here]\n"

Show = Callable[[str], object]
"""Takes a piece of what is printed, at once and in order."""


class Capture(io.StringIO):
    """A text stream whose beginning is shown as it is written.

    Nothing waits here: code that is killed has shown what it printed.
    """

    def __init__(self, show: Show, max_chars: int) -> None:
        super().__init__()
        self._show = show
        self._left = max_chars
        self._is_cut = False

    def write(self, text: str, /) -> int:
        """Show *text* up to the limit; at the limit, show once that the output is cut.

        Raises:
            TypeError: *text* is not text.
        """
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        kept = text[: self._left]
        if kept:
            self._left -= len(kept)
            self._show(str.__str__(kept))
        if len(kept) < len(text) and not self._is_cut:
            self._is_cut = True
            self._show(_CUT)
        return len(text)


@contextmanager
def standard_streams(stream: Any) -> Iterator[None]:
    """Let *stream* be stdout and stderr, and stdin be empty."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), stream, stream
    try:
        yield
    finally:
        if sys.stdout is stream:  # a host that gave the code up may have taken its streams back
            sys.stdin, sys.stdout, sys.stderr = before


def run(request: Mapping[str, Any], call_host: CallHost, show: Show) -> Answer:
    """Run the code of *request* and return its outcome; an exception is an outcome, too.

    Args:
        request: A `contract.Request`.
        call_host: Given a `contract.HostCall`, returns a `contract.HostReply`; never called twice at a time.
        show: Takes what the code prints, to stdout or stderr, as it prints it.
    """
    warnings: dict[str, None] = {}
    try:
        job = Job.of(request, warnings)
    except pydantic.ValidationError as exc:
        answer = _answer(describe(RequestError(fault_of(exc)), ()))
    except (*UNREADABLE, TypeError) as exc:
        answer = _answer(describe(exc, ()))
    else:
        answer = job.run(call_host, show)
    answer["warnings"] = [*map(sendable, warnings)]
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request that was understood, with code that Python can read."""

    settings: RunSettings
    sources: Sequence[Source]
    variables: Variables
    args: dict[str, Any]
    """Of a tool."""
    subjects: Subjects | None
    """Of callbacks."""
    tools: frozenset[str]
    warnings: dict[str, None]
    """What is said of the code, each thing once, in order."""

    @classmethod
    def of(cls, request: Mapping[str, Any], warnings: dict[str, None]) -> Self:
        """Return *request* as a job.

        Raises:
            ValueError, TypeError: the request is not valid.
            SyntaxError, RecursionError, MemoryError: its code is not.
        """
        checked = _checked(request)
        settings = checked.get("settings", RunSettings())
        callback = checked.get("callback") if checked["kind"] == "callback" else None
        of_tool = callback is None or callback in {"before_tool", "after_tool"}
        given = checked.get("context", {})
        context = from_wire(ToolContext if of_tool else CallbackContext, given)
        before = given.get("state") or given.get("variables") or {}
        return cls(
            settings=settings,
            sources=[Source.of(code, settings) for code in checked["code"]],
            variables=Variables(context, dict(before), frozenset(given.get("withheldVariables", ()))),
            args=plain(checked.get("args", {}), "args"),
            subjects=Subjects.of(callback, checked, warnings.setdefault) if callback else None,
            tools=frozenset(checked.get("tools", ())),
            warnings=warnings,
        )

    def run(self, call_host: CallHost, show: Show) -> Answer:
        """Return what became of it."""
        for source in self.sources:
            if error := source.unknown_tool(self.tools):
                return _answer(error)
            self.warnings.update(source.doubts)
        calls = HostCalls(call_host, self.variables)
        printed = Capture(show, self.settings.max_stdout_chars)
        with shown_in_tracebacks(self.sources):
            try:
                with standard_streams(printed) if self.settings.capture else nullcontext():
                    show("")  # a host that has given the run up refuses it, and has its streams again
                    answer = self._succeeded(calls)
            except BaseException as exc:  # noqa: BLE001  # user code raises anything, SystemExit included
                return _answer(describe(calls.ending or exc, [source.filename for source in self.sources]))
        return answer

    def _succeeded(self, calls: HostCalls) -> Answer:
        """Return the answer of code that succeeds; raise its exception if it fails."""
        session, warn = self.variables.context, self.warnings.setdefault
        names = runtime_names(
            session,
            synchronous=Tools(calls, names=self.tools, warn=warn),
            asynchronous=AsyncTools(calls, names=self.tools, warn=warn),
            requests=Requests(calls),
        )
        actions = to_wire(session.actions, "actions")
        answer = _answer()
        with entries(sys.modules, {name: names[name] for name in (PUBLIC_MODULE, INTERNAL_MODULE)}):
            if self.subjects is None:
                answer["result"] = plain(self._returned(self.sources[0], names), "result")
            else:
                answer["overridden_by"], answer["result"] = self._override(self.subjects, names)
                answer["changed"] = self.subjects.changed()
            answer["state_delta"] = self.variables.changes(warn, max_bytes=self.settings.max_variable_bytes)
            after = to_wire(session.actions, "actions")
            answer["actions"] = None if same_json(actions, after) else after
        if calls.uncollected:
            warn(f"background calls {sorted(calls.uncollected)} were begun and their answers never asked for")
        if calls.ending is not None:  # the code caught what said so
            raise calls.ending
        return answer

    def _returned(self, source: Source, names: dict[str, Any]) -> Any:
        """Run *source* as a module, and return what its function returned."""
        with source.module(names, self.settings) as namespace:
            wanted, keywords = None, self.args
            if self.subjects is not None:
                wanted = self.subjects.function(namespace)
                keywords = {**self.subjects.values, "callback_context": self.variables.context}
            function = source.entry(namespace, wanted, warn=self.warnings.setdefault)
            return function(**keywords)

    def _override(
        self, subjects: Subjects, names: dict[str, Any]
    ) -> tuple[int | None, dict[str, Any] | None]:
        """Return which of the callbacks overrides and by what; the rest is not run."""
        names = {**names, **GUARDRAIL_GLOBALS} if subjects.guards else names
        for index, source in enumerate(self.sources):
            override = subjects.override(self._returned(source, names), self.warnings.setdefault)
            if override is not None:
                return index, override
        return None, None


def _answer(error: RunError | None = None) -> Answer:
    """Return the answer of a run that did nothing, or failed by *error*."""
    nothing: dict[str, Any] = dict.fromkeys(Answer.__annotations__)
    nothing |= {"changed": {}, "state_delta": {"changed": {}, "removed": []}, "warnings": []}
    return cast("Answer", {**nothing, "error": error})


def _checked(request: Mapping[str, Any]) -> Request:
    """Return *request* if it is one; raise a ValueError if not."""
    checked = _REQUEST.validate_python(dict(request))
    is_tool, files = checked["kind"] == "tool", len(checked["code"])
    if not files or (is_tool and files > 1):
        raise RequestError("code is a list: one file of a tool, at least one of callbacks")
    if not is_tool and "callback" not in checked:
        raise RequestError(f"callback is missing: one of {CALLBACKS}")
    return checked
