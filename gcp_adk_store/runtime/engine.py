"""Run requests in the sandbox, and answer what their code asks."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from gcp_adk_store.runtime.fetching import HttpAccess, Outgoing
from gcp_adk_store.runtime.guest.contract import VERSION
from gcp_adk_store.runtime.questions import Answer, Question
from gcp_adk_store.runtime.replies import Reply
from gcp_adk_store.runtime.results import Call
from gcp_adk_store.runtime.sandbox.errors import SandboxProtocolError
from gcp_adk_store.runtime.sandbox.interface import Sandbox
from gcp_adk_store.runtime.sandboxes import overlaps
from gcp_adk_store.runtime.settings import RuntimeSettings
from gcp_adk_store.runtime.toolbox import Ran, Situation, Toolbox, ToolCall, new_call_id
from gcp_adk_store.turns import Turns

_SHOWN_CHARACTERS: Final = 16_384


class _TooDeepError(Exception):
    """Tools call each other too deep."""


class Engine:
    """Runs requests, in bounded numbers and to a bounded depth."""

    def __init__(
        self, sandbox: Sandbox, toolbox: Toolbox, http: HttpAccess, settings: RuntimeSettings
    ) -> None:
        self._sandbox = sandbox
        self.toolbox = toolbox
        self.http = http
        self.settings = settings
        self.overlaps = overlaps(sandbox)
        # By depth: were they one line, runs could all wait for turns of runs within them.
        self._turns = Turns(at_once=settings.runs_at_once if self.overlaps else 1)

    async def run(self, request: Mapping[str, Any], situation: Situation, *, depth: int = 0) -> Ran:
        """Return what became of *request*, with everything done that its code asked for.

        Raises:
            SandboxError: its process had no answer.
            InvalidInputError: it, or what its code is answered, is too large for the sandbox.
        """
        if depth > self.settings.max_depth:
            raise _TooDeepError
        host = _Host(self, situation, depth)
        whole = {
            "version": VERSION,
            "tools": sorted(self.toolbox.callees),
            "settings": asdict(self.settings.guest),
            **request,
        }
        limits = {} if self.settings.limits is None else {"limits": self.settings.limits}
        printed: list[str] = []
        async with self._turns.turn(depth):
            try:
                answer = Answer.of(
                    await self._sandbox.run(whole, host.answer, on_output=printed.append, **limits)
                )
                if self.settings.finish_uncollected and answer.error is None:
                    await host.finish()
            finally:
                await host.cancel()
        return Ran(
            answer=answer,
            calls=tuple(host.calls),
            warnings=(*answer.warnings, *dict.fromkeys(host.warnings)),
            stdout=answer.stdout + "".join(printed),
        )


class _Host:
    """Answers the questions of one run."""

    def __init__(self, engine: Engine, situation: Situation, depth: int) -> None:
        self._engine = engine
        self._situation = situation
        self._depth = depth
        self._begun: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._background = asyncio.Semaphore(engine.settings.background_calls_at_once)
        self.calls: list[Call] = []
        self.warnings: list[str] = []

    async def answer(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to what the code asks.

        Raises:
            SandboxProtocolError: it is no question.
        """
        question = Question.of(frame)
        if question.call == "collect":
            begun = self._begun.pop(question.id, None)
            if begun is None:
                raise SandboxProtocolError(
                    f"the code asks for the answer to {question.id}, which was not begun"
                )
            return await begun
        if not question.background:
            return await self._serve(question)
        if question.id in self._begun:
            raise SandboxProtocolError(f"the code begins {question.id} twice")
        task = self._begun[question.id] = asyncio.ensure_future(self._serve_in_turn(question))
        if not self._engine.overlaps:
            await asyncio.wait([task])
        return {}

    async def finish(self) -> None:
        """Wait for what was begun and not collected; raise the first failure."""
        for task in asyncio.as_completed(self._begun.values()):
            await task

    async def cancel(self) -> None:
        """End what was begun."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)

    async def _serve_in_turn(self, question: Question) -> dict[str, Any]:
        async with self._background:
            return await self._serve(question)

    async def _serve(self, question: Question) -> dict[str, Any]:
        started = time.monotonic()
        is_tool = question.call == "tool"
        reply = await (self._of_tool(question) if is_tool else self._of_web(question))
        name = question.tool if is_tool else question.method
        self.warnings += [f"{name}: {text}" if is_tool else text for text in reply.said]
        self.calls.append(
            Call(
                kind="tool" if is_tool else "http",
                name=name,
                asked=question.args if is_tool else {"url": question.url, **question.rest},
                status_code=reply.status_code,
                reason=reply.reason,
                text=reply.text[:_SHOWN_CHARACTERS],
                stdout=reply.stdout,
                error=reply.error,
                duration_s=time.monotonic() - started,
                background=question.background,
                mocked=reply.mocked,
            )
        )
        return reply.wire()

    async def _of_tool(self, question: Question) -> Reply:
        call = ToolCall(
            name=question.tool,
            args=question.args,
            state=question.state or {},
            shares_state=question.state is not None,
            situation=self._situation,
            function_call_id=new_call_id(),
        )
        try:
            return await self._engine.toolbox.reply(call, partial(self._engine.run, depth=self._depth + 1))
        except _TooDeepError:
            return Reply(
                ending=(
                    "ToolDepthError",
                    f"tools call each other deeper than the {self._engine.settings.max_depth} of max_depth",
                )
            )

    async def _of_web(self, question: Question) -> Reply:
        outgoing = Outgoing(method=question.method, url=question.url, **question.rest)
        return Reply.of_fetched(await self._engine.http.fetch(outgoing))
