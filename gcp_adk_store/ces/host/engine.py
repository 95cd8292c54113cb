"""Run requests in the sandbox, and answer what their code asks of the host, within bounds."""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from typing import Any, Final

from gcp_adk_store.ces.guest.contract import VERSION, HostCall
from gcp_adk_store.ces.host.admission import Room, Waiting, places_of
from gcp_adk_store.ces.host.results import Answer, Call, Delta, Reply, RunFailure, read_host_call
from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.host.toolbox import Invocation, Toolbox, ToolCall, new_call_id
from gcp_adk_store.ces.http.fetching import HttpAccess, Outgoing
from gcp_adk_store.ces.sandbox.inprocess import InProcessSandbox
from gcp_adk_store.ces.sandbox.interface import (
    Clock,
    Limits,
    Sandbox,
    SandboxError,
    SandboxMemoryError,
    SandboxProtocolError,
)

_SHOWN_CHARACTERS: Final = 16_384
_SHOWN_ARGUMENTS: Final = 16
_NAME_CHARACTERS: Final = 200
_BACKGROUND_CALLS: Final = 16
"""Of one run, at a time."""
_OF_REQUEST: Final = frozenset({"url", "params", "headers", "data", "json"})


class TooDeepError(Exception):
    """Tools call each other deeper than its number."""


