"""Decide what happens to each request of a schedule."""

import enum
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass
from random import Random
from typing import Final

from gcp_adk_store.errors import InvalidInputError


class Fate(enum.StrEnum):
    """What the network and the service do with one request."""

    ANSWERED = "answered"
    REFUSED = "refused for now"
    """Nothing was done, and the client gets to know it."""
    OVER_QUOTA = "over quota"
    """Nothing was done, and the service asks the client to wait: ``RESOURCE_EXHAUSTED``, or status 429."""
    REQUEST_LOST = "request lost"
    """It never arrives, and the client waits for its answer until it gives up."""
    ANSWER_LOST = "answer lost"
    """It is done; the client gets no answer, or an error of the connection."""
    CONNECTION_BROKEN = "connection broken"
    """It is done; the client gets an error of the connection at once."""
    LATE = "late"
    """It arrives after the client has given it up."""
    TWICE = "twice"
    """It arrives again after it was done and answered.

    One that the service refused does not: only a layer that got no answer repeats a request.
    """


STREAM_BROKEN: Final = "stream broken"
"""Ends a stream that watches a document; it is counted with the fates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The shares of requests that meet a fault, 1 at most together, and the latency.

    The default has no fault. :meth:`all` has each. A stream may break beside all others.

    Raises:
        InvalidInputError: a share is not from 0 to 1, or those of requests are above 1 together.
    """

    refused: float = 0.0
    over_quota: float = 0.0
    request_lost: float = 0.0
    answer_lost: float = 0.0
    connection_broken: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    stream_broken: float = 0.0
    latency_s: tuple[float, float] = (0.001, 0.05)
    """The shortest and the longest way of a message in one direction."""
    late_s: tuple[float, float] = (5.0, 60.0)
    """How much longer the way of a late request is, or that of one that arrives again."""
    asks_s: tuple[float, float] = (0.5, 20.0)
    """How long the service asks a client to wait that is over quota; the library reads it as
    ``retry_after_s``."""

    def __post_init__(self) -> None:
        shares = {name: share for name, share in asdict(self).items() if not name.endswith("_s")}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise InvalidInputError(f"{name} is {share}, it must be from 0 to 1")
        if (together := sum(shares.values()) - self.stream_broken) > 1 + 1e-9:
            raise InvalidInputError(
                f"the shares of requests are {together:.3g} together, they must be 1 at most"
            )

    @classmethod
    def all(cls, share: float = 0.02) -> "Faults":
        """Return faults of every kind, each of the same *share*."""
        return cls(
            refused=share,
            over_quota=share,
            request_lost=share,
            answer_lost=share,
            connection_broken=share,
            late=share,
            twice=share,
            stream_broken=share,
        )


@dataclass(frozen=True, slots=True)
class Way:
    """The way of one request."""

    fate: Fate
    there_s: float
    """Seconds until it arrives."""
    back_s: float
    """Seconds until its answer arrives."""
    again_s: float
    """Seconds until it arrives again, or how late it is."""
    asks_s: float
    """Seconds that a service asks for if the request is over quota."""


class Fates:
    """The fates of the requests of one schedule, which its seed decides.

    Each request has a name: who sends it, what it does, and how often before. Its name decides its fate, so
    it stays the same when others are left out. With *only*, no other fault happens than these: so a schedule
    that fails is shown with few faults.
    """

    def __init__(self, faults: Faults, seed: int, *, only: Collection[str] | None = None) -> None:
        self._faults = faults
        self._seed = seed
        self._only = only
        self._sent: Counter[str] = Counter()
        self.happened: list[str] = []
        """The names of the requests that met a fault."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """Requests by what they do and what became of them."""

    def way(self, sender: str, what: str, about: str) -> Way:
        """Return the way of the next request of *sender*, which does *what* about something."""
        name, random = self._next(f"{sender} {what} {about}")
        faults = self._faults
        left = random.random()
        fate = Fate.ANSWERED
        for share, fault in (
            (faults.refused, Fate.REFUSED),
            (faults.request_lost, Fate.REQUEST_LOST),
            (faults.answer_lost, Fate.ANSWER_LOST),
            (faults.connection_broken, Fate.CONNECTION_BROKEN),
            (faults.late, Fate.LATE),
            (faults.twice, Fate.TWICE),
            (faults.over_quota, Fate.OVER_QUOTA),
        ):
            left -= share
            if left < 0:
                fate = fault if self._happens(name) else Fate.ANSWERED
                break
        self.counts[what, fate] += 1
        there_s, back_s = (random.uniform(*faults.latency_s) for _ in range(2))
        return Way(fate, there_s, back_s, random.uniform(*faults.late_s), random.uniform(*faults.asks_s))

    def message(self, sender: str, what: str, about: str) -> float | None:
        """Return how long the next message of a stream takes; ``None`` if the stream breaks instead."""
        name, random = self._next(f"{sender} {what} message {about}")
        is_broken = random.random() < self._faults.stream_broken and self._happens(name)
        self.counts[what, STREAM_BROKEN if is_broken else Fate.ANSWERED] += 1
        return None if is_broken else random.uniform(*self._faults.latency_s)

    def _next(self, name: str) -> tuple[str, Random]:
        self._sent[name] += 1
        numbered = f"{name} #{self._sent[name]}"
        return numbered, Random(f"{self._seed}/{numbered}")  # noqa: S311  # a schedule has no secrets

    def _happens(self, name: str) -> bool:
        if self._only is not None and name not in self._only:
            return False
        self.happened.append(name)
        return True
