"""A short run keeps every promise, and the checker finds each damage that is done to its store by hand."""

import asyncio
import contextlib
import json
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from google.cloud.firestore import Client

from gcp_adk_store.testing.emulators import Emulator, create_bucket
from tests.chaos.journal import Operation, read_journals
from tests.chaos.places import APP, USER, WITH_BUCKET
from tests.chaos.raw_store import Generations
from tests.chaos.report import figures
from tests.chaos.run import Chaos, Cloud, Settings, look, run
from tests.chaos.worker import Task, work_alone

SEED, OPERATIONS, STEPS = 21, 150, 60
MEMORIES = f"{WITH_BUCKET}_apps/{APP}/{WITH_BUCKET}_users/{USER}/{WITH_BUCKET}_memories/head"


class Store:
    """The emulators' content, to be damaged with Google's client and plain HTTP, and repaired again."""

    def __init__(self, cloud: Cloud, operations: Sequence[Operation], client: Client) -> None:
        self.cloud = cloud
        self.operations = operations
        self.client = client
        self._objects = f"{cloud.storage}/storage/v1/b/{cloud.bucket}/o"
        self._undo = contextlib.ExitStack()
        self._known: Generations = {}

    def look(self) -> set[str]:
        """Return the kinds of what the checker finds now."""
        found = look(self.cloud, self.operations, self._known).violations
        return {violation.kind for violation in found}

    def repair(self) -> None:
        """Put everything back."""
        self._undo.close()

    def session(self, fits: Callable[[dict[str, Any]], object]) -> tuple[str, dict[str, Any]]:
        """Return path and fields of a session that *fits*, and that its writers made: no fork, none restored.

        What is damaged in those is told in other words, as of the events that a fork shares with its source.
        """
        found = self.client.collection_group(f"{WITH_BUCKET}_sessions").stream()
        made = ((one.reference.path, one.to_dict() or {}) for one in found)
        return next(
            (path, fields)
            for path, fields in made
            if not fields.keys() & {"origin", "restores"} and fits(fields)
        )

    def fields(self, path: str) -> dict[str, Any]:
        """Return the fields of a document."""
        return self.client.document(path).get().to_dict() or {}

    def change(self, path: str, fields: dict[str, Any]) -> None:
        """Set fields of a document."""
        reference = self.client.document(path)
        self._undo.callback(reference.set, self.fields(path))
        reference.update(fields)

    def remove(self, path: str) -> None:
        """Delete a document."""
        reference = self.client.document(path)
        self._undo.callback(reference.set, self.fields(path))
        reference.delete()

    def objects(self, start: str) -> list[str]:
        """Return the names of objects."""
        listed = requests.get(self._objects, params={"prefix": start}, timeout=60).json()
        return [item["name"] for item in listed["items"]]

    def data(self, name: str) -> bytes:
        """Return an object's bytes."""
        return requests.get(self._url(name), params={"alt": "media"}, timeout=60).content

    def add_object(self, name: str, data: bytes) -> None:
        """Write an object where there is none."""
        self._undo.callback(self._delete, name)
        self._put(name, data)

    def remove_object(self, name: str) -> None:
        """Delete an object."""
        self._undo.callback(self._put, name, self.data(name))
        self._delete(name)

    def replace_object(self, name: str, data: bytes) -> None:
        """Put other bytes in the place of an object's."""
        self._undo.callback(self._put, name, self.data(name))
        self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        upload = self._objects.replace("/storage/", "/upload/storage/")
        asked = {"uploadType": "media", "name": name}
        requests.post(upload, params=asked, data=data, timeout=60).raise_for_status()

    def _delete(self, name: str) -> None:
        requests.delete(self._url(name), timeout=60).raise_for_status()

    def _url(self, name: str) -> str:
        return f"{self._objects}/{quote(name, safe='')}"


def new_cloud(firestore_emulator: Emulator, storage_emulator: Emulator) -> Cloud:
    """Return a store on the emulators that nobody has seen."""
    name = f"chaos-{uuid.uuid4().hex[:12]}"
    return Cloud(
        project=f"demo-{name}",
        bucket=name,
        firestore=firestore_emulator.address,
        storage=storage_emulator.address,
    )