class Host:
    """Answers the questions of one run."""

    def __init__(
        self, engine: "Engine", invocation: Invocation, *, depth: int, clock: Clock, waiting: Waiting
    ) -> None:
        """Prepare it.

        Args:
            engine: What runs it, and the runs within it.
            invocation: Of the run.
            depth: How many runs it is within.
            clock: Of the run; it stands still while a tool that the code called waits for a sandbox.
            waiting: A context that shows to those who wait for the run that it stands still.
        """
        self._engine = engine
        self._invocation = invocation
        self._depth = depth
        self._clock = clock
        self._waiting = waiting
        self._begun: dict[int, asyncio.Task[Reply]] = {}
        self._held_characters = 0
        self._background = asyncio.Semaphore(_BACKGROUND_CALLS)
        self.calls: list[Call] = []
        self.warnings: list[str] = []
        self.ending: RunFailure | None = None
        """Why the run is over, even if its code ignores the answer that says so."""

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
        if not self._engine.overlaps:
            await asyncio.wait([task])
        return {}

    async def finish(self) -> Sequence[Delta]:
        """Wait for what was begun and not collected, and return what it changed; raise the first failure."""
        replies = await asyncio.gather(*self._begun.values())
        return [reply.delta for reply in replies if reply.delta is not None]

    async def cancel(self) -> None:
        """End what was begun."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        """Stop the clocks of the run, and of those that wait for it, while a called tool has no sandbox."""
        with self._clock.stopped(), self._waiting():
            yield

    async def _serve_in_turn(self, question: HostCall) -> Reply:
        async with self._background:
            reply = await self._serve(question)
        self._held_characters += _characters(reply)
        return reply

    async def _serve(self, question: HostCall) -> Reply:
        most = self._engine.settings.uncollected_characters
        if self._held_characters > most:
            says = (
                f"answers to background calls that the code did not collect exceed the {most} characters "
                "of uncollected_characters"
            )
            self.ending = self.ending or RunFailure(type="UncollectedAnswersError", message=says)
        if self.ending is not None:  # nothing that follows may have an effect
            return Reply(ending=self.ending)
        started = time.monotonic()
        if question["call"] == "tool":
            name, args = question["tool"], question["args"]
            reply = await self._of_tool(question)
            self.warnings += [f"{name}: {text}" for text in reply.said]
        else:
            name = question["method"]
            args = {each: value for each, value in question.items() if each in _OF_REQUEST}
            outgoing = Outgoing(method=name, **args)
            reply = Reply.of_fetched(await self._engine.http.fetch(outgoing, asker=self._invocation.asker))
            self.warnings += reply.said
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
                stdout=reply.stdout[:_SHOWN_CHARACTERS],
                error=reply.error,
                duration_s=time.monotonic() - started,
                background=question.get("background", False),
                mocked=reply.mocked,
            )
        )
        return reply

    async def _of_tool(self, question: HostCall) -> Reply:
        call = ToolCall(
            name=question["tool"],
            args=question["args"],
            state=question["state"],
            by_code=True,
            invocation=self._invocation,
            function_call_id=new_call_id(),
        )
        try:
            run_below = partial(self._engine.run, depth=self._depth + 1, waiting=self._stopped)
            return await self._engine.toolbox.reply(call, run_below)
        except TooDeepError as exc:
            says = (
                f"tools call each other deeper than {exc}: max_depth is {self._engine.settings.max_depth}, "
                "and each depth needs a sandbox (sandboxes_per_session)"
            )
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
    changes = 0 if reply.delta is None else len(json.dumps(reply.delta.wire()))
    return len(reply.text) + changes


_MOST_WARNINGS: Final = 100
_WARNING_CHARACTERS: Final = 1000


class Engine:
    """Runs requests, in bounded numbers and to a bounded depth."""

    def __init__(
        self, sandbox: Sandbox, toolbox: Toolbox, http: HttpAccess, settings: RuntimeSettings, room: Room
    ) -> None:
        self._sandbox = sandbox
        self.toolbox = toolbox
        self.http = http
        self.settings = settings
        self._guest_settings = asdict(settings.guest)
        self._room = room
        self._limits = replace(settings.limits or Limits(), memory_bytes=room.memory_bytes)
        self.overlaps = not isinstance(sandbox, InProcessSandbox)
        """Whether runs may; those of one process share its modules and streams."""
        self._places = places_of(sandbox)

    async def run(
        self,
        request: Mapping[str, Any],
        invocation: Invocation,
        *,
        depth: int = 0,
        timeout_s: float | None = None,
        waiting: Waiting = nullcontext,
    ) -> Answer:
        """Return what became of *request*, with everything done that its code asked for.

        Args:
            request: What the code's process gets.
            invocation: Of the run.
            depth: How many runs this one is within.
            timeout_s: Its wall time, where the settings have no limits.
            waiting: Entered while the run waits for a sandbox, or its code for that of a called tool.

        Raises:
            OverloadedError: no sandbox was free in time; no code was run.
            SandboxError: its process had no answer, or no memory for one.
            InvalidInputError: it, or what its code is answered, is too large for the sandbox.
        """
        if depth >= self._room.levels:
            raise TooDeepError(self._room.levels - 1)
        limits = self._limits
        if timeout_s is not None and self.settings.limits is None:
            limits = replace(limits, wall_s=timeout_s)
        clock = Clock(longest_stop_s=self.settings.longest_wait_s)
        host = Host(self, invocation, depth=depth, clock=clock, waiting=waiting)
        whole = {
            "version": VERSION,
            "tools": self.toolbox.names(invocation.mocks),
            "settings": self._guest_settings,
            **request,
        }
        printed: list[str] = []
        async with self._places.place(
            invocation.asker,
            invocation.key,
            depth,
            self._room,
            longest_wait_s=self.settings.longest_wait_s,
            waiting=waiting,
        ):
            try:
                frame = await self._sandbox.run(
                    whole, host.answer, on_output=printed.append, limits=limits, clock=clock
                )
                answer = _validated(Answer.of(frame, before=request["context"]["state"]), request)
                _require_memory(answer)
                if answer.error is None:
                    answer = _with(await self._finished(host, clock, limits), answer, request)
            except SandboxError as exc:  # also of what is found in its answer, when its process has ended
                exc.output = exc.output or "".join(printed)
                raise
            finally:
                await host.cancel()
        if host.ending is not None and answer.error is None:
            answer = answer.failed(host.ending, before=request["context"]["state"])
        return replace(
            answer,
            calls=tuple(host.calls),
            warnings=_bounded((*answer.warnings, *host.warnings)),
            stdout="".join(printed),
        )

    async def _finished(self, host: Host, clock: Clock, limits: Limits) -> Iterable[Delta]:
        """Return what calls changed that were begun and not collected, once they are done."""
        says = (
            "background calls that the code did not wait for took longer than the "
            f"{limits.wall_s:g} s of wall_s after its end"
        )
        async with clock.limit(limits.wall_s, says):
            return await host.finish()


def _validated(answer: Answer, request: Mapping[str, Any]) -> Answer:
    """Return the untrusted *answer*, checked against its *request*; raise a SandboxProtocolError."""
    if answer.overridden_by is not None and not 0 <= answer.overridden_by < len(request["code"]):
        raise SandboxProtocolError(f"the code's process names the unknown callback {answer.overridden_by}")
    return replace(
        answer,
        changed={name: value for name, value in answer.changed.items() if name in request},
    )


def _require_memory(answer: Answer) -> None:
    """Raise what the run of *answer* wanted: memory; the code's process survived."""
    if answer.error is not None and answer.error.type == "MemoryError":
        raise SandboxMemoryError(f"the code wanted more than memory_bytes:\n{answer.error.traceback}")


def _with(deltas: Iterable[Delta], answer: Answer, request: Mapping[str, Any]) -> Answer:
    """Return *answer* with what calls changed that ended after its code."""
    before = request["context"]["state"]
    for delta in deltas:
        answer = replace(
            answer, delta=answer.delta.then(delta, before=before), state=delta.applied_to(answer.state)
        )
    return answer


def _bounded(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return each of *warnings* once, and no more than somebody reads: code can make any number of them."""
    return tuple(text[:_WARNING_CHARACTERS] for text in [*dict.fromkeys(warnings)][:_MOST_WARNINGS])
