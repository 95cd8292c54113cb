"""Run requests in the sandbox, answer what their code asks of the host, and call tools, within bounds."""

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final

from gcp_adk_store.ces.guest.contract import HostCall
from gcp_adk_store.ces.host.admission import Room, places_of
from gcp_adk_store.ces.host.invocation import Invocation, failure_of
from gcp_adk_store.ces.host.results import Answer, Call, Delta, Reply, RunFailure, read_host_call
from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.http.fetching import HttpAccess, Outgoing
from gcp_adk_store.ces.http.policy import HttpPolicy
from gcp_adk_store.ces.sandbox.inprocess import InProcessSandbox
from gcp_adk_store.ces.sandbox.interface import (
    Clock,
    Limits,
    Sandbox,
    SandboxError,
    SandboxMemoryError,
    SandboxProtocolError,
    SandboxRunError,
)
from gcp_adk_store.ces.tools.declarations import (
    CodeFile,
    FakeTools,
    MockConfig,
    MockTool,
    PythonTool,
    Tool,
    declaration_of,
)
from gcp_adk_store.ces.tools.openapi import OpenApiTool
from gcp_adk_store.ces.tools.parameters import CredentialMissingError
from gcp_adk_store.ces.tools.session_fields import ArgumentsError, SessionValues
from gcp_adk_store.errors import InvalidInputError, OverloadedError

_SHOWN_CHARACTERS: Final = 16_384
_SHOWN_ARGUMENTS: Final = 16
_NAME_CHARACTERS: Final = 200
_BACKGROUND_CALLS: Final = 16
"""Of one run, at a time."""
_OF_REQUEST: Final = frozenset({"url", "params", "headers", "data", "json"})


class TooDeepError(Exception):
    """Tools call each other deeper than its number."""