@pytest.fixture(scope="module")
def written(
    firestore_emulator: Emulator, storage_emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """What writers stored one after the other."""
    cloud = new_cloud(firestore_emulator, storage_emulator)
    create_bucket(cloud.bucket, cloud.storage)
    journals = tmp_path_factory.mktemp("journals")
    task = Task(
        name="w0", seed=SEED, place=(cloud.project, cloud.bucket), journals=journals, writers=4, environ={}
    )
    asyncio.run(work_alone(task, STEPS))
    client = Client(project=cloud.project)
    yield Store(cloud, read_journals(journals), client)
    client.close()


@pytest.fixture
def store(written: Store) -> Iterator[Store]:
    """The store, repaired after the test."""
    yield written
    written.repair()


def test_nothing_is_lost_and_nothing_stored_twice(
    firestore_emulator: Emulator, storage_emulator: Emulator, tmp_path: Path
) -> None:
    """While workers are killed, connections cut, and requests refused, lost and late."""

    def goes_on(chaos: Chaos) -> bool:
        return chaos.begun < OPERATIONS or not chaos.blows["kill"]

    cloud = new_cloud(firestore_emulator, storage_emulator)
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
    store.change(path, {"state.k0": "other"})


def forget_a_key_of_a_session(store: Store) -> None:
    """Remove a value of session state."""
    path, fields = store.session(lambda one: "k0" in one["state"])
    store.change(path, {"state": {key: value for key, value in fields["state"].items() if key != "k0"}})


def change_the_app(store: Store) -> None:
    """Set a value of app state to one that its writer never sent."""
    path = f"{WITH_BUCKET}_apps/{APP}"
    key = next(iter(store.fields(path)["state"]))
    store.change(path, {f"state.`{key}`": "other"})


def change_the_user(store: Store) -> None:
    """Remove the values of user state that creations set: of some it is unknown whether they did."""
    path = f"{WITH_BUCKET}_apps/{APP}/{WITH_BUCKET}_users/{USER}"
    state = store.fields(path)["state"]
    kept = {name: value for name, value in state.items() if not name.startswith("made-own")}
    assert kept != state
    store.change(path, {"state": kept})


def remove_a_session(store: Store) -> None:
    """Delete a session that nobody deleted."""
    path, _ = store.session(lambda one: one["id"].startswith("shared"))
    store.remove(path)


def remove_a_segment(store: Store) -> None:
    """Delete one that a header counts."""
    path, fields = store.session(lambda one: one["sealed"])
    store.remove(f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0")


def empty_a_segment(store: Store) -> None:
    """Take an event out of a segment and leave its count."""
    path, fields = store.session(lambda one: one["sealed"])
    segment = f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0"
    texts = json.loads(zlib.decompress(store.fields(segment)["body"]))
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
    tail = store.fields(MEMORIES)["tail"]
    store.change(MEMORIES, {"tail": [*tail, tail[-1]]})


def remove_a_version(store: Store) -> None:
    """Delete the first version of an artifact."""
    store.remove_object(f"{APP}/{USER}/shared/report/0")


def save_a_version_twice(store: Store) -> None:
    """Copy the first version of an artifact to the number after its last."""
    names = store.objects(f"{APP}/{USER}/shared/report/")
    data = store.data(f"{APP}/{USER}/shared/report/0")
    store.add_object(f"{APP}/{USER}/shared/report/{len(names)}", data)


def exchange_bytes(store: Store) -> None:
    """Put other bytes in the place of a version's."""
    store.replace_object(f"{APP}/{USER}/shared/report/0", b"other")


def remove_payloads(store: Store) -> None:
    """Delete all payloads in the bucket."""
    for name in store.objects(f"{WITH_BUCKET}-payloads/"):
        store.remove_object(name)


def damage_payloads(store: Store) -> None:
    """Put other bytes in the place of all payloads in the bucket."""
    for name in store.objects(f"{WITH_BUCKET}-payloads/"):
        store.replace_object(name, b"other")


def remove_chunks(store: Store) -> None:
    """Delete all payloads in documents."""
    for chunk in store.client.collection_group("plain_chunks").stream():
        store.remove(chunk.reference.path)


@pytest.mark.sample(8)
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
        (remove_chunks, "dangling reference"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_the_checker_finds_a_damage(store: Store, damage: Callable[[Store], None], kind: str) -> None:
    """Each by its kind."""
    damage(store)

    assert kind in store.look()


def test_every_damage_was_mended(store: Store) -> None:
    """So none was found in the place of another."""
    assert [] == look(store.cloud, store.operations).violations


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
