"""Let turns begin, end, expire and be lost in any order, and compare them with a simple model."""

import asyncio
import itertools
import time
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.adk.sessions import Session
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, rule, run_state_machine_as_test

from gcp_adk_store import SessionBusyError, Store, TurnLostError
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.sessions.append.turn import TurnLease
from tests.support.turns import within

T = TypeVar("T")

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
LEASE_S = 60.0
PROCESSES = st.integers(0, 2)


class TurnsMachine(RuleBasedStateMachine):
    """Three processes and one session; the model knows the fence, the lease, the events and the inbox."""

    holds = Bundle("holds")

    def __init__(self, folder: Path, durability: Literal["event", "turn"]) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._passed_s = 0.0
        place = folder / uuid.uuid4().hex
        self._stores = [Store.local(place, on_conflict="merge", durability=durability) for _ in range(3)]
        self._numbers = itertools.count()
        self._fence, self._until, self._abort = 0, 0.0, False
        self._events: list[str] = []
        self._inbox: list[str] = []
        began = float(int(time.time()))  # so that sums of times are exact, and equal ends of leases are equal

        async def begin() -> Session:
            platform_time.set_time_provider(lambda: began + self._passed_s)
            return await self._stores[0].sessions.create_session(**WHO)

        made = self._run(begin())
        self._handles = [made.model_copy(deep=True) for _ in self._stores]

    def teardown(self) -> None:
        """Compare what is stored at the end."""
        try:
            self.look(0)
        finally:
            self._runner.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    @property
    def _is_held(self) -> bool:
        return self._passed_s < self._until

    @rule(target=holds, process=PROCESSES)
    def take(self, process: int) -> Any:
        """Begin a turn; it is refused while another one runs."""
        try:
            hold = self._run(self._stores[process].turns.take(**WHO, on_busy="reject", lease_s=LEASE_S))
        except SessionBusyError as busy:
            assert (True, self._fence) == (self._is_held, busy.fence)  # noqa: PT017  # either is right at times
            return multiple()
        assert not self._is_held
        self._fence += 1
        self._until, self._abort = self._passed_s + LEASE_S, False
        assert self._fence == hold.fence
        return process, hold

    @rule(held=holds, reads=st.booleans(), answers=st.booleans())
    def append(self, held: tuple[int, TurnLease], *, reads: bool, answers: bool) -> None:
        """Append in a turn, through a handle of any age, perhaps the event of the first message."""
        process, hold = held
        sessions = self._stores[process].sessions
        text = str(next(self._numbers))

        async def act() -> None:
            if reads:
                self._handles[process] = await self._found(process)
            with within(hold):
                if answers and hold.inbox:
                    hold.answer(WaitingMessage.parse(hold.inbox[0]).id, hold.inbox[0])
                await sessions.append_event(self._handles[process], _event(text, author="user"))
                await sessions.flush_session(**WHO)

        asked = WaitingMessage.parse(hold.inbox[0]).id if answers and hold.inbox else None
        try:
            self._run(act())
        except TurnLostError:
            assert hold.has_ended or hold.fence != self._fence
            self._read_again(process)  # an append behind leaves the handle with an event that is not stored
            return
        finally:
            hold.answered()
        assert hold.fence == self._fence
        assert not hold.has_ended
        self._events.append(text)
        self._until = max(self._until, self._passed_s + LEASE_S)
        if asked is not None:
            assert asked == self._inbox.pop(0)
            assert asked == self._handles[process].events[-1].id

    @rule(process=PROCESSES)
    def append_from_outside(self, process: int) -> None:
        """Append without a turn: it is merged, whoever has the turn."""
        text = str(next(self._numbers))
        sessions = self._stores[process].sessions
        self._run(sessions.append_event(self._handles[process], _event(text, author="agent")))
        self._run(sessions.flush_session(**WHO))
        self._events.append(text)

    @rule(held=holds)
    def renew(self, held: tuple[int, TurnLease]) -> None:
        """Renew a lease, as a heartbeat does; a request to stop is noticed."""
        process, hold = held
        try:
            self._run(self._stores[process].turns._leases.renew(hold))
        except TurnLostError:
            assert hold.has_ended or hold.fence != self._fence
            return
        assert hold.fence == self._fence
        self._until = max(self._until, self._passed_s + LEASE_S)
        self._run(asyncio.sleep(0))
        assert self._abort == hold.abort_signal.is_set()

    @rule(held=holds, only_if_empty=st.booleans())
    def release(self, held: tuple[int, TurnLease], *, only_if_empty: bool) -> None:
        """End a turn, perhaps only if nothing waits."""
        process, hold = held
        leases = self._stores[process].turns._leases
        try:
            has_ended = self._run(leases.release(hold, only_if_empty=only_if_empty))
        except TurnLostError:
            assert hold.has_ended or hold.fence != self._fence
            return
        assert hold.fence == self._fence
        assert has_ended == (not only_if_empty or not self._inbox)
        if has_ended:
            self._until, self._abort = 0.0, False

    @rule(process=PROCESSES)
    def enqueue(self, process: int) -> None:
        """Let a message wait, if a turn runs."""
        message = WaitingMessage(id=f"m{next(self._numbers)}", message={}, time=0.0)
        waits = self._run(self._stores[process].turns.enqueue(**WHO, text=str(message)))
        assert self._is_held == waits
        if waits:
            self._inbox.append(message.id)

    @rule(process=PROCESSES)
    def request_abort(self, process: int) -> None:
        """Ask the holder to stop."""
        assert self._is_held == self._run(self._stores[process].turns.request_abort(**WHO))
        self._abort = self._abort or self._is_held

    @rule(seconds=st.sampled_from([1.0, 30.0, 59.0, 61.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass, perhaps past the end of the lease."""
        self._passed_s += seconds

    @rule(process=PROCESSES)
    def look(self, process: int) -> None:
        """Compare the events, the turn and the inbox with the model."""
        status = self._run(self._stores[process].turns.status(**WHO))
        assert (self._fence, self._is_held) == (status.fence, status.is_running)
        assert tuple(self._inbox) == status.waiting
        found = self._run(self._found(process))
        texts = [one.content.parts[0].text for one in found.events if one.content and one.content.parts]
        assert self._events == texts

    async def _found(self, process: int) -> Session:
        found = await self._stores[process].sessions.get_session(**WHO)
        assert found is not None
        return found

    def _read_again(self, process: int) -> None:
        self._handles[process] = self._run(self._found(process))


def _event(text: str, *, author: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author=author, invocation_id="invocation", content=content)


@pytest.mark.parametrize("durability", ["event", "turn"])
def test_turns_are_what_a_simple_model_says(tmp_path: Path, durability: Literal["event", "turn"]) -> None:
    """One holds a turn at a time, and what any other appends in its turn is refused."""
    run_state_machine_as_test(
        lambda: TurnsMachine(tmp_path, durability),  # type: ignore[arg-type]  # any function that makes one
        settings=settings(max_examples=8, stateful_step_count=25, deadline=None),
    )
