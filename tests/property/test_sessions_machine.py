"""Drive the session service with random calls, beside an oracle that knows nothing of it."""

import asyncio
import copy
import itertools
import json
import uuid
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.platform import time as platform_time
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from gcp_adk_store import SessionInfo, SessionLimits, SessionMissingError, SessionService, Store
from tests.property.session_oracle import Held, MissingError, Oracle, Place, Said, StaleError, turn_of
from tests.support.lengths import at_length

T = TypeVar("T")

BOUNDS = settings(
    max_examples=at_length(3, 40),
    stateful_step_count=30,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

USERS = st.sampled_from(["u", "a/b", "", "__x__"])
SESSIONS = st.sampled_from(["s", "..", "s/t", "ü %2F", " s\n"])
EVENT_IDS = st.sampled_from(["", "the same", "a/b", "__x__"])
TIMES = st.sampled_from([1.0, 2.0, 3.0, 1700000000.123]) | st.floats(0, 4e9)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.builds(
    str.__add__,
    st.sampled_from(["", "user:", "app:", "temp:"]),
    st.sampled_from(["k", "", "a.b", "a/b", "__x__", "`%", "user:k"]) | st.text(max_size=4),
)
STATES = st.dictionaries(KEYS, VALUES, max_size=4)
HISTORIES = st.lists(TIMES, max_size=8)
TTLS = st.none() | st.sampled_from([10, 1000])
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]))
PAUSES = st.sampled_from([1, 9, 10, 999, 1000])
FRACTION = 0.25
"""Of a second, by which times are later than whole ones."""
FILTERS = st.tuples(
    st.none() | st.integers(0, 12), st.none() | TIMES, st.none() | st.integers(0, 12) | st.just(0)
)
"""How many events, from which time on, and since which of the holder's events instead."""


def exact(value: Any) -> str:
    """Return *value* so that equal texts mean equal types too."""
    return json.dumps(value, sort_keys=True)


def said(event: Event) -> Said:
    """Return what the oracle keeps of *event*."""
    assert event.content
    assert event.content.parts
    return event.id, event.timestamp, event.content.parts[0].text or "", event.actions.state_delta


class Holder:
    """A session object and what it should be."""

    def __init__(self, session: Session, expected: Held) -> None:
        self.session = session
        self.expected = expected

    def check(self) -> None:
        """Compare the two in all that a caller sees."""
        expected, session = self.expected, self.session
        assert expected.place == (session.app_name, session.user_id, session.id)
        assert exact(expected.events) == exact([said(event) for event in session.events])
        assert exact(expected.state) == exact(session.state)
        assert expected.last_update_time == session.last_update_time


