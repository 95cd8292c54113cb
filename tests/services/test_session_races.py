"""Processes that write, make and delete the same sessions at once: none loses, none sees a half of two."""

import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import SessionService
from gcp_adk_store.codec.names import escape_name
from tests.services.conftest import SESSION, USER, WHO, event, texts
from tests.services.racing import RacingProcess, race, racing_processes
from tests.services.racing_process import LIMITS, STORED, At, open_store
from tests.support.folder import read_documents, read_objects
from tests.support.stores import STORES

PROCESSES = 3
LARGE = 3000
"""Characters that make an event a payload, beside the session."""

Stored = Callable[[], dict[str, dict[str, Any]]]


@pytest.fixture(scope="module", params=STORES)
def at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> At:
    """One store for all of them: each process opens it once."""
    if request.param == "folder":
        return {"folder": str(tmp_path_factory.mktemp("races") / "store")}
    assert request.getfixturevalue("firestore_emulator").address
    return {"project": f"demo-{uuid.uuid4().hex[:20]}"}


@pytest.fixture(scope="module")
def racers(at: At) -> Iterator[list[RacingProcess]]:
    """Processes that race in every test of this module."""
    assert at
    with racing_processes(PROCESSES) as racers:
        yield racers


@pytest.fixture(scope="module")
def project(at: At) -> str:
    """The database of all, for those who read it."""
    return at["project"]


@pytest.fixture
def stored(request: pytest.FixtureRequest, at: At) -> Stored:
    """Read all documents past the library: path -> fields."""
    if "folder" in at:
        return lambda: read_documents(Path(at["folder"]))
    raw_documents: Stored = request.getfixturevalue("raw_documents")
    return raw_documents


@pytest.fixture
def place(at: At) -> dict[str, Any]:
    """A store, and a session of an app that no other test has."""
    return {"at": at, "who": {**WHO, "app_name": uuid.uuid4().hex}}


@pytest.fixture
async def reader(at: At) -> AsyncIterator[SessionService]:
    """A service that takes no part."""
    async with open_store(at, session_limits=LIMITS) as store:
        yield store.sessions


