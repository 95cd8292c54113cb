"""Short runs keep every promise, and the checker finds each damage that is done to what it reads."""

import asyncio
import hashlib
import json
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import Store
from tests.chaos.checker import check
from tests.chaos.conftest import OPERATIONS, SEED, WORKERS, Written
from tests.chaos.journal import Operation
from tests.chaos.places import APP, PREFIXES, TURNED, USER, WITH_BUCKET
from tests.chaos.raw_store import RawSession, RawStore, StoredObject, read_folder, sessions
from tests.chaos.report import figures
from tests.chaos.run import Chaos, Cloud, Settings, look, run
from tests.chaos.turn_checks import check_turns
from tests.support.stores import STORES

MEMORIES = f"{WITH_BUCKET}_apps/{APP}/{WITH_BUCKET}_users/{USER}/{WITH_BUCKET}_memories/head"
REPORT = f"{APP}/{USER}/shared/report"


@dataclass
class Contents:
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
def store(written: Written) -> Contents:
    """What writers stored one after the other."""
    folder, operations = written
    found = read_folder(folder)
    return Contents(dict(found.documents), dict(found.objects), operations)


def cloud(request: pytest.FixtureRequest) -> Cloud:
    """Return a store of its own on the emulators."""
    name = f"chaos-{uuid.uuid4().hex[:12]}"
    return Cloud(
        project=f"demo-{name}",
        bucket=name,
        firestore=request.getfixturevalue("firestore_emulator").address,
        storage=request.getfixturevalue("storage_emulator").address,
    )


