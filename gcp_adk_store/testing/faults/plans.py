"""Faults and plans for proxies and wrapped services.

::

    Refuse   answered with an error; the service never sees the call
    Lose     done; then the answer is dropped
    Cut      broken off midway: the answer, or the request
    Garble   done; then the answer's body is changed
    Delay    done some seconds later
    Hang     never done, never answered
    Hold     held before or after it is done, until the test lets go of it

A plan is any function that gets a :class:`Call` and returns what goes wrong with it, or ``None``.
"""

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, TypeAlias

Service: TypeAlias = Literal["firestore", "storage", "sessions", "artifacts"]
"""The called service: one of Google's through a proxy, or a wrapped service of ADK."""

_HTTP: Final = {
    "CANCELLED": 499,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 412,
    "ABORTED": 409,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "UNKNOWN": 500,
}
_GRPC: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call, as a proxy or a wrapped service sees it."""

    service: Service
    owner: str
    """Whose it is, so that concurrent tests share one proxy: the project id of Firestore, the bucket of
    Cloud Storage, the app's name of a wrapped service; empty where a request names none."""
    method: str
    """An RPC such as ``Commit``, a kind of request such as ``upload``, a method such as ``append_event``."""
    number: int
    """The number of earlier calls of this owner, of all methods."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error; nothing is done.

    Raises:
        ValueError: *status* is unknown.
    """

    kind: ClassVar[str] = "refuse"

    status: str | int = "UNAVAILABLE"
    """A gRPC code by its name, or an HTTP status; each service answers with its own form of it."""
    retry_after_s: float | None = None
    """When to try again: HTTP's ``Retry-After`` in whole seconds, in gRPC a ``google.rpc.RetryInfo``."""
    error: Callable[[], Exception] | None = None
    """Makes what a wrapped service raises, such as an exception's class; by default ``UnavailableError``."""

    def __post_init__(self) -> None:
        if self.status not in (_HTTP if isinstance(self.status, str) else _GRPC):
            raise ValueError(f"{self.status!r} is not a status that refuses a call")

    @property
    def grpc_code(self) -> str:
        """The name of the gRPC code."""
        return self.status if isinstance(self.status, str) else _GRPC[self.status]

    @property
    def http_status(self) -> int:
        """The HTTP status."""
        return self.status if isinstance(self.status, int) else _HTTP[self.status]


@dataclass(frozen=True, slots=True)
class Lose:
    """Let it be done, then drop the answer: gRPC's ``UNAVAILABLE``, or a connection that ends."""

    kind: ClassVar[str] = "lose"


def _require_one_of(name: str, value: str, *known: str) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}, it must be {' or '.join(map(repr, known))}")


@dataclass(frozen=True, slots=True)
class Cut:
    """Break it off midway.

    Raises:
        ValueError: *part* is unknown.
    """

    kind: ClassVar[str] = "cut"

    part: Literal["answer", "request"] = "answer"
    """The answer breaks off after the first message of several, or after half of its body; one that has
    nothing to break is lost. A request breaks off after half of its body, and nothing of it is done."""

    def __post_init__(self) -> None:
        _require_one_of("part", self.part, "answer", "request")