def below(documents: dict[str, dict[str, Any]], place: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the documents of the app, by their paths below it."""
    root = f"adk_apps/{escape_name(place['who']['app_name'], what='app_name')}"
    return {path.removeprefix(root): fields for path, fields in documents.items() if path.startswith(root)}


async def test_of_processes_that_append_at_once_one_wins_each_round(
    racers: list[RacingProcess], place: dict[str, Any], reader: SessionService
) -> None:
    """The others are told, and go on after a reload; storage has the winners in their order."""
    await reader.create_session(**place["who"])
    winners = []
    for number in range(4):
        race(racers, "reload", place)
        append = {
            "at": place["at"],
            "on_conflict": "raise",
            "deltas": [{"winner": number}],
            "size": 0,
        }
        outcomes = [one for (one,) in race(racers, "append", append)]
        winners += [words for words, outcome in outcomes if outcome == STORED]

        assert [STORED, *["SessionConflictError"] * (PROCESSES - 1)] == sorted(
            (outcome for _, outcome in outcomes), reverse=True
        )
    found = await reader.get_session(**place["who"])

    assert found is not None
    assert winners == texts(found.events)
    assert [{"winner": number} for number in range(4)] == [one.actions.state_delta for one in found.events]
    assert {"winner": 3} == found.state


async def test_of_processes_that_make_one_session_one_does_each_round(
    racers: list[RacingProcess],
    place: dict[str, Any],
    reader: SessionService,
    stored: Stored,
) -> None:
    """The others are told; the initial state of every scope is the winner's alone."""
    user: dict[str, Any] = {}
    app: dict[str, Any] = {}
    for number in range(4):
        who = {**place["who"], "session_id": f"s{number}"}
        each = [
            {
                "at": place["at"],
                "who": who,
                "state": {
                    f"of {name}": 1,
                    f"user:{number} of {name}": 1,
                    f"app:{number} of {name}": 1,
                    "user:last": name,
                },
                "until_made": False,
            }
            for name in range(PROCESSES)
        ]
        outcomes = race(racers, "create", *each)
        winner = outcomes.index(STORED)
        user |= {f"{number} of {winner}": 1, "last": winner}
        app |= {f"{number} of {winner}": 1}
        found = await reader.get_session(**who)

        assert ["SessionExistsError"] * (PROCESSES - 1) == sorted(outcomes)[:-1]
        assert found is not None
        assert {f"of {winner}": 1} == {key: value for key, value in found.state.items() if ":" not in key}
    documents = below(stored(), place)

    assert app == documents[""]["state"]
    assert user == documents[f"/adk_users/{USER}"]["state"]


async def test_of_processes_that_fork_to_one_id_exactly_one_does(
    racers: list[RacingProcess], place: dict[str, Any], reader: SessionService
) -> None:
    """While another one appends to the source; the fork is a beginning of it, with the state of there."""
    appender, *forkers = racers
    appender.call("create", **place, state={}, until_made=False)
    append = {"at": place["at"], "on_conflict": "raise", "size": 700}
    appender.call("append", **append, deltas=[{"n": number} for number in range(6)])
    for turn in range(3):
        deltas = [{"n": number} for number in range(6 * (turn + 1), 6 * (turn + 2))]
        appender.begin("append", **append, deltas=deltas)
        outcomes = race(forkers, "fork", {**place, "to_session_id": f"fork{turn}"})
        appender.answer()
        source = await reader.get_session(**place["who"])
        fork = await reader.get_session(**{**place["who"], "session_id": f"fork{turn}"})

        assert sorted([*["SessionExistsError"] * (len(forkers) - 1), STORED]) == sorted(outcomes)
        assert source is not None
        assert fork is not None
        assert source.events[: len(fork.events)] == fork.events
        assert len(fork.events) - 1 == fork.state["n"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [300, LARGE], ids=["small", "large"])
async def test_an_append_comes_before_a_deletion_or_is_told(
    racers: list[RacingProcess],
    place: dict[str, Any],
    reader: SessionService,
    stored: Stored,
    size: int,
) -> None:
    """Of the session nothing is left; but what was put for an append that came too late may be, as chunks."""
    deleter, *appenders = racers
    for _ in range(3):
        race(racers[:1], "create", {**place, "state": {"user:kept": 1, "app:kept": 1}, "until_made": False})
        append = {"at": place["at"], "on_conflict": "merge", "size": size}
        deleter.call("append", **append, deltas=[{}] * 8)
        race(appenders, "reload", place)
        begun = [racer.begin("append", **append, deltas=[{}] * 4) for racer in appenders]
        deleter.call("delete", **place)
        outcomes = [[outcome for _, outcome in racer.answer()] for racer in begun]
        afterwards = race(appenders, "append", {**append, "deltas": [{}]})

        for answers in outcomes:
            assert [STORED] * answers.count(STORED) + ["SessionMissingError"] * (
                len(answers) - answers.count(STORED)
            ) == answers
        assert {"SessionMissingError"} == {outcome for ((_, outcome),) in afterwards}
        assert await reader.get_session(**place["who"]) is None
    left = below(stored(), place)
    session = re.escape(f"/adk_users/{USER}/adk_sessions/{SESSION}/")

    assert {"", f"/adk_users/{USER}"} == {path for path in left if "/adk_sessions/" not in path}
    assert [] == [
        path for path in left if "/adk_sessions/" in path and not re.match(f"{session}adk_chunks/", path)
    ]
    # A folder has payloads as files.
    assert (size == LARGE and "project" in place["at"]) or {"", f"/adk_users/{USER}"} == set(left)


@pytest.mark.sample(1)
async def test_a_session_that_is_made_during_a_deletion_has_nothing_of_the_old_one(
    racers: list[RacingProcess],
    place: dict[str, Any],
    reader: SessionService,
    stored: Stored,
) -> None:
    """Nor does the deletion take anything of it, or an append to the old one reach it."""
    deleter, maker, appender = racers
    append = {"at": place["at"], "on_conflict": "merge", "size": LARGE}
    maker.call("create", **place, state={"round": "first"}, until_made=True)
    for number in range(4):
        maker.call("append", **append, deltas=[{"old": number}] * 6)
        appender.call("reload", **place)
        deleting = deleter.begin("delete", **place)
        making = maker.begin(
            "create", **place, state={"round": number, "large": "x" * LARGE}, until_made=True
        )
        appending = appender.begin("append", **append, deltas=[{"old": number}] * 3)
        deleting.answer()
        made = making.answer()
        outcomes = [outcome for _, outcome in appending.answer()]
        found = await reader.get_session(**place["who"])

        assert STORED == made
        assert sorted(outcomes, reverse=True) == outcomes
        assert set(outcomes) <= {STORED, "SessionMissingError"}
        assert found is not None
        assert [] == found.events
        assert {"round": number, "large": "x" * LARGE} == found.state
        session = f"/adk_users/{USER}/adk_sessions/{SESSION}"
        documents = below(stored(), place)
        epoch = documents[session]["epoch"]
        parts = [path.removeprefix(session) for path in documents if path.startswith(f"{session}/")]

        assert [] == [part for part in parts if not part.startswith("/adk_chunks/")]
        if "project" in place["at"]:
            assert 1 == sum(part.startswith(f"/adk_chunks/{epoch}-") for part in parts)
        else:
            assert [] == parts
            assert 1 == sum(f"/{epoch}/" in name for name in read_objects(Path(place["at"]["folder"])))


async def test_processes_that_describe_a_session_disturb_no_append(
    racers: list[RacingProcess], reader: SessionService, place: dict[str, Any]
) -> None:
    """Two label it while one appends through its handle: that one meets no conflict, and no label is lost."""
    writer, *others = racers
    writer.call("create", **place, state={}, until_made=False)
    for racer in others:
        racer.begin("describe", **place, count=10)
    outcomes = writer.call("append", at=place["at"], on_conflict="raise", deltas=[{}] * 10, size=10)
    for racer in others:
        racer.answer()
    info = await reader.get_session_info(**place["who"])

    assert [STORED] * 10 == [outcome for _, outcome in outcomes]
    assert info is not None
    assert 20 == len(info.labels)
    assert (10, outcomes[-1][0]) == (info.events, (info.last_text or "")[: len(outcomes[-1][0])])


async def test_processes_that_restore_and_append_leave_one_history(
    racers: list[RacingProcess], at: At, place: dict[str, Any], reader: SessionService
) -> None:
    """Two take the session back while one appends: it begins with what all of them keep, and has no fault."""
    made = await reader.create_session(**place["who"], state={"k": 0})
    for number in range(20):
        await reader.append_event(made, event(f"{number} " + "x" * 300, delta={"k": number}))
    assert racers[2].call("reload", **place)
    racers[2].begin("append", at=at, on_conflict="merge", deltas=[{"k": -1}] * 10, size=300)
    for racer, counts in zip(racers, ((16, 12, 8), (15, 11, 8)), strict=False):
        racer.begin("restore", **place, counts=counts)
    restored = [racer.answer() for racer in racers[:2]]
    appended = racers[2].answer()
    found = await reader.get_session(**place["who"])
    faults = [fault async for fault in reader.check(app_name=place["who"]["app_name"])]

    assert found is not None
    assert STORED in (outcome for outcomes in restored for outcome in outcomes)
    assert {STORED, "PointMissingError"} >= {outcome for outcomes in restored for outcome in outcomes}
    assert {STORED, "SessionConflictError"} >= {outcome for _, outcome in appended}
    said = [(text or "").partition(" ")[0] for text in texts(found.events)]
    assert [f"{number}" for number in range(8)] == said[:8]
    assert 8 <= len(found.events) <= 8 + len(appended)
    assert [] == faults