class SessionsMachine(RuleBasedStateMachine):
    """Any number of callers with their sessions, some of them stale, some without a marker."""

    holders = Bundle("holders")

    def __init__(
        self,
        service: SessionService,
        runner: asyncio.Runner,
        starts: Iterator[float],
        *,
        is_behind: bool = False,
    ) -> None:
        """Drive *service*; *is_behind* says that its appends return before they are stored."""
        super().__init__()
        self._is_behind = is_behind
        self.service = service
        self.oracle = Oracle(next(starts))
        self.events = 0
        # The database is shared by all examples, so each has apps of its own.
        self.apps = [f"{uuid.uuid4().hex}{end}" for end in ("", "/2")]
        self._runner = runner
        self.run(self._follow_the_oracles_clock())

    async def _follow_the_oracles_clock(self) -> None:
        platform_time.set_time_provider(lambda: self.oracle.now)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Await *call* in the one event loop of the test."""
        return self._runner.run(call)

    def teardown(self) -> None:
        """Find at the end exactly the sessions and the states that should be there."""
        for app in self.apps:
            self._check_listing(app, None)
        for place in self.oracle.sessions:
            self._read(place, None)

    @initialize(target=holders, user=USERS, name=SESSIONS, times=HISTORIES, ttl=TTLS)
    def begin(
        self, user: str, name: str, times: list[float], ttl: int | None
    ) -> Holder | MultipleResults[Holder]:
        """Start with a session: most calls need one."""
        return self.create(app=0, user=user, name=name, state={}, times=times, ttl=ttl)

    @rule(
        target=holders,
        app=st.integers(0, 1),
        user=USERS,
        name=SESSIONS,
        state=STATES,
        times=HISTORIES,
        ttl=TTLS,
    )
    def create(
        self, app: int, user: str, name: str, state: dict[str, Any], times: list[float], ttl: int | None
    ) -> Holder | MultipleResults[Holder]:
        """Make a session with some events; an id that is taken is refused."""
        place = (self.apps[app], user, name.strip())
        made = self.service.create_session(
            app_name=place[0], user_id=user, session_id=name, state=copy.deepcopy(state), ttl_seconds=ttl
        )
        if place in self.oracle.sessions:
            with pytest.raises(AlreadyExistsError):
                self.run(made)
            return multiple()
        session = self.run(made)
        holder = self._checked(session, self.oracle.create(place, state, ttl=ttl))
        self.append_many(holder, times)
        return holder

    @rule(target=holders, app=st.integers(0, 1), user=USERS, name=SESSIONS)
    def get(self, app: int, user: str, name: str) -> Holder | MultipleResults[Holder]:
        """Read a session whole."""
        return self._read((self.apps[app], user, name), None)

    @rule(target=holders, holder=holders, filters=st.lists(FILTERS, min_size=1, max_size=4))
    def get_some(
        self, holder: Holder, filters: list[tuple[int | None, float | None, int | None]]
    ) -> Holder | MultipleResults[Holder]:
        """Read some events of a session, often since the very time of one; one reader goes on to append."""
        found: Holder | MultipleResults[Holder] = multiple()
        for recent, after, since in filters:
            if since is not None and holder.expected.events:
                after = holder.expected.events[since % len(holder.expected.events)][1]  # noqa: PLW2901  # draws one of its times
            config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
            found = self._read(holder.expected.place, config)
        return found

    @rule(target=holders, holder=holders)
    def lose_the_marker(self, holder: Holder) -> Holder:
        """Send a session through JSON, as between services."""
        travelled = Session.model_validate_json(holder.session.model_dump_json())
        expected = copy.deepcopy(holder.expected)
        expected.life = None
        return self._checked(travelled, expected)

    @rule(holder=holders, name=EVENT_IDS, at=TIMES, delta=STATES, size=st.sampled_from([1, 1, 300]))
    def append(self, holder: Holder, name: str, at: float, delta: dict[str, Any], size: int) -> None:
        """Append a new event, which goes through exactly when the holder is in step with storage."""
        self._append_new(holder, name, at, delta, size)

    @rule(holder=holders, times=HISTORIES)
    def append_many(self, holder: Holder, times: list[float]) -> None:
        """Append enough to have the session sealed."""
        for at in times:
            self._append_new(holder, "", at, {}, 1)
        kept = self.oracle.sessions.get(holder.expected.place)
        if kept and kept.events:
            # Where segments that are not needed are distinguished from those that are.
            newest = max(at for _, at, _, _ in kept.events)
            self._read(holder.expected.place, GetSessionConfig(after_timestamp=newest))

    @rule(holder=holders, which=st.integers(0, 99))
    def deliver_again(self, holder: Holder, which: int) -> None:
        """Append an event that the holder has; it is not stored again."""
        if not holder.session.events:
            return
        event = holder.session.events[which % len(holder.session.events)].model_copy(deep=True)
        self._append(holder, event, said(event), {})

    @rule(holder=holders)
    def append_a_partial_event(self, holder: Holder) -> None:
        """Nobody learns of it."""
        event = Event(author="user", partial=True, actions=EventActions(state_delta={"k": 1, "temp:t": 1}))
        self.run(self.service.append_event(holder.session, event))
        holder.check()

    @rule(holder=consumes(holders))
    def delete(self, holder: Holder) -> None:
        """Remove the session of a holder, whoever made it."""
        self._delete(holder.expected.place)

    @rule(target=holders, holder=holders)
    def make_anew(self, holder: Holder) -> Holder | MultipleResults[Holder]:
        """Put another session in the place of a holder's, which may be at the same revision."""
        app, user, name = holder.expected.place
        self._delete(holder.expected.place)
        return self.create(self.apps.index(app), user, name, {}, [], None)

    @rule(seconds=PAUSES)
    def wait(self, seconds: int) -> None:
        """Let time pass; sessions end by themselves."""
        self.oracle.pass_time(seconds)

    @rule(holder=holders)
    def use_until_the_end(self, holder: Holder) -> None:
        """Append when a session is about to end, twice, and when it has ended."""
        place = holder.expected.place
        kept = self.oracle.sessions.get(place)
        if kept is None or kept.ends_at is None:
            return
        for early in (1, 1, 0):
            self.oracle.pass_time(kept.ends_at - self.oracle.now - early + FRACTION)
            self._append_new(holder, "", 1.0, {}, 1)
            self._read(place, None)

    @rule(app=st.integers(0, 1), user=USERS, name=SESSIONS)
    def delete_any(self, app: int, user: str, name: str) -> None:
        """Remove a session, or nothing, by its padded id too."""
        self._delete((self.apps[app], user, name))

    @rule(app=st.integers(0, 1), user=st.none() | USERS)
    def list_sessions(self, app: int, user: str | None) -> None:
        """List a user's sessions, or everyone's."""
        self._check_listing(self.apps[app], user)

    @rule(
        app=st.integers(0, 1),
        user=st.none() | USERS,
        size=st.integers(1, 3),
        order=st.sampled_from(["newest", "oldest"]),
        labels=st.none() | LABELS,
    )
    def list_pages(
        self,
        app: int,
        user: str | None,
        size: int,
        order: Literal["newest", "oldest"],
        labels: dict[str, str] | None,
    ) -> None:
        """List them page by page, perhaps those with labels, and what is listed of each."""
        listed, infos = self.run(self._pages(self.apps[app], user, size, order, labels))
        expected = [
            place
            for place in self.oracle.listing(self.apps[app], user)
            if (labels or {}).items() <= self.oracle.sessions[place].labels.items()
        ]
        times = [one.last_update_time for one in listed]

        assert sorted(times, reverse=order == "newest") == times
        assert expected == sorted(
            ((one.app_name, one.user_id, one.id) for one in listed),
            key=lambda place: (self.oracle.sessions[place].last_update_time, place[1], place[2]),
        )
        for one in listed:
            place = (one.app_name, one.user_id, one.id)
            assert exact(self.oracle.state(place)) == exact(one.state)
        for one, info in zip(listed, infos, strict=True):
            place = (info.app_name, info.user_id, info.session_id)
            assert (one.app_name, one.user_id, one.id, one.last_update_time) == (
                *place,
                info.last_update_time,
            )
            reported = info.title, info.labels, info.events, info.turns, info.last_text
            assert self.oracle.info(place) == reported

    @rule(
        holder=holders,
        title=st.none() | st.sampled_from(["a", "b"]),
        labels=st.dictionaries(st.sampled_from(["x", "y"]), st.none() | st.sampled_from(["1", "2"])),
    )
    def describe(self, holder: Holder, title: str | None, labels: dict[str, str | None]) -> None:
        """Give a session a title and labels, or take them; no holder notices."""
        app, user, name = holder.expected.place
        change = self.service.update_session_info(
            app_name=app, user_id=user, session_id=name, title=title, labels=labels
        )
        kept = self.oracle.sessions.get(holder.expected.place)
        if kept is None:
            with pytest.raises(SessionMissingError):
                self.run(change)
            return
        self.run(change)
        kept.title = title
        changed = {**kept.labels, **labels}
        kept.labels = {key: value for key, value in changed.items() if value is not None}

    @rule(
        holder=holders,
        limit=st.none() | st.integers(1, 9),
        direction=st.sampled_from(["forward", "backward"]),
    )
    def iterate(self, holder: Holder, limit: int | None, direction: Literal["forward", "backward"]) -> None:
        """Read the events of a session part by part."""
        place = holder.expected.place
        reading = self._parts(place, limit, direction)
        if place not in self.oracle.sessions:
            with pytest.raises(SessionNotFoundError):
                self.run(reading)
            return
        events = self.oracle.sessions[place].events

        assert exact(events if direction == "forward" else events[::-1]) == exact(
            [said(event) for event in self.run(reading)]
        )

    @rule(app=st.integers(0, 1), user=USERS)
    def get_user_state(self, app: int, user: str) -> None:
        """Read the state of a user without a session."""
        place = (self.apps[app], user)
        found = self.run(self.service.get_user_state(app_name=place[0], user_id=user))

        assert exact(self.oracle.users.get(place, {})) == exact(found)

    async def _pages(
        self,
        app: str,
        user: str | None,
        size: int,
        order: Literal["newest", "oldest"],
        labels: dict[str, str] | None,
    ) -> tuple[list[Session], list[SessionInfo]]:
        listed: list[Session] = []
        infos: list[SessionInfo] = []
        cursor: str | None = None
        while True:
            page = await self.service.list_sessions_page(
                app_name=app, user_id=user, page_size=size, order=order, cursor=cursor, labels=labels
            )
            listed += page.sessions
            infos += page.infos
            cursor = page.next_cursor
            if cursor is None:
                return listed, infos

    async def _parts(
        self, place: Place, limit: int | None, direction: Literal["forward", "backward"]
    ) -> list[Event]:
        app, user, name = place
        events: list[Event] = []
        cursor: str | None = None
        while True:
            part = [
                one
                async for one in self.service.iter_events(
                    app_name=app,
                    user_id=user,
                    session_id=name,
                    cursor=cursor,
                    limit=limit,
                    direction=direction,
                )
            ]
            events += [one.event for one in part]
            if limit is None or len(part) < limit:
                return events
            cursor = part[-1].cursor

    def _checked(self, session: Session, expected: Held) -> Holder:
        holder = Holder(session, expected)
        holder.check()
        return holder

    def _read(self, place: Place, config: GetSessionConfig | None) -> Holder | MultipleResults[Holder]:
        app, user, name = place
        found = self.run(self.service.get_session(app_name=app, user_id=user, session_id=name, config=config))
        stripped = (app, user, name.strip())
        if stripped not in self.oracle.sessions:
            assert found is None
            return multiple()
        assert found is not None
        config = config or GetSessionConfig()
        return self._checked(
            found,
            self.oracle.held(stripped, recent=config.num_recent_events, after=config.after_timestamp),
        )

    def _append_new(self, holder: Holder, name: str, at: float, delta: dict[str, Any], size: int) -> None:
        self.events += 1
        text = f"{self.events} " + "ü" * size
        event = Event(
            id=name or uuid.uuid4().hex,
            timestamp=at,
            author="user",
            invocation_id=turn_of(text),
            content=types.Content(role="user", parts=[types.Part(text=text)]),
            actions=EventActions(state_delta=copy.deepcopy(delta)),
        )
        lasting = {key: value for key, value in delta.items() if not key.startswith("temp:")}
        temporary = {key: value for key, value in delta.items() if key not in lasting}
        self._append(holder, event, (event.id, at, text, lasting), temporary)

    def _append(self, holder: Holder, event: Event, expected: Said, temporary: dict[str, Any]) -> None:
        before = exact(event.actions.state_delta)
        held = holder.session.model_dump_json()
        appended = self._stored(holder.session, event)
        try:
            self.oracle.append(holder.expected, expected, temporary)
        except (MissingError, StaleError) as exc:
            with pytest.raises(SessionNotFoundError if isinstance(exc, MissingError) else StaleSessionError):
                self.run(appended)
            if self._is_behind:  # it is in the handle, which is of no use any more
                holder.session = Session.model_validate_json(held)
                holder.session.state.update(temporary)
                holder.expected.life = None
            else:
                assert before == exact(event.actions.state_delta)
        else:
            assert exact(expected) == exact(said(self.run(appended)))
        holder.check()

    async def _stored(self, session: Session, event: Event) -> Event:
        """Append, and wait until it is stored."""
        made = await self.service.append_event(session, event)
        app, user, name = session.app_name, session.user_id, session.id
        await self.service.flush_session(app_name=app, user_id=user, session_id=name)
        return made

    def _delete(self, place: Place) -> None:
        app, user, name = place
        self.run(self.service.delete_session(app_name=app, user_id=user, session_id=name))
        self.oracle.sessions.pop((app, user, name.strip()), None)

    def _check_listing(self, app: str, user: str | None) -> None:
        listed = self.run(self.service.list_sessions(app_name=app, user_id=user)).sessions
        places = self.oracle.listing(app, user)

        assert places == [(one.app_name, one.user_id, one.id) for one in listed]
        assert exact([self.oracle.state(place) for place in places]) == exact([one.state for one in listed])
        assert [[]] * len(places) == [one.events for one in listed]


@pytest.mark.parametrize("durability", ["event", "turn"])
def test_sessions_are_what_a_simple_model_says(
    runner: asyncio.Runner, tmp_path: Path, durability: Literal["event", "turn"]
) -> None:
    """Whatever is called, in whatever order, by holders that are current, stale or without a marker.

    With ``durability="turn"``, once each append is stored; what conflicts is raised then.
    """
    limits = SessionLimits(seal_tail_bytes=700)
    service = Store.local(tmp_path / "store", session_limits=limits, durability=durability).sessions
    # A local store's times never go back, and each commit has a later one by a microsecond at least.
    starts = itertools.count(4_000_000_000.0 + FRACTION, 10**6)
    # Annotated as taking a class; its documentation says: a function that makes one, too.
    run_state_machine_as_test(
        lambda: SessionsMachine(service, runner, starts, is_behind=durability == "turn"),  # type: ignore[arg-type]
        settings=BOUNDS,
    )
    runner.run(service.close())