@dataclass(slots=True, eq=False)
class Host:
    """Answers the questions of one run."""

    engine: "Engine"
    """What runs it, and the runs within it."""
    invocation: Invocation
    """With the clock of the run itself."""
    calls: list[Call] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ending: RunFailure | None = None
    """Why the run is over, even if its code ignores the answer that says so."""
    _begun: dict[int, asyncio.Task[Reply]] = field(default_factory=dict)
    _held_characters: int = 0
    _background: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_BACKGROUND_CALLS))

    async def answer(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to what the code asks.

        Raises:
            SandboxProtocolError: *frame* is not a valid host call.
        """
        question = read_host_call(frame)
        number = question["id"]
        if question["call"] == "collect":
            begun = self._begun.pop(number, None)
            if begun is None:
                raise SandboxProtocolError(f"the code asks for the answer to {number}, which was not begun")
            reply = await begun
            self._held_characters -= _characters(reply)
            return reply.wire()
        if not question.get("background"):
            return (await self._serve(question)).wire()
        if number in self._begun:
            raise SandboxProtocolError(f"the code begins {number} twice")
        task = self._begun[number] = asyncio.create_task(self._serve_in_turn(question))
        if not self.engine.overlaps:
            await asyncio.wait([task])
        return {}

    async def finished(self, changed: Delta, before: Iterable[str], seconds: float) -> Delta:
        """Return *changed* with what calls change that were begun and not collected, once they are done.

        That takes *seconds* at most; *before* has the names of variables before the run. The first failure is
        raised.
        """
        late = f"took longer than the {seconds:g} s of wall_s after its end"
        says = f"background calls that the code did not wait for {late}"
        async with self.invocation.clocks[-1].limit(seconds, says):
            replies = await asyncio.gather(*self._begun.values())
        for reply in replies:
            changed = changed.then(reply.answer.delta, before=before)
        return changed

    async def cancel(self) -> None:
        """End what was begun."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)

    async def _serve_in_turn(self, question: HostCall) -> Reply:
        async with self._background:
            reply = await self._serve(question)
        self._held_characters += _characters(reply)
        return reply

    async def _serve(self, question: HostCall) -> Reply:
        most = self.engine.settings.uncollected_characters
        if self._held_characters > most:
            limit = f"the {most} characters of uncollected_characters"
            says = f"answers to background calls that the code did not collect exceed {limit}"
            self.ending = self.ending or RunFailure(type="UncollectedAnswersError", message=says)
        if self.ending is not None:  # nothing that follows may have an effect
            return Reply(ending=self.ending)
        started = time.monotonic()
        if question["call"] == "tool":
            name, args = question["tool"], question["args"]
            reply = await self._of_tool(question)
            self.warnings += [f"{name}: {text}" for text in reply.answer.warnings]
        else:
            name = question["method"]
            args = {each: value for each, value in question.items() if each in _OF_REQUEST}
            reply = await self.engine.fetched(Outgoing(method=name, **args), self.invocation)
            self.warnings += reply.answer.warnings
        self.ending = self.ending or reply.ending  # type: ignore[redundant-expr]  # of a call meanwhile
        asked, whole = _beginning_of(args)
        self.calls.append(
            Call(
                kind="tool" if question["call"] == "tool" else "http",
                name=name[:_NAME_CHARACTERS],
                asked=asked,
                asked_whole=whole,
                status_code=reply.status_code,
                reason=reply.reason,
                text=reply.text[:_SHOWN_CHARACTERS],
                stdout=reply.answer.stdout[:_SHOWN_CHARACTERS],
                error=reply.answer.error,
                duration_s=time.monotonic() - started,
                background=question.get("background", False),
                mocked=reply.mocked,
            )
        )
        return reply

    async def _of_tool(self, question: HostCall) -> Reply:
        call, args = self.invocation.calling(question["tool"], question["state"]), question["args"]
        try:
            return await self.engine.stand_in(call, args) or await self.engine.of_tool(call, args)
        except TooDeepError as exc:
            limits = f"max_depth is {self.engine.settings.max_depth}, and each depth needs a sandbox"
            says = f"tools call each other deeper than {exc}: {limits} (sandboxes_per_session)"
            return Reply.ends("ToolDepthError", says)


def _beginning_of(asked: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return *asked*, and whether that is all of it: if it is long, the beginnings of the first members."""
    if len(_json_of(asked)) <= _SHOWN_CHARACTERS:
        return asked, True
    shown = islice(asked.items(), _SHOWN_ARGUMENTS)
    most = _SHOWN_CHARACTERS // _SHOWN_ARGUMENTS // 2
    texts = {name[:most]: each if isinstance(each, str) else _json_of(each) for name, each in shown}
    return {name: text[:most] for name, text in texts.items()}, False


def _json_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _characters(reply: Reply) -> int:
    """Return the size of an answer that waits for its collection, in characters of JSON."""
    return len(reply.text) + len(json.dumps(reply.answer.delta.wire()))


_MOST_WARNINGS: Final = 100
_WARNING_CHARACTERS: Final = 1000
_BAD_REQUEST: Final = 400
_UNAUTHORIZED: Final = 401
_SYNCHRONOUS_S: Final = 30.0
_ASYNCHRONOUS_S: Final = 60.0
"""What tools may take that do not say how long."""
_LONGEST_S: Final = 300.0
"""The limit for each tool, also if its app asks for more: the host decides how long it works for an app."""


class Engine:
    """Runs requests, in bounded numbers and to a bounded depth, and calls tools of each kind."""

    def __init__(
        self,
        sandbox: Sandbox,
        callees: Mapping[str, Tool],
        *,
        http: HttpPolicy,
        mocks: MockConfig | None,
        settings: RuntimeSettings,
        room: Room,
    ) -> None:
        self._sandbox = sandbox
        self.callees = callees
        """Every tool that code may call, by name."""
        self._http = HttpAccess(http)
        self._mocks = mocks
        self.settings = settings
        self._guest_settings = asdict(settings.guest)
        self._room = room
        self._limits = replace(settings.limits or Limits(), memory_bytes=room.memory_bytes)
        self.overlaps = not isinstance(sandbox, InProcessSandbox)
        """Whether runs may; those of one process share its modules and streams."""
        self._places = places_of(sandbox)

    async def run(
        self, request: Mapping[str, Any], invocation: Invocation, *, timeout_s: float | None = None
    ) -> Answer:
        """Return what became of *request*, with everything done that its code asked for.

        Args:
            request: What the code's process gets, beside its context.
            invocation: Of the run.
            timeout_s: Its wall time, where the settings have no limits.

        Raises:
            OverloadedError: no sandbox was free in time; no code was run.
            SandboxError: its process had no answer, or no memory for one.
            InvalidInputError: it, or what its code is answered, is too large for the sandbox.
        """
        clocks, context = invocation.clocks, invocation.context
        if len(clocks) >= self._room.levels:
            raise TooDeepError(self._room.levels - 1)
        limits = self._limits
        if timeout_s is not None and self.settings.limits is None:
            limits = replace(limits, wall_s=timeout_s)
        clock = Clock(longest_stop_s=self.settings.longest_wait_s)
        host = Host(self, replace(invocation, clocks=(*clocks, clock)))
        mocked = {call.tool for mocks in self._mocks_of(invocation) for call in mocks.calls}
        tools = sorted({*self.callees, *mocked})
        whole = {"tools": tools, "settings": self._guest_settings, "context": context, **request}
        printed: list[str] = []
        longest_wait_s = self.settings.longest_wait_s
        async with self._places.place(invocation.asker, invocation.key, self._room, clocks, longest_wait_s):
            try:
                frame = await self._sandbox.run(
                    whole, host.answer, on_output=printed.append, limits=limits, clock=clock
                )
                answer = Answer.of(frame, request)
                if answer.error is None:
                    before = (*context["state"], *context.get("withheldVariables", ()))
                    delta = await host.finished(answer.delta, before, limits.wall_s)
                    answer = replace(answer, delta=delta)
                elif answer.error.type == "MemoryError":  # its process survived
                    says = f"the code wanted more than memory_bytes:\n{answer.error.traceback}"
                    raise SandboxMemoryError(says)
            except SandboxError as exc:  # also of what is found in its answer, when its process has ended
                exc.output = exc.output or "".join(printed)
                raise
            finally:
                await host.cancel()
        if host.ending is not None and answer.error is None:
            answer = answer.failed(host.ending)
        return replace(
            answer,
            calls=tuple(host.calls),
            warnings=_bounded((*answer.warnings, *host.warnings)),
            stdout="".join(printed),
        )

    async def fetched(self, outgoing: Outgoing, invocation: Invocation) -> Reply:
        """Return the answer to a request over HTTP; the status is 0 if it fails."""
        found = await self._http.fetch(outgoing, asker=invocation.asker)
        answer = Answer(warnings=found.said)
        return Reply(status_code=found.status_code, reason=found.reason, text=found.text, answer=answer)

    async def stand_in(self, call: Invocation, args: dict[str, Any]) -> Reply | None:
        """Return the answer of a mock or a fake to *call*, or None; raises as :meth:`of_tool`."""
        name = call.subject
        for mocks in self._mocks_of(call):
            if (mocked := mocks.find(name, args)) is not None:
                return Reply.of_json(mocked.response, mocked=True)
            if mocks.unmatched == "FAIL" and call.clocks:
                return Reply.ends("UnmatchedToolCallError", f"no mock fits this call of {name}")
        callee = self.callees.get(name)
        fake = None if callee is None else callee.fake
        function = None if fake is None else fake.function_for(name)
        return None if fake is None or function is None else await self._faked(fake, function, call, args)

    def _mocks_of(self, invocation: Invocation) -> list[MockConfig]:
        return [each for each in (invocation.mocks, self._mocks) if each is not None]

    def description_of(self, name: str) -> str:
        """Return the description of the tool *name* that models see; empty for an unknown tool."""
        callee = self.callees.get(name)
        return "" if callee is None else str(declaration_of(name, callee)["description"])

    async def _faked(
        self, fakes: FakeTools, function: str, call: Invocation, args: dict[str, Any]
    ) -> Reply | None:
        request = {
            "kind": "callback",
            "callback": "before_tool",
            "code": [{"source": fakes.source, "filename": fakes.filename, "name": function}],
            "tool": {"name": call.subject, "description": self.description_of(call.subject)},
            "args": args,
        }
        ran = await self.run(request, call)
        if ran.error is not None:
            return Reply.ends("FakeToolError", f"{fakes.filename}: {ran.error}")
        return None if ran.overridden_by is None else Reply.of_json(ran.result, answer=ran, mocked=True)

    async def of_tool(self, call: Invocation, args: dict[str, Any]) -> Reply:
        """Return the answer of the tool itself to *call*.

        Raises:
            SandboxUnavailableError: the sandbox cannot run here.
            TypeError, ValueError: the answer of a mock is not JSON. Any exception of the function of a mock.
        """
        match self.callees.get(call.subject):
            case PythonTool() as tool:
                return Reply.of_tool(await or_failed(self.python(tool, call, args)))
            case OpenApiTool() as tool:
                return await self._of_operation(tool, call, args)
            case MockTool() as tool:
                made = tool.response(args) if callable(tool.response) else tool.response
                made = await made if inspect.isawaitable(made) else made
                return Reply.of_json(made, mocked=True, status_code=tool.status_code, reason=tool.reason)
            case None:
                return Reply.ends("UnknownToolError", f"unknown tool {call.subject[:100]!r}")

    async def _of_operation(self, tool: OpenApiTool, call: Invocation, args: dict[str, Any]) -> Reply:
        try:
            session = SessionValues(context=call.context, variables=call.context["state"])
            outgoing = tool.request(call.subject, args, session)
        except ArgumentsError as exc:
            status = _UNAUTHORIZED if isinstance(exc, CredentialMissingError) else _BAD_REQUEST
            return Reply(status_code=status, reason=str(exc), answer=Answer(error=failure_of(exc)))
        return await self.fetched(outgoing, call)

    async def python(self, tool: PythonTool, call: Invocation, args: dict[str, Any]) -> Answer:
        """Run the code of *tool* for *call*, as long as on the platform, and no longer than a host waits."""
        usual = _ASYNCHRONOUS_S if tool.execution == "ASYNCHRONOUS" else _SYNCHRONOUS_S
        code = CodeFile.of(tool.code).wire(function=tool.name, filename=f"{tool.name}.py")
        request = {"kind": "tool", "code": [code], "args": args}
        return await self.run(request, call, timeout_s=min(tool.timeout_s or usual, _LONGEST_S))


async def or_failed(run: Awaitable[Answer]) -> Answer:
    """Return the answer of *run*; an error that came from outside of its code becomes a failed answer."""
    try:
        return await run
    except SandboxRunError as exc:
        return Answer(stdout=exc.output).failed(failure_of(exc))
    except (InvalidInputError, OverloadedError) as exc:  # too large for a sandbox; or no sandbox was free
        return Answer().failed(failure_of(exc))


def _bounded(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return each of *warnings* once, and no more than somebody reads: code can make any number of them."""
    return tuple(text[:_WARNING_CHARACTERS] for text in [*dict.fromkeys(warnings)][:_MOST_WARNINGS])
