"""Run requests in the sandbox, with everything that their code asks for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final, TypeAlias

from gcp_adk_store.ces.guest.contract import VERSION
from gcp_adk_store.ces.host.admission import Room, Waiting, places_of
from gcp_adk_store.ces.host.questions import Answer, Delta
from gcp_adk_store.ces.host.results import RunFailure
from gcp_adk_store.ces.host.sandboxes import overlaps
from gcp_adk_store.ces.host.serving import Host, TooDeepError
from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.host.toolbox import Ran, Situation, Toolbox
from gcp_adk_store.ces.http.fetching import HttpAccess
from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.errors import (
    SandboxError,
    SandboxMemoryError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from gcp_adk_store.ces.sandbox.interface import Sandbox
from gcp_adk_store.ces.sandbox.limits import Limits

_MOST_WARNINGS: Final = 100
_WARNING_CHARACTERS: Final = 1000

NoteLines: TypeAlias = Callable[[str, Sequence[int]], None]
"""Gets the name of a file of code, and the numbers of its lines that ran. Untrusted code reports the numbers,
and only for its own file: its process has no other one."""


class Engine:
    """Runs requests, in bounded numbers and to a bounded depth."""

    def __init__(
        self,
        sandbox: Sandbox,
        toolbox: Toolbox,
        http: HttpAccess,
        settings: RuntimeSettings,
        room: Room,
        *,
        note_lines: NoteLines | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._toolbox = toolbox
        self._http = http
        self._settings = settings
        self._guest_settings = asdict(settings.guest)
        self._room = room
        self._note_lines = note_lines
        self._limits = replace(settings.limits or Limits(), memory_bytes=room.memory_bytes)
        self._overlaps = overlaps(sandbox)
        self._places = places_of(sandbox)

    async def run(
        self,
        request: Mapping[str, Any],
        situation: Situation,
        *,
        depth: int = 0,
        waiting: Waiting = nullcontext,
    ) -> Ran:
        """Return what became of *request*, with everything done that its code asked for.

        Args:
            request: What the code's process gets.
            situation: Of the run.
            depth: How many runs this one is within.
            waiting: Entered while the run waits for a sandbox, or its code for that of a called tool.

        Raises:
            OverloadedError: no sandbox was free in time; no code was run.
            SandboxError: its process had no answer, or no memory for one.
            InvalidInputError: it, or what its code is answered, is too large for the sandbox.
        """
        if depth >= self._room.levels:
            raise TooDeepError(self._room.levels - 1)
        clock = Clock(longest_stop_s=self._settings.longest_wait_s)
        host = Host(
            self._toolbox,
            self._http,
            self._settings,
            situation,
            run_below=partial(self.run, depth=depth + 1),
            overlaps=self._overlaps,
            clock=clock,
            waiting=waiting,
        )
        whole = {
            "version": VERSION,
            "tools": self._toolbox.names(situation.mocks),
            "settings": self._guest_settings,
            "lines": self._note_lines is not None,
            **request,
        }
        printed: list[str] = []
        async with self._places.place(
            (situation.session.app, situation.session.user),
            situation.session,
            depth,
            self._room,
            longest_wait_s=self._settings.longest_wait_s,
            waiting=waiting,
        ):
            try:
                frame = await self._sandbox.run(
                    whole, host.answer, on_output=printed.append, limits=self._limits, clock=clock
                )
                answer = _validated(Answer.of(frame, before=request["context"]["state"]), request)
                if self._note_lines is not None and len(request["code"]) == 1:
                    self._note_lines(request["code"][0]["filename"], answer.lines)
                _require_memory(answer)
                if self._settings.finish_uncollected and answer.error is None:
                    answer = _with(await self._finished(host, clock), answer, request)
            except SandboxError as exc:  # also of what is found in its answer, when its process has ended
                exc.output = exc.output or "".join(printed)
                raise
            finally:
                await host.cancel()
        if host.ending is not None and answer.error is None:
            answer = self._ended(host.ending, answer, request)
        return Ran(
            answer=answer,
            calls=tuple(host.calls),
            warnings=_bounded((*answer.warnings, *host.warnings)),
            stdout="".join(printed),
        )

    async def _finished(self, host: Host, clock: Clock) -> Iterable[Delta]:
        """Return what calls changed that were begun and not collected, once they are done."""
        try:
            async with clock.limit(self._limits.wall_s) as timeout:
                return await host.finish()
        except TimeoutError as exc:
            if not timeout.expired():
                raise  # of a mock's function
            raise SandboxTimeoutError(
                "background calls that the code did not wait for took longer than the "
                f"{self._limits.wall_s:g} s of wall_s after its end"
            ) from exc

    def _ended(self, ending: RunFailure, answer: Answer, request: Mapping[str, Any]) -> Answer:
        """Return the answer of a run that was over, and did not say so."""
        shown = request["kind"] == "tool" and self._settings.guest.error_in_result
        return answer.failed(
            ending, before=request["context"]["state"], response=ending.response if shown else None
        )


def _validated(answer: Answer, request: Mapping[str, Any]) -> Answer:
    """Check the untrusted *answer* against its *request*.

    Raises:
        SandboxProtocolError: the answer names an unknown callback.
    """
    if answer.overridden_by is not None and not 0 <= answer.overridden_by < len(request["code"]):
        raise SandboxProtocolError(f"the code's process names the unknown callback {answer.overridden_by}")
    return replace(
        answer,
        changed={name: value for name, value in answer.changed.items() if name in request},
    )


def _require_memory(answer: Answer) -> None:
    """Raise what the run of *answer* wanted: memory; the code's process lived to tell."""
    if answer.error is not None and answer.error.type == "MemoryError":
        raise SandboxMemoryError(f"the code wanted more than memory_bytes:\n{answer.error.traceback}")


def _with(deltas: Iterable[Delta], answer: Answer, request: Mapping[str, Any]) -> Answer:
    """Return *answer* with what calls changed that ended after its code."""
    context = request["context"]
    before = [*context["state"], *context.get("withheld", ())]
    for delta in deltas:
        answer = replace(
            answer, delta=answer.delta.then(delta, before=before), state=delta.applied_to(answer.state)
        )
    return answer


def _bounded(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return each of *warnings* once, and no more than somebody reads: code can make any number of them."""
    return tuple(text[:_WARNING_CHARACTERS] for text in [*dict.fromkeys(warnings)][:_MOST_WARNINGS])