@pytest.mark.parametrize("where", STORES)
async def test_nothing_is_lost_and_nothing_stored_twice(
    request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    """While workers are killed, and on emulators connections cut, and requests refused, lost and late.

    Of a folder, the library's own check agrees with the checker.
    """

    def goes_on(chaos: Chaos) -> bool:
        return chaos.begun < OPERATIONS or not chaos.blows["kill"]

    folder, journals = tmp_path / "store", tmp_path / "journals"
    journals.mkdir()
    store = folder if where == "folder" else cloud(request)
    settings = Settings(seed=SEED, goes_on=goes_on, store=store, journals=journals, workers=WORKERS)
    chaos = await asyncio.to_thread(run, settings)
    found = figures(chaos)

    assert [] == chaos.verdict.violations
    assert 0 == found["violations"]["lost"] == found["violations"]["duplicated"]
    assert found["outcomes"]["acknowledged"] > OPERATIONS * 0.4
    assert bool(found["faults"]) == (where == "emulators")
    assert json.loads(json.dumps(found)) == found
    for prefix in PREFIXES if where == "folder" else ():
        async with Store.local(folder, prefix=prefix) as opened:
            assert [] == [fault async for fault in opened.check(full=True)]


def test_the_writers_store_each_kind_of_thing(written: Written) -> None:
    """Each that the checker knows; it finds no fault with them."""
    folder, operations = written
    verdict = look(folder, operations)

    assert [] == verdict.violations
    assert {"enqueue", "stop"} <= {operation.kind for operation in operations}
    for kind in ("restores", "forks", "titles", "turns", "segments", "memories", "versions"):
        assert verdict.stored[kind] > 0
    assert verdict.stored["payloads in the bucket"] > 0


def cut_an_event_out(store: Contents) -> None:
    """Remove one event of a tail that was acknowledged."""
    path, fields = store.session(lambda one: len(one["tail"]) > 1)
    tail = without_one_acknowledged(store, fields["tail"])
    size = sum(len(text.encode()) for text in tail)
    store.change(path, {"tail": tail, "rev": fields["rev"] - 1, "tail_bytes": size})


def without_one_acknowledged(store: Contents, tail: list[str]) -> list[str]:
    """Return *tail* without its first event that was acknowledged."""
    acknowledged = {
        operation.intent["event"]
        for operation in store.operations
        if operation.kind == "append" and operation.outcome == "acknowledged"
    }
    index = next(number for number, text in enumerate(tail) if json.loads(text)["id"] in acknowledged)
    return tail[:index] + tail[index + 1 :]


def store_an_event_twice(store: Contents) -> None:
    """Append the first event of a tail again, as if it had been delivered twice."""
    path, fields = store.session(lambda one: len(one["tail"]) > 1)
    tail = [*fields["tail"], fields["tail"][0]]
    size = sum(len(text.encode()) for text in tail)
    store.change(path, {"tail": tail, "rev": fields["rev"] + 1, "tail_bytes": size})


def exchange_two_events(store: Contents) -> None:
    """Turn a tail round."""
    path, fields = store.session(lambda one: len(one["tail"]) > 2)
    store.change(path, {"tail": fields["tail"][::-1]})


def change_a_session(store: Contents) -> None:
    """Set a value of session state that no event set."""
    path, _ = store.session(lambda one: "k0" in one["state"])
    store.change_state(path, "k0", "other")


def forget_a_key_of_a_session(store: Contents) -> None:
    """Remove a value of session state."""
    path, fields = store.session(lambda one: "k0" in one["state"])
    store.change(path, {"state": {key: value for key, value in fields["state"].items() if key != "k0"}})


def change_the_app(store: Contents) -> None:
    """Set a value of app state to one that its writer never sent."""
    path = f"{WITH_BUCKET}_apps/{APP}"
    store.change_state(path, next(iter(store.documents[path]["state"])), "other")


def change_the_user(store: Contents) -> None:
    """Remove the values of user state that creations set: of some it is unknown whether they did."""
    path = f"{WITH_BUCKET}_apps/{APP}/{WITH_BUCKET}_users/{USER}"
    state = store.documents[path]["state"]
    kept = {name: value for name, value in state.items() if not name.startswith("made-own")}
    assert kept != state
    store.change(path, {"state": kept})


def remove_a_session(store: Contents) -> None:
    """Delete a session that nobody deleted."""
    path, _ = store.session(lambda one: one["id"].startswith("shared"))
    del store.documents[path]


def remove_a_segment(store: Contents) -> None:
    """Delete one that a header counts."""
    path, fields = store.session(lambda one: one["sealed"])
    del store.documents[f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0"]


def empty_a_segment(store: Contents) -> None:
    """Take an event out of a segment and leave its count."""
    path, fields = store.session(lambda one: one["sealed"])
    segment = f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0"
    texts = json.loads(zlib.decompress(store.documents[segment]["body"]))
    store.change(segment, {"body": zlib.compress(json.dumps(texts[:-1]).encode())})


def exchange_the_chain(store: Contents) -> None:
    """Put another head in the place of that of a session's chain."""
    path, fields = store.session(lambda one: one["tail"])
    store.change(path, {"chain": fields["chain"][::-1]})


def break_a_segments_chain(store: Contents) -> None:
    """Let a segment begin with another head."""
    path, fields = store.session(lambda one: one["sealed"])
    segment = f"{path}/{WITH_BUCKET}_segments/{fields['epoch']}-0"
    store.change(segment, {"chain_begin": fields["chain"]})


def forget_the_initial_state(store: Contents) -> None:
    """Empty what a session was created with."""
    path, _ = store.session(lambda one: one.get("initial"))
    store.change(path, {"initial": {}})


def miscount(store: Contents) -> None:
    """Raise the number of appends without one."""
    path, fields = store.session(lambda one: one["tail"])
    store.change(path, {"rev": fields["rev"] + 1})


def lose_memories(store: Contents) -> None:
    """Empty the tail of a user's memories."""
    store.change(MEMORIES, {"tail": []})


def store_a_memory_twice(store: Contents) -> None:
    """Repeat the newest one."""
    tail = store.documents[MEMORIES]["tail"]
    store.change(MEMORIES, {"tail": [*tail, tail[-1]]})


def remove_a_version(store: Contents) -> None:
    """Delete the first version of an artifact."""
    del store.objects[f"{REPORT}/0"]


def save_a_version_twice(store: Contents) -> None:
    """Copy the first version of an artifact to the number after its last."""
    count = sum(name.startswith(f"{REPORT}/") for name in store.objects)
    store.objects[f"{REPORT}/{count}"] = store.objects[f"{REPORT}/0"]


def exchange_bytes(store: Contents) -> None:
    """Put other bytes in the place of a version's."""
    store.put(f"{REPORT}/0", b"other")


def remove_payloads(store: Contents) -> None:
    """Delete all payloads in the bucket."""
    for name in store.payloads():
        del store.objects[name]


def damage_payloads(store: Contents) -> None:
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
def test_the_checker_finds_a_damage(store: Contents, damage: Callable[[Contents], None], kind: str) -> None:
    """Each by its kind, and nothing before."""
    assert set() == store.look()
    damage(store)

    assert kind in store.look()


def interleave(session: RawSession, operations: list[Operation]) -> None:
    """Put the last event of a turn after the first of the next."""
    at = next(n for n in range(1, len(session.events)) if starts_turn(session, n))
    session.events[at - 1 : at + 1] = session.events[at - 1 : at + 1][::-1]
    del operations


def starts_turn(session: RawSession, at: int) -> bool:
    """Return whether the turn of an event begins there, and the one before it has more than one event."""
    names = [event.invocation for event in session.events]
    return names[at] != names[at - 1] and names.count(names[at - 1]) > 1


def exchange_turns(session: RawSession, operations: list[Operation]) -> None:
    """Turn all turns round."""
    names = list(dict.fromkeys(event.invocation for event in session.events))
    session.events.sort(key=lambda event: -names.index(event.invocation))
    del operations


def remove_the_first_of_a_turn(session: RawSession, operations: list[Operation]) -> None:
    """Take an event out that another of its turn followed."""
    counts = {one.intent["event"]: one.intent.get("count") for one in operations if one.kind == "append"}
    known = [counts.get(event.id) for event in session.events]
    del session.events[next(n for n, both in enumerate(pairwise(known)) if both == (0, 1))]


def forget_a_turn(session: RawSession, operations: list[Operation]) -> None:
    """Lower the number of the newest turn."""
    session.fields = {**session.fields, "turn": {"fence": 0}}
    del operations


def give_a_number_twice(session: RawSession, operations: list[Operation]) -> None:
    """Repeat a turn that a worker took."""
    taken = (one for one in operations if one.kind == "turn" and one.outcome == "acknowledged")
    one = next(one for one in taken if one.intent["place"] == session.place)
    operations.append(replace(one, intent={**one.intent, "turn": "another"}))


def message_in(session: RawSession, operations: list[Operation]) -> int:
    """Return where the first message is that waited."""
    names = {
        one.intent["event"] for one in operations if one.kind == "enqueue" and one.outcome == "acknowledged"
    }
    return next(n for n, event in enumerate(session.events) if event.id in names)


def lose_a_message(session: RawSession, operations: list[Operation]) -> None:
    """Take out the event of a message that waited."""
    del session.events[message_in(session, operations)]


def answer_a_message_twice(session: RawSession, operations: list[Operation]) -> None:
    """Let a message wait whose event is stored."""
    event = session.events[message_in(session, operations)]
    session.fields = {**session.fields, "inbox": [f'{{"id": "{event.id}"}}']}


def reorder_messages(session: RawSession, operations: list[Operation]) -> None:
    """Turn all events round."""
    message_in(session, operations)
    session.events.reverse()


def refuse_a_message(session: RawSession, operations: list[Operation]) -> None:
    """Say that a message is not to wait that is stored."""
    name = session.events[message_in(session, operations)].id
    at = next(n for n, one in enumerate(operations) if one.kind == "enqueue" and one.intent["event"] == name)
    operations[at] = replace(operations[at], outcome="refused", result={})


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (interleave, "interleaved"),
        (exchange_turns, "turns out of order"),
        (remove_the_first_of_a_turn, "hole in a turn"),
        (forget_a_turn, "turn forgotten"),
        (give_a_number_twice, "two turns of one number"),
        (lose_a_message, "message lost"),
        (answer_a_message_twice, "message twice"),
        (reorder_messages, "message out of order"),
        (refuse_a_message, "refused but stored"),
    ],
)
def test_the_checker_finds_a_damaged_turn(
    written: Written,
    damage: Callable[[RawSession, list[Operation]], None],
    kind: str,
) -> None:
    """In what the writers stored, and in the answers that they got."""
    folder, done = written
    operations = list(done)
    found = {one.place: one for one in sessions(read_folder(folder)) if one.place == str(TURNED[0])}
    assert [] == list(check_turns(found, operations))
    damage(found[str(TURNED[0])], operations)

    assert kind in {violation.kind for violation in check_turns(found, operations)}


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
