"""Say what sessions should be, with dictionaries and lists and none of the library's code."""

import copy
import math
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, str, str]
"""App, user and session id, without padding."""

Said = tuple[str, float, str, dict[str, Any]]
"""An event as it should be kept: id, time, text and change of state without ``temp:`` keys."""


def turn_of(text: str) -> str:
    """Return the invocation id of the event that says *text*, which begins with a number."""
    return f"turn {int(text.split(maxsplit=1)[0]) // 2}"


class MissingError(Exception):
    """The session is gone, or another one has its id."""


class StaleError(Exception):
    """The holder has not seen all that was appended."""


@dataclass
class Kept:
    """A session in storage."""

    life: int
    state: dict[str, Any]
    last_update_time: float
    ttl: int | None = None
    ends_at: float | None = None
    events: list[Said] = field(default_factory=list)
    title: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class Held:
    """A session object in a caller's hands."""

    place: Place
    life: int | None
    """Which session of that id it is of; ``None`` for a holder that lost its marker."""
    seen: int
    """How many events had been appended when it was last in step with storage."""
    state: dict[str, Any]
    last_update_time: float
    events: list[Said]


class Oracle:
    """Sessions, users and apps as a reader should find them."""

    def __init__(self, now: float = 4_000_000_000.0) -> None:
        self.sessions: dict[Place, Kept] = {}
        self.users: dict[tuple[str, str], dict[str, Any]] = {}
        self.apps: dict[str, dict[str, Any]] = {}
        self.now = now
        """The time, by which sessions end."""
        self._lives = 0

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and sessions with it."""
        self.now += seconds
        for place, kept in list(self.sessions.items()):
            if kept.ends_at is not None and kept.ends_at <= self.now:
                del self.sessions[place]

    def create(self, place: Place, state: dict[str, Any], *, ttl: int | None) -> Held:
        """Make a session that does not exist yet."""
        assert place not in self.sessions
        self._lives += 1
        ends_at = None if ttl is None else math.ceil(self.now) + ttl
        self.sessions[place] = Kept(
            life=self._lives, state={}, last_update_time=self.now, ttl=ttl, ends_at=ends_at
        )
        self._change(place, state)
        return self.held(place)

    def held(self, place: Place, *, recent: int | None = None, after: float | None = None) -> Held:
        """Return what a reader of a session holds."""
        kept = self.sessions[place]
        events = [said for said in kept.events if after is None or said[1] >= after]
        if recent is not None:
            events = events[-recent:] if recent else []
        return Held(
            place=place,
            life=kept.life,
            seen=len(kept.events),
            state=self.state(place),
            last_update_time=kept.last_update_time,
            events=copy.deepcopy(events),
        )

    def state(self, place: Place) -> dict[str, Any]:
        """Return the merged state of a session."""
        app, user, _ = place
        merged = dict(self.sessions[place].state)
        for prefix, shared in (("app:", self.apps.get(app, {})), ("user:", self.users.get((app, user), {}))):
            for key, value in shared.items():
                merged[prefix + key] = value
        return copy.deepcopy(merged)

    def append(self, held: Held, said: Said, temporary: dict[str, Any]) -> None:
        """Append to storage and to what the caller holds; on an error only the temporary state is held."""
        held.state.update(temporary)
        kept = self.sessions.get(held.place)
        if kept is None or (held.life is not None and held.life != kept.life):
            raise MissingError
        if said in kept.events and said in held.events:
            return
        if held.life is not None and held.seen != len(kept.events):
            raise StaleError
        kept.events.append(said)
        kept.last_update_time = said[1]
        if kept.ttl is not None:
            kept.ends_at = math.ceil(self.now) + kept.ttl
        self._change(held.place, said[3])
        held.events.append(said)
        held.seen += 1
        held.last_update_time = said[1]
        held.state.update(copy.deepcopy(said[3]))

    def listing(self, app: str, user: str | None) -> list[Place]:
        """Return the sessions of a user or an app, in order."""
        places = [place for place in self.sessions if place[0] == app and user in (None, place[1])]
        return sorted(places, key=lambda place: (self.sessions[place].last_update_time, place[1], place[2]))

    def info(self, place: Place) -> tuple[Any, ...]:
        """Return title, labels, the numbers of events and turns, and the last message."""
        kept = self.sessions[place]
        texts = [text for _, _, text, _ in kept.events]
        turns = [turn_of(text) for text in texts]
        opened = sum(turn != before for before, turn in zip(["", *turns], turns, strict=False))
        last = texts[-1][:200] if texts else None
        return kept.title, kept.labels, len(texts), opened, last

    def _change(self, place: Place, delta: dict[str, Any]) -> None:
        app, user, _ = place
        for key, value in copy.deepcopy(delta).items():
            if key.startswith("app:"):
                self.apps.setdefault(app, {})[key[4:]] = value
            elif key.startswith("user:"):
                self.users.setdefault((app, user), {})[key[5:]] = value
            elif not key.startswith("temp:"):
                self.sessions[place].state[key] = value