def first_half(body: bytes) -> bytes:
    """Return the first half of *body*."""
    return body[: len(body) // 2]


@dataclass(frozen=True, slots=True)
class Garble:
    """Let it be done, then change the body of the answer; its length fits the change.

    So does a proxy that ends an answer early, or gives a page of its own: the client cannot detect it by the
    length. An answer that can have no body stays as it is. Firestore's answer becomes one message that cannot
    be read, for every *change*.

    Raises:
        ValueError: *part* is unknown.
    """

    kind: ClassVar[str] = "garble"

    change: Callable[[bytes], bytes] = field(default=first_half, repr=False)
    """Returns the changed body."""
    with_headers: bool = True
    """Whether the service's headers stay; otherwise only the length does."""
    status: int | None = None
    """The HTTP status that it gets; ``None`` keeps the service's."""
    part: Literal["answer", "request"] = "answer"
    """What is changed. A request to Cloud Storage must keep its length, and its answer stays; elsewhere it is
    the answer."""

    def __post_init__(self) -> None:
        _require_one_of("part", self.part, "answer", "request")


@dataclass(frozen=True, slots=True)
class Delay:
    """Let it be done after so many seconds, even if its caller has given up by then."""

    kind: ClassVar[str] = "delay"

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Never do it and never answer, until the caller goes or the proxy stops."""

    kind: ClassVar[str] = "hang"


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """Hold one call until the test releases it: meanwhile a task can be cancelled, a process killed.

    It holds once: a later call that a plan gives it to passes as the test decided. A call whose caller is
    gone is done all the same when it is released, as a request that was on its way arrives. Where the proxy
    stops first, it is dropped.

    Raises:
        ValueError: *stage* is unknown.
    """

    kind: ClassVar[str] = "hold"

    stage: Literal["before", "after"] = "before"
    """Before the call is done, or after it was, with its answer not yet sent."""
    reached: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    """Set once a call is held."""
    decision: "Future[bool]" = field(default_factory=Future, init=False, repr=False)
    """What the test decided, for those that hold a call."""

    def __post_init__(self) -> None:
        _require_one_of("stage", self.stage, "before", "after")

    def release(self, *, forward: bool = True) -> None:
        """Let the call go on; or drop it, so that it is never done, respectively never answered."""
        with contextlib.suppress(InvalidStateError):
            self.decision.set_result(forward)


Fault: TypeAlias = Refuse | Lose | Cut | Garble | Delay | Hang | Hold
"""What goes wrong with one call."""

Plan: TypeAlias = Callable[[Call], Fault | None]
"""What goes wrong with each; called from any thread."""

COMMON_FAULTS: Final[Sequence[Fault]] = (
    Refuse("UNAVAILABLE"),
    Refuse("RESOURCE_EXHAUSTED"),
    Lose(),
    Cut(),
    Cut("request"),
    Delay(0.05),
)
"""Common network faults."""


def no_faults(call: Call) -> Fault | None:
    """Let every *call* be."""
    del call
    return None


def nth(number: int, fault: Fault) -> Plan:
    """Return a plan with *fault* for one call of an owner, counted from 0."""
    return lambda call: fault if call.number == number else None


def from_nth(number: int, fault: Fault) -> Plan:
    """Return a plan with *fault* for that call of an owner and all after it: an outage."""
    return lambda call: fault if call.number >= number else None


def only(methods: str | Sequence[str], plan: Plan) -> Plan:
    """Return *plan* for calls of these *methods*, which are numbered among themselves from now on."""
    chosen = {methods} if isinstance(methods, str) else set(methods)
    guard = threading.Lock()
    numbers: Counter[tuple[Service, str]] = Counter()

    def among(call: Call) -> Fault | None:
        if call.method not in chosen:
            return None
        with guard:
            number = numbers[call.service, call.owner]
            numbers[call.service, call.owner] += 1
        return plan(replace(call, number=number))

    return among


class RandomFaults:
    """A plan that picks calls and faults by chance.

    What a call meets depends on nothing but *seed* and the call itself: the same calls with the same seed
    meet the same faults, regardless of other owners' calls.
    """

    def __init__(self, seed: int, rate: float, faults: Sequence[Fault] = COMMON_FAULTS) -> None:
        """Prepare the plan; *rate* is the share of calls that go wrong.

        Raises:
            ValueError: *rate* is not from 0 to 1.
        """
        if not 0 <= rate <= 1:
            raise ValueError(f"rate is {rate}, it must be from 0 to 1")
        self._seed = seed
        self._rate = rate
        self._faults = tuple(faults)

    def __call__(self, call: Call) -> Fault | None:
        """Return what goes wrong with *call*."""
        drawn = random.Random(f"{self._seed}/{call.service}/{call.owner}/{call.number}")  # noqa: S311  # no secret
        return drawn.choice(self._faults) if drawn.random() < self._rate else None


class Plans:
    """A plan for each owner, so that concurrent tests share one proxy; safe from any thread."""

    def __init__(self, default: Plan = no_faults) -> None:
        """Prepare the plans; *default* is for owners without one."""
        self._default = default
        self._of: dict[str, Plan] = {}
        self._guard = threading.Lock()

    def __call__(self, call: Call) -> Fault | None:
        """Return what the plan of the call's owner says."""
        with self._guard:
            plan = self._of.get(call.owner, self._default)
        return plan(call)

    def set(self, owner: str, plan: Plan) -> None:
        """Give *owner* a plan instead of the one it has."""
        with self._guard:
            self._of[owner] = plan

    def drop(self, owner: str) -> None:
        """Leave *owner* to the default again."""
        with self._guard:
            self._of.pop(owner, None)

    @contextlib.contextmanager
    def of(self, owner: str, plan: Plan) -> Iterator[None]:
        """Give *owner* a plan for the length of a ``with`` block."""
        self.set(owner, plan)
        try:
            yield
        finally:
            self.drop(owner)


@dataclass(slots=True)
class FaultFigures:
    """The number of calls, and of injected faults."""

    calls: Counter[str] = field(default_factory=Counter)
    """Method -> how often."""
    faults: Counter[str] = field(default_factory=Counter)
    """Kind of fault, such as ``refuse`` or ``lose`` -> how often."""


class Injector:
    """Numbers the calls to one service, asks a plan about each, and counts; safe from any thread.

    Proxies and wrapped services are such.
    """

    def __init__(self, service: Service, plan: Plan) -> None:
        self.plan = plan
        """What goes wrong with each call; it may be replaced at any time."""
        self._service = service
        self._numbers: Counter[str] = Counter()
        self._figures = FaultFigures()
        self._guard = threading.Lock()

    def next(self, owner: str, method: str) -> Fault | None:
        """Return what goes wrong with the next call of *owner*."""
        with self._guard:
            call = Call(service=self._service, owner=owner, method=method, number=self._numbers[owner])
            self._numbers[owner] += 1
            self._figures.calls[method] += 1
        fault = self.plan(call)
        if fault is not None:
            with self._guard:
                self._figures.faults[fault.kind] += 1
        return fault

    @property
    def figures(self) -> FaultFigures:
        """The number of calls by method, and of injected faults; the caller's own copy."""
        with self._guard:
            return FaultFigures(calls=self._figures.calls.copy(), faults=self._figures.faults.copy())
