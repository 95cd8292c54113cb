"""Workloads of the simulation keep every promise in real processes, on emulators and in a folder."""

import json
import uuid
from pathlib import Path

import pytest

from tests.chaos.run import Emulators, Schedule, run
from tests.chaos.worker import RealWorld, at
from tests.chaos.workloads import WORKLOADS
from tests.faults.world import meaning
from tests.simulation.journal import Call, Journal, Outcome
from tests.support.folder import read_documents
from tests.support.lengths import at_length
from tests.support.stores import STORES, open_store

SEED, STEPS = 21, at_length(3, 8)


@pytest.mark.parametrize("where", STORES)
async def test_nothing_is_lost_and_nothing_stored_twice(
    request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    """While workers are killed, and on emulators connections cut, and requests refused, lost and late."""
    store: Emulators | Path = tmp_path / "store"
    if where == "emulators":
        firestore, storage = (
            request.getfixturevalue(f"{name}_emulator") for name in ("firestore", "storage")
        )
        name = f"chaos-{uuid.uuid4().hex[:12]}"
        store = Emulators(name=name, firestore=firestore.address, storage=storage.address)
    schedule = await run(SEED, store, logs=tmp_path, steps=STEPS)
    outcomes = [call.outcome for call in schedule.calls]

    assert [] == schedule.wrong
    assert {*WORKLOADS} == {name for name, journal in schedule.journals.items() if journal.calls}
    assert outcomes.count(Outcome.DONE) > len(outcomes) * 0.4
    assert schedule.blows["kill"]
    assert bool(schedule.faults) == (where == "emulators")
    if isinstance(store, Path):
        require_read_alike(store, schedule)


def require_read_alike(folder: Path, schedule: Schedule) -> None:
    """Require that what files hold after docs/data-model.md, without the library, is what it read.

    What both got wrong in the same way would never be found.
    """
    for name in ("sessions-raise", "sessions-merge"):
        documents = read_documents(Path(at(folder, name)["folder"]))
        for path, fields in meaning(documents).items():
            if "events" not in fields:
                continue
            stored = [json.loads(text)["id"] for text in fields["events"]]
            appended = schedule.journals[name].of("append", path.rpartition("/")[2])
            sent = {call.given: call.outcome for call in appended}
            assert fields["chain"], f"{path}: its chain is not that of its events"
            assert {one for one, outcome in sent.items() if outcome is Outcome.DONE} <= {*stored}
            assert sorted(stored) == sorted(
                {*stored} & {one for one in sent if sent[one] is not Outcome.REFUSED}
            )


@pytest.mark.parametrize(
    ("workload", "kind", "of", "given", "result"),
    [
        ("sessions-raise", "append", "one", "never", None),
        ("turns-event", "append", "session", "nevera 1", None),
        ("points", "append", "source", ("never", ()), (("never",), ())),
        ("artifacts", "save", "kept", "never", 0),
        ("memories", "add", "user", ["never"], None),
    ],
)
async def test_what_was_acknowledged_and_is_not_there_is_found(
    tmp_path: Path, workload: str, kind: str, of: str, given: object, result: object
) -> None:
    """By the check of each workload, on the store that it has in the real run."""
    journal = Journal(RealWorld(SEED))  # type: ignore[arg-type]  # as far as it is asked
    journal.calls = [Call("w0", kind, of, 0.0, given, 1.0, Outcome.DONE, result)]
    async with open_store(at(tmp_path, workload)) as store:
        await WORKLOADS[workload].prepare(store)
        with pytest.raises(AssertionError, match=r"is lost|missed never|no order explains"):
            await WORKLOADS[workload].check(journal, store)
