"""Take turns of sessions, leave messages to those who run them, and ask them to stop."""

import hashlib
from collections.abc import Awaitable
from random import Random
from typing import Any, Final, Literal

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import StoreError
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.sessions.append.turn import TurnLease
from gcp_adk_store.turns import Turns
from tests.chaos.journal import Journal, Outcome
from tests.chaos.places import APP, USER, Place
from tests.support.turns import within

_WAIT_S: Final = 0.2
_LEAVES_ONE: Final = 0.3
_ON_BUSY: Final[tuple[Literal["wait", "interrupt"], ...]] = ("wait", "wait", "wait", "interrupt")


class TurnActs:
    """What a writer does with turns; the writer itself has the rest."""

    _random: Random
    _journal: Journal
    _lease_s: float

    async def _outcome(self, number: int, work: Awaitable[Any], *, result: str = "") -> Outcome:
        raise NotImplementedError

    async def _create(self, place: Place) -> Session | None:
        raise NotImplementedError

    def _event(self, place: Place) -> tuple[Event, str]:
        raise NotImplementedError

    def _next_id(self) -> str:
        raise NotImplementedError

    def _turns(self, place: Place) -> tuple[Turns, bool]:
        """Return turns at *place*, and whether their appends return before they are stored."""
        raise NotImplementedError

    async def _take_turn(self, place: Place) -> None:
        """Append some events in a turn, and those of messages that wait; write down what became of each.

        Appends that return before they are stored are acknowledged by the end of the turn.
        """
        turns, is_behind = self._turns(place)
        name = self._next_id()
        number = self._journal.begin("turn", place=str(place), turn=name)
        taken: list[TurnLease] = []

        async def take() -> int:
            on_busy = self._random.choice(_ON_BUSY)
            taken.append(
                await turns.take(**_who(place), on_busy=on_busy, wait_s=_WAIT_S, lease_s=self._lease_s)
            )
            return taken[0].fence

        if await self._outcome(number, take(), result="fence") != "acknowledged":
            if not taken:
                await self._create(place)
            return
        behind: list[int] = []
        try:
            async with turns.kept(taken[0]):
                await _Turn(self, place, turns, taken[0], name, behind if is_behind else None).run()
        except StoreError as exc:
            for one in behind:
                self._journal.end(one, "unknown", error=type(exc).__name__, message=str(exc))
        else:
            for one in behind:
                self._journal.end(one, "acknowledged")

    async def _enqueue(self, place: Place) -> None:
        """Leave a message to whoever runs a turn."""
        name = self._next_id()
        text = f"{name} message"
        content = types.Content(role="user", parts=[types.Part(text=text)])
        number = self._journal.begin("enqueue", place=str(place), event=name)
        turns, _ = self._turns(place)
        await self._outcome(number, turns.enqueue(**_who(place), new_message=content, message_id=name))

    async def _stop(self, place: Place) -> None:
        """Ask whoever runs a turn to stop."""
        turns, _ = self._turns(place)
        number = self._journal.begin("stop", place=str(place))
        await self._outcome(number, turns.request_abort(**_who(place)))


class _Turn:
    """One turn of a writer; *behind* takes the numbers of appends that return before they are stored."""

    def __init__(
        self, acts: TurnActs, place: Place, turns: Turns, hold: TurnLease, name: str, behind: list[int] | None
    ) -> None:
        self._acts = acts
        self._place = place
        self._turns = turns
        self._hold = hold
        self._name = name
        self._behind = behind

    async def run(self) -> None:
        """Append until it is asked to stop, or an append fails."""
        acts, hold = self._acts, self._hold
        session = await self._turns.sessions.get_session(**_who(self._place))
        if session is None:
            return
        for count in range(acts._random.randrange(1, 5)):  # the other half of it
            made, digest = acts._event(self._place)
            made.invocation_id = self._name
            if hold.abort_signal.is_set() or not await self._append(session, made, made.id, digest, count):
                return
        while acts._random.random() < _LEAVES_ONE:  # where nobody else is there to do it, too
            await acts._enqueue(self._place)
        await self._turns.refresh(hold)
        while (text := hold.first_waiting) is not None and not hold.abort_signal.is_set():
            waiting = WaitingMessage.parse(text)
            content = types.Content.model_validate(waiting.message)
            assert content.parts
            digest = hashlib.sha256((content.parts[0].text or "").encode()).hexdigest()
            hold.answer(waiting.id, text)
            made = Event(author="user", invocation_id=self._name, content=content)
            try:
                if not await self._append(session, made, waiting.id, digest, None):
                    return
            finally:
                hold.answered()
            if hold.has_claimed:  # one message at a time
                await self._turns.sessions.flush_session(**_who(self._place))

    async def _append(
        self, session: Session, event: Event, event_id: str, digest: str, count: int | None
    ) -> bool:
        """Append in the turn; return whether the next may follow."""
        acts = self._acts
        delta = event.actions.state_delta
        number = acts._journal.begin(
            "append",
            place=str(self._place),
            life=session.state["life"],
            event=event_id,
            delta={key: value for key, value in delta.items() if not key.startswith("temp:")},
            digest=digest,
            turn=self._name,
            count=count,
        )
        with within(self._hold):
            appending = self._turns.sessions.append_event(session, event)
            if self._behind is None:
                return await acts._outcome(number, appending) == "acknowledged"
            self._behind.append(number)
            await appending
            return True


def _who(place: Place) -> dict[str, Any]:
    return {"app_name": APP, "user_id": USER, "session_id": place.session}
