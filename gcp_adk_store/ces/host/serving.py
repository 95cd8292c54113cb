"""Answer what the code of one run asks of the host, and keep what comes of it within bounds."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import takewhile
from typing import Any, Final

from gcp_adk_store.ces.host.admission import Waiting
from gcp_adk_store.ces.host.questions import Delta, Question
from gcp_adk_store.ces.host.replies import Reply
from gcp_adk_store.ces.host.results import Call, RunFailure
from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.host.toolbox import Ran, Situation, Toolbox, ToolCall, new_call_id
from gcp_adk_store.ces.http.fetching import HttpAccess, Outgoing
from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.errors import SandboxProtocolError

_SHOWN_CHARACTERS: Final = 16_384
_NAME_CHARACTERS: Final = 200


class TooDeepError(Exception):
    """Tools call each other deeper than its number."""


class Host:
    """Answers the questions of one run."""

    def __init__(
        self,
        toolbox: Toolbox,
        http: HttpAccess,
        settings: RuntimeSettings,
        situation: Situation,
        *,
        run_below: Callable[..., Awaitable[Ran]],
        overlaps: bool,
        clock: Clock,
        waiting: Waiting,
    ) -> None:
        """Prepare it.

        Args:
            toolbox: What tools there are.
            http: Where requests may go.
            settings: Of the runtime.
            situation: Of the run.
            run_below: Runs a request within this run; raises a `TooDeepError` where that is too deep.
            overlaps: Whether background calls go on while the code does.
            clock: Of the run; it stands still while all that the code waits for waits for sandboxes.
            waiting: Tells who waits for the run that it stands still.
        """
        self._toolbox = toolbox
        self._http = http
        self._settings = settings
        self._situation = situation
        self._run_below = run_below
        self._overlaps = overlaps
        self._clock = clock
        self._waiting = waiting
        self._awaited: Counter[int] = Counter()
        self._queued: Counter[int] = Counter()
        self._stopped: ExitStack | None = None
        self._begun: dict[int, asyncio.Task[Reply]] = {}
        self._held_characters = 0
        self._background = asyncio.Semaphore(settings.background_calls_at_once)
        self.calls: list[Call] = []
        self.warnings: list[str] = []
        self.ending: RunFailure | None = None
        """Why the run is over, even if its code ignores the answer that says so."""

    async def answer(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to what the code asks.

        Raises:
            SandboxProtocolError: *frame* is not a valid host call.
        """
        question = Question.of(frame)
        if question.call == "collect":
            begun = self._begun.pop(question.id, None)
            if begun is None:
                raise SandboxProtocolError(
                    f"the code asks for the answer to {question.id}, which was not begun"
                )
            reply = await self._collected(question.id, begun)
            self._held_characters -= _characters(reply)
            return reply.wire()
        if not question.background:
            with self._counted(self._awaited, question.id):
                return (await self._serve(question)).wire()
        if question.id in self._begun:
            raise SandboxProtocolError(f"the code begins {question.id} twice")
        task = self._begun[question.id] = asyncio.create_task(self._serve_in_turn(question))
        if not self._overlaps:
            await asyncio.wait([task])
        return {}

    async def finish(self) -> Sequence[Delta]:
        """Wait for what was begun and not collected, and return what it changed; raise the first failure."""
        replies = await asyncio.gather(*(self._collected(*each) for each in self._begun.items()))
        return [reply.delta for reply in replies if reply.delta is not None]

    async def cancel(self) -> None:
        """End what was begun."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)

    async def _collected(self, number: int, task: asyncio.Task[Reply]) -> Reply:
        with self._counted(self._awaited, number):
            return await task

    @contextmanager
    def _counted(self, calls: Counter[int], number: int) -> Iterator[None]:
        calls[number] += 1
        self._consider_time()
        try:
            yield
        finally:
            calls[number] -= 1
            self._consider_time()

    def _consider_time(self) -> None:
        """Stop the run's clock while the code waits for nothing but calls that wait for sandboxes."""
        awaited = +self._awaited
        stops = bool(awaited) and all(self._queued[number] for number in awaited)
        if stops and self._stopped is None:
            self._stopped = ExitStack()
            self._stopped.enter_context(self._clock.stopped())
            self._stopped.enter_context(self._waiting())
        elif self._stopped is not None and not stops:
            stopped, self._stopped = self._stopped, None
            stopped.close()

    async def _serve_in_turn(self, question: Question) -> Reply:
        async with self._background:
            reply = await self._serve(question)
        self._held_characters += _characters(reply)
        return reply

    async def _serve(self, question: Question) -> Reply:
        most = self._settings.uncollected_characters
        if self._held_characters > most:
            self._end(
                "UncollectedAnswersError",
                f"answers to background calls that the code did not collect exceed the {most} characters "
                "of uncollected_characters",
            )
        if self.ending is not None:  # nothing that follows may have an effect
            return Reply(ending=(self.ending.type, self.ending.message))
        started = time.monotonic()
        is_tool = question.call == "tool"
        reply = await (self._of_tool(question) if is_tool else self._of_web(question))
        if reply.ending is not None:
            self._end(*reply.ending)
        name = question.tool if is_tool else question.method
        self.warnings += [f"{name}: {text}" if is_tool else text for text in reply.said]
        asked, whole = beginning_of(question.args if is_tool else {"url": question.url, **question.rest})
        self.calls.append(
            Call(
                kind="tool" if is_tool else "http",
                name=name[:_NAME_CHARACTERS],
                asked=asked,
                asked_whole=whole,
                status_code=reply.status_code,
                reason=reply.reason,
                text=reply.text[:_SHOWN_CHARACTERS],
                stdout=reply.stdout[:_SHOWN_CHARACTERS],
                error=reply.error,
                duration_s=time.monotonic() - started,
                background=question.background,
                mocked=reply.mocked,
            )
        )
        return reply

    def _end(self, kind: str, message: str) -> None:
        self.ending = self.ending or RunFailure(type=kind, message=message, traceback="")

    async def _of_tool(self, question: Question) -> Reply:
        call = ToolCall(
            name=question.tool,
            args=question.args,
            state=question.state or {},
            shares_state=question.state is not None,
            by_code=True,
            situation=self._situation,
            function_call_id=new_call_id(),
        )
        try:
            waiting = partial(self._counted, self._queued, question.id)
            return await self._toolbox.reply(call, partial(self._run_below, waiting=waiting))
        except TooDeepError as exc:
            return Reply(
                ending=(
                    "ToolDepthError",
                    (
                        f"tools call each other deeper than {exc}: max_depth is {self._settings.max_depth}, "
                        "and each depth needs a sandbox (sandboxes_per_session)"
                    ),
                )
            )

    async def _of_web(self, question: Question) -> Reply:
        outgoing = Outgoing(method=question.method, url=question.url, **question.rest)
        return Reply.of_fetched(await self._http.fetch(outgoing, asker=self._situation.asker))


def beginning_of(value: Any, most: int = _SHOWN_CHARACTERS) -> tuple[Any, bool]:
    """Return the first *most* characters of JSON, about, in its shape, and whether that is all of it."""
    left = most

    def taken(value: Any) -> Any:
        nonlocal left
        match value:
            case str():
                kept = value[: max(left, 0)]
                left -= len(value)
                return kept
            case dict():
                return {taken(name): taken(each) for name, each in takewhile(has_room, value.items())}
            case list():
                return [taken(each) for each in takewhile(has_room, value)]
        left -= 1
        return value

    def has_room(_each: object) -> bool:
        nonlocal left
        left -= 1
        return left > 0

    return taken(value), left > 0


def _characters(reply: Reply) -> int:
    """Return the size of an answer that waits for its collection, in characters of JSON."""
    changes = 0 if reply.delta is None else len(json.dumps(reply.delta.wire()))
    return len(reply.text) + changes
