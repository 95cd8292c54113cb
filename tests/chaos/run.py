"""One schedule in real processes: workers are killed, connections cut, requests refused, lost and late."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, create_bucket
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import Call as Request
from gcp_adk_store.testing.faults.plans import Cut, Delay, Fault, Lose, RandomFaults, Refuse, no_faults
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.chaos.worker import Place, Task, at
from tests.chaos.workers import Workers
from tests.chaos.workloads import WORKLOADS
from tests.simulation.fleet import LIMITS
from tests.simulation.journal import Call, Journal
from tests.support.stores import open_store

_SIZE: Final = 3
"""How many workers there are at a time."""
_BETWEEN_BLOWS: Final = 60
"""Calls that begin from one to the next, on average: a slow machine changes nothing."""
_STORM: Final = (10, 60)
"""Calls that begin in it."""
_WEIGHTS: Final = {"kill": 5, "cut of Firestore": 2, "cut of Cloud Storage": 2, "storm": 2}
_RATE: Final = 0.06
"""Share of the requests that go wrong while there is no storm."""
_LONGEST_DELAY_S: Final = 1.2
"""Longer than an attempt may take, so that requests arrive after their callers gave them up."""
_STORM_RATE: Final = 0.93
"""So that some calls fail until their deadline."""

_FAULTS: Final = (
    Refuse("UNAVAILABLE"),
    Refuse("RESOURCE_EXHAUSTED", retry_after_s=0.2),
    Refuse(503),
    Refuse(429),
    Lose(),
    Lose(),
    Cut(),
    Cut("request"),
    Delay(0.05),
    Delay(0.3),
    Delay(_LONGEST_DELAY_S),
)


class Weather:
    """A plan for both proxies; what a call meets depends on the seed, its number and the weather then."""

    def __init__(self, seed: int, rate: float) -> None:
        """Prepare the plan; *rate* is the share of calls that go wrong in fair weather."""
        self._fair = RandomFaults(seed, rate, _FAULTS)
        self._storm = RandomFaults(seed, _STORM_RATE, _FAULTS)
        self._storming = threading.Event()

    def __call__(self, call: Request) -> Fault | None:
        """Return what goes wrong with *call*; whose it is makes no difference."""
        plan = self._storm if self._storming.is_set() else self._fair
        return plan(replace(call, owner=""))

    def storm(self) -> bool:
        """Let most calls go wrong from now on; return whether that is new."""
        is_new = not self._storming.is_set()
        self._storming.set()
        return is_new

    def clear(self) -> None:
        """Let few calls go wrong from now on."""
        self._storming.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulators:
    """Where the emulators listen, and the beginning of the names of projects and buckets."""

    name: str
    firestore: str
    """``host:port``"""
    storage: str
    """``http://host:port``"""


@dataclass(slots=True)
class Schedule:
    """What happened in a schedule, and what was found."""

    journals: dict[str, Journal] = field(default_factory=dict)
    """By workload."""
    blows: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """The promises that were not kept."""

    @property
    def calls(self) -> list[Call]:
        """All calls."""
        return [call for journal in self.journals.values() for call in journal.calls]


async def run(seed: int, store: Emulators | Path, *, logs: Path, steps: int) -> Schedule:
    """Let each worker take so many *steps* of each workload, and check what is stored then.

    ``FIRESTORE_EMULATOR_HOST`` and ``STORAGE_EMULATOR_HOST`` of this process must name the emulators
    themselves, if the store is on them.
    """
    schedule = Schedule()
    place: Place = store if isinstance(store, Path) else (f"demo-{store.name}", store.name)
    for name, workload in WORKLOADS.items():
        if isinstance(store, Emulators):
            await asyncio.to_thread(create_bucket, at(place, name)["bucket"], store.storage)
        async with open_store(at(place, name), session_limits=LIMITS) as plain:
            await workload.prepare(plain)
    task = Task(name="", seed=seed, place=place, steps=steps, logs=logs, environ={})
    if isinstance(store, Emulators):
        await asyncio.to_thread(_work_on_emulators, task, store, schedule)
    else:
        await asyncio.to_thread(_work, task, schedule, blows={})
    for name, workload in WORKLOADS.items():
        async with open_store(at(place, name), session_limits=LIMITS) as plain:
            try:
                await workload.check(schedule.journals[name], plain)
            except AssertionError as exc:
                schedule.wrong.append(f"{name}: {exc}")
    return schedule


def _work_on_emulators(task: Task, store: Emulators, schedule: Schedule) -> None:
    weather = Weather(task.seed, _RATE)
    with (
        FirestoreProxy(store.firestore, weather) as firestore,
        StorageProxy(store.storage, weather) as storage,
    ):
        blows = {
            "cut of Firestore": firestore.cut_connections,
            "cut of Cloud Storage": storage.cut_connections,
            "storm": weather.storm,
        }
        environ = {FIRESTORE_VARIABLE: firestore.address, STORAGE_VARIABLE: storage.address}
        _work(replace(task, environ=environ), schedule, blows, weather)
        firestore.plan = storage.plan = no_faults
    # The proxies have ended, each with its last request: what was delayed has arrived.
    for prefix, proxy in (("firestore", firestore), ("storage", storage)):
        figures = proxy.figures
        schedule.requests.update({f"{prefix} {name}": count for name, count in figures.calls.items()})
        schedule.faults.update({f"{prefix} {name}": count for name, count in figures.faults.items()})


def _work(
    task: Task,
    schedule: Schedule,
    blows: Mapping[str, Callable[[], object]],
    weather: Weather | None = None,
) -> None:
    """Start workers, and deal blows until all have ended; the first one is a kill."""
    random = Random(task.seed)  # noqa: S311  # no secret
    following, clears_up = 10.0, 0.0
    workers = Workers(task, _SIZE)
    try:
        blows = {"kill": workers.kill_one, **blows}
        weights = [_WEIGHTS[name] for name in blows]
        for begun in workers.hear():
            if weather is not None and begun >= clears_up:
                weather.clear()
            if begun >= following:
                following = begun + random.expovariate(1 / _BETWEEN_BLOWS)
                (name,) = random.choices(list(blows), weights) if schedule.blows["kill"] else ["kill"]
                if name == "storm":
                    clears_up = begun + random.uniform(*_STORM)
                schedule.blows[name] += bool(blows[name]())
    finally:
        workers.end()
    for name in WORKLOADS:
        schedule.journals[name] = workers.journal(name)
