"""A short run keeps every promise, and the checker finds each damage that is done to what it reads."""

import hashlib
import json
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.testing.emulators import Emulator
from tests.chaos.checker import check
from tests.chaos.conftest import OPERATIONS, SEED, Written
from tests.chaos.journal import Operation
from tests.chaos.places import APP, USER, WITH_BUCKET
from tests.chaos.raw_store import RawStore, StoredObject, read_folder
from tests.chaos.report import figures
from tests.chaos.run import Chaos, Cloud, Settings, run

MEMORIES = f"{WITH_BUCKET}_apps/{APP}/{WITH_BUCKET}_users/{USER}/{WITH_BUCKET}_memories/head"
REPORT = f"{APP}/{USER}/shared/report"


@dataclass
class Store:
    """What the checker reads of a store, to be damaged."""

    documents: dict[str, Mapping[str, Any]]
    objects: dict[str, StoredObject]
    operations: list[Operation]

    def look(self) -> set[str]:
        """Return the kinds of what the checker finds."""
        found = check(RawStore(self.documents, self.objects), self.operations)
        return {violation.kind for violation in found.violations}

    def session(self, fits: Callable[[Mapping[str, Any]], object]) -> tuple[str, Mapping[str, Any]]:
        """Return path and fields of a session that *fits*, and that its writers made: no fork, none restored.

        What is damaged in those is reported in other words, as of events that a fork shares with its source.
        """
        return next(
            (path, fields)
            for path, fields in self.documents.items()
            if path.split("/")[-2] == f"{WITH_BUCKET}_sessions"
            and not fields.keys() & {"origin", "restores"}
            and fits(fields)
        )

    def change(self, path: str, fields: Mapping[str, Any]) -> None:
        """Set fields of a document."""
        self.documents[path] = {**self.documents[path], **fields}

    def change_state(self, path: str, key: str, value: Any) -> None:
        """Set a value of a document's state."""
        self.change(path, {"state": {**self.documents[path]["state"], key: value}})

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        self.objects[name] = StoredObject(hashlib.sha256(data).hexdigest(), len(data), data)

    def payloads(self) -> list[str]:
        """Return the names of all payloads in the bucket."""
        return [name for name in self.objects if name.startswith(f"{WITH_BUCKET}-payloads/")]


@pytest.fixture
def store(written: Written) -> Store:
    """What writers stored one after the other."""
    folder, operations = written
    found = read_folder(folder)
    return Store(dict(found.documents), dict(found.objects), operations)


def test_nothing_is_lost_and_nothing_stored_twice(
    firestore_emulator: Emulator, storage_emulator: Emulator, tmp_path: Path
) -> None:
    """While workers are killed, connections cut, and requests refused, lost and late."""

    def goes_on(chaos: Chaos) -> bool:
        return chaos.begun < OPERATIONS or not chaos.blows["kill"]

    name = f"chaos-{uuid.uuid4().hex[:12]}"
    cloud = Cloud(
        project=f"demo-{name}",
        bucket=name,
        firestore=firestore_emulator.address,
        storage=storage_emulator.address,
    )
    chaos = run(Settings(seed=SEED, goes_on=goes_on, store=cloud, journals=tmp_path))
    found = figures(chaos)

    assert [] == chaos.verdict.violations
    assert 0 == found["violations"]["lost"] == found["violations"]["duplicated"]
    assert found["outcomes"]["acknowledged"] > 50
    assert found["faults"]
    assert json.loads(json.dumps(found)) == found


def cut_an_event_out(store: Store) -> None:
    """Remove one event of a tail that was acknowledged."""
    path, fields = store.session(lambda one: len(one["tail"]) > 1)
    tail = without_one_acknowledged(store, fields["tail"])
    size = sum(len(text.encode()) for text in tail)
    store.change(path, {"tail": tail, "rev": fields["rev"] - 1, "tail_bytes": size})


def without_one_acknowledged(store: Store, tail: list[str]) -> list[str]:
    """Return *tail* without its first event that was acknowledged."""
    acknowledged = {
        operation.intent["event"]
        for operation in store.operations
        if operation.kind == "append" and operation.outcome == "acknowledged"
    }
    index = next(number for number, text in enumerate(tail) if json.loads(text)["id"] in acknowledged)
    return tail[:index] + tail[index + 1 :]


def store_an_event_twice(store: Store) -> None:
    """Append the first event of a tail again, as if it had been delivered twice."""
    path, fields = store.session(lambda one: len(one["tail"]) > 1)
    tail = [*fields["tail"], fields["tail"][0]]
    size = sum(len(text.encode()) for text in tail)
    store.change(path, {"tail": tail, "rev": fields["rev"] + 1, "tail_bytes": size})


def exchange_two_events(store: Store) -> None:
    """Turn a tail round."""
    path, fields = store.session(lambda one: len(one["tail"]) > 2)
    store.change(path, {"tail": fields["tail"][::-1]})


def change_a_session(store: Store) -> None:
    """Set a value of session state that no event set."""
    path, _ = store.session(lambda one: "k0" in one["state"])
    store.change_state(path, "k0", "other")


