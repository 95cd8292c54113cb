"""Let workers write through faulty proxies or into a folder, kill them, and check what is stored then."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, create_bucket
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import no_faults
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.chaos.checker import check
from tests.chaos.journal import Operation, read_journals
from tests.chaos.raw_store import read_folder, read_store
from tests.chaos.verdict import Verdict
from tests.chaos.weather import Weather
from tests.chaos.worker import Task
from tests.chaos.workers import Workers

_BETWEEN_BLOWS: Final = 60
"""Operations that begin from one to the next, on average: a slow machine changes nothing."""
_STORM: Final = (10, 60)
"""Operations that begin in it."""
_BLOWS: Final = {"kill": 5, "cut of Firestore": 2, "cut of Cloud Storage": 2, "storm": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A store on the emulators."""

    project: str
    bucket: str
    firestore: str
    """``host:port`` of the emulator."""
    storage: str
    """``http://host:port`` of the emulator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is to be."""

    seed: int
    goes_on: "Callable[[Chaos], bool]"
    """Asked whenever operations begin."""
    store: "Cloud | Path"
    """Where workers write: on the emulators, or in a folder."""
    journals: Path
    """Folder for the workers' journals, empty."""
    workers: int = 3
    writers: int = 4
    """Tasks of each worker."""
    rate: float = 0.06
    """Share of the calls that go wrong while there is no storm."""


@dataclass(slots=True)
class Chaos:
    """What happened, and what was found."""

    seed: int
    begun: int = 0
    """Operations of workers."""
    blows: Counter[str] = field(default_factory=Counter)
    """Kills, cuts and storms."""
    calls: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    operations: Sequence[Operation] = ()
    verdict: Verdict = field(default_factory=Verdict)


def run(settings: Settings) -> Chaos:
    """Run and check.

    ``FIRESTORE_EMULATOR_HOST`` of this process must name the emulator itself, if the store is on it.
    """
    chaos = Chaos(seed=settings.seed)
    if isinstance(settings.store, Cloud):
        _run_on_emulators(settings, settings.store, chaos)
    else:
        _run_in_a_folder(settings, chaos)
    chaos.operations = read_journals(settings.journals)
    chaos.verdict = look(settings.store, chaos.operations)
    return chaos


def look(store: Cloud | Path, operations: Sequence[Operation]) -> Verdict:
    """Check what is stored now."""
    if isinstance(store, Path):
        return check(read_folder(store), operations)
    found = read_store(project=store.project, storage_url=store.storage, bucket=store.bucket)
    return check(found, operations)


def _run_in_a_folder(settings: Settings, chaos: Chaos) -> None:
    """Kill workers; nothing else goes wrong with a folder."""
    with _workers(settings, {}).at_work(settings.workers) as workers:
        for name in _blows(settings, chaos, workers, ["kill"]):
            if workers.kill_one():
                chaos.blows[name] += 1
        workers.end()


def _run_on_emulators(settings: Settings, store: Cloud, chaos: Chaos) -> None:
    create_bucket(store.bucket, store.storage)
    weather = Weather(settings.seed, settings.rate)
    with (
        FirestoreProxy(store.firestore, weather) as firestore,
        StorageProxy(store.storage, weather) as storage,
        _workers(
            settings, {FIRESTORE_VARIABLE: firestore.address, STORAGE_VARIABLE: storage.address}
        ).at_work(settings.workers) as workers,
    ):
        blow = {
            "kill": workers.kill_one,
            "cut of Firestore": firestore.cut_connections,
            "cut of Cloud Storage": storage.cut_connections,
            "storm": weather.storm,
        }

        for name in _blows(settings, chaos, workers, list(_BLOWS), weather):
            if blow[name]():
                chaos.blows[name] += 1
        firestore.plan = storage.plan = no_faults
        workers.end()
    # The proxies have ended, each with its last call: what was delayed has arrived.
    for prefix, proxy in (("firestore", firestore), ("storage", storage)):
        figures = proxy.figures
        chaos.calls.update({f"{prefix} {name}": count for name, count in figures.calls.items()})
        chaos.faults.update({f"{prefix} {name}": count for name, count in figures.faults.items()})


def _workers(settings: Settings, environ: Mapping[str, str]) -> Workers:
    store = settings.store
    task = Task(
        name="",
        seed=settings.seed,
        place=str(store) if isinstance(store, Path) else (store.project, store.bucket),
        journals=settings.journals,
        writers=settings.writers,
        environ=environ,
    )
    return Workers(task, Random(f"{settings.seed}/workers"))  # noqa: S311  # no secret


def _blows(
    settings: Settings, chaos: Chaos, workers: Workers, names: list[str], weather: Weather | None = None
) -> Iterator[str]:
    """Yield what is to happen when it is time, as long as the run goes on; after a storm it clears up."""
    random = Random(settings.seed)  # noqa: S311  # no secret
    following = random.expovariate(1 / _BETWEEN_BLOWS)
    clears_up = 0.0
    while settings.goes_on(chaos):
        chaos.begun += workers.begun()
        if weather is not None and chaos.begun >= clears_up:
            weather.clear()
        while chaos.begun >= following:
            following += random.expovariate(1 / _BETWEEN_BLOWS)
            (name,) = random.choices(names, weights=[_BLOWS[name] for name in names])
            if name == "storm":
                clears_up = chaos.begun + random.uniform(*_STORM)
            yield name