def forget_a_key_of_a_session(store: Store) -> None:
    """Remove a value of session state."""
    path, fields = store.session(lambda one: "k0" in one["state"])
    store.change(path, {"state": {key: value for key, value in fields["state"].items() if key != "k0"}})


def change_the_app(store: Store) -> None:
    """Set a value of app state to one that its writer never sent."""
    path = f"{WITH_BUCKET}_apps/{APP}"
    store.change_state(path, next(iter(store.documents[path]["state"])), "other")


def change_the_user(store: Store) -> None:
    """Remove the values of user state that creations set: of some it is unknown whether they did."""
    path = f"{WITH_BUCKET}_apps/{APP}/{WITH_BUCKET}_users/{USER}"
    state = store.documents[path]["state"]
    kept = {name: value for name, value in state.items() if not name.startswith("made-own")}
    assert kept != state
    store.change(path, {"state": kept})


def remove_a_session(store: Store) -> None:
    """Delete a session that nobody deleted."""
    path, _ = store.session(lambda one: one["id"].startswith("shared"))
    del store.documents[path]


def remove_a_segment(store: Store) -> None:
    """Delete one that a header counts."""
    path, fields = store.session(lambda one: one["sealed"])
    del store.documents[f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0"]


def empty_a_segment(store: Store) -> None:
    """Take an event out of a segment and leave its count."""
    path, fields = store.session(lambda one: one["sealed"])
    segment = f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0"
    texts = json.loads(zlib.decompress(store.documents[segment]["body"]))
    store.change(segment, {"body": zlib.compress(json.dumps(texts[:-1]).encode())})


def exchange_the_chain(store: Store) -> None:
    """Put another head in the place of that of a session's chain."""
    path, fields = store.session(lambda one: one["tail"])
    store.change(path, {"chain": fields["chain"][::-1]})


def break_a_segments_chain(store: Store) -> None:
    """Let a segment begin with another head."""
    path, fields = store.session(lambda one: one["sealed"])
    segment = f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0"
    store.change(segment, {"chain_begin": fields["chain"]})


def forget_the_initial_state(store: Store) -> None:
    """Empty what a session was created with."""
    path, _ = store.session(lambda one: one.get("initial"))
    store.change(path, {"initial": {}})


def miscount(store: Store) -> None:
    """Raise the number of appends without one."""
    path, fields = store.session(lambda one: one["tail"])
    store.change(path, {"rev": fields["rev"] + 1})


def lose_memories(store: Store) -> None:
    """Empty the tail of a user's memories."""
    store.change(MEMORIES, {"tail": []})


def store_a_memory_twice(store: Store) -> None:
    """Repeat the newest one."""
    tail = store.documents[MEMORIES]["tail"]
    store.change(MEMORIES, {"tail": [*tail, tail[-1]]})


def remove_a_version(store: Store) -> None:
    """Delete the first version of an artifact."""
    del store.objects[f"{REPORT}/0"]


def save_a_version_twice(store: Store) -> None:
    """Copy the first version of an artifact to the number after its last."""
    count = sum(name.startswith(f"{REPORT}/") for name in store.objects)
    store.objects[f"{REPORT}/{count}"] = store.objects[f"{REPORT}/0"]


def exchange_bytes(store: Store) -> None:
    """Put other bytes in the place of a version's."""
    store.put(f"{REPORT}/0", b"other")


def remove_payloads(store: Store) -> None:
    """Delete all payloads in the bucket."""
    for name in store.payloads():
        del store.objects[name]


def damage_payloads(store: Store) -> None:
    """Put other bytes in the place of all payloads in the bucket."""
    for name in store.payloads():
        store.put(name, b"other")


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (cut_an_event_out, "lost"),
        (store_an_event_twice, "duplicated"),
        (exchange_two_events, "out of order"),
        (change_a_session, "state differs"),
        (forget_a_key_of_a_session, "state differs"),
        (change_the_app, "shared state differs"),
        (change_the_user, "shared state differs"),
        (remove_a_session, "lost session"),
        (remove_a_segment, "segment disagrees"),
        (empty_a_segment, "segment disagrees"),
        (miscount, "header disagrees"),
        (exchange_the_chain, "header disagrees"),
        (break_a_segments_chain, "segment disagrees"),
        (forget_the_initial_state, "initial state differs"),
        (lose_memories, "lost"),
        (store_a_memory_twice, "duplicated"),
        (remove_a_version, "lost"),
        (save_a_version_twice, "duplicated"),
        (exchange_bytes, "other bytes"),
        (remove_payloads, "dangling reference"),
        (damage_payloads, "damaged payload"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_the_checker_finds_a_damage(store: Store, damage: Callable[[Store], None], kind: str) -> None:
    """Each by its kind, and nothing before."""
    assert set() == store.look()
    damage(store)

    assert kind in store.look()


@pytest.mark.parametrize(
    "module",
    [
        "checker",
        "journal",
        "memory_checks",
        "raw_store",
        "session_checks",
        "turn_checks",
        "version_checks",
        "../support/folder",
    ],
)
def test_the_checker_shares_nothing_with_the_library(module: str) -> None:
    """What both got wrong in the same way would never be found."""
    source = (Path(__file__).parent / f"{module}.py").read_text()

    assert "gcp_adk_store" not in source
