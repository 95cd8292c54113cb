"""A copy that is killed at any step goes on when it is called again: nothing twice, nothing missed."""

import asyncio
import math
import sqlite3
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import gcp_adk_store.sessions.fork.format as forks
from gcp_adk_store import InvalidInputError, MemoryLimits, MemoryService, Store, UnavailableError
from gcp_adk_store.moving import Report, copy
from gcp_adk_store.moving.records import Listed, OwnStore
from gcp_adk_store.testing.conformance.running import event, read
from tests.moving.hardest import APP, fill, hardest, many
from tests.support.lengths import at_length
from tests.support.local_commits import before_commits
from tests.support.stored import change, session_path
from tests.support.watching import once


class KilledError(BaseException):
    """Stands for the end of the process."""


def sizes_of_commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of writes in the commits to local stores from now on."""
    sizes: list[int] = []

    async def see(writes: Sequence[Any]) -> None:
        sizes.append(len(writes))

    before_commits(monkeypatch, see)
    return sizes


async def faults_in(store: Store) -> list[Any]:
    """Return what the check of the store finds."""
    return [fault async for fault in store.check(app_name=APP)]


async def texts_of(service: Any, user: str, session_id: str) -> list[str]:
    """Return the ids of the events of a session."""
    found = await service.get_session(app_name=APP, user_id=user, session_id=session_id)
    return [] if found is None else [one.id for one in found.events]


@pytest.mark.parametrize("at", [0, 1, 8, 9])
async def test_a_service_of_adk_that_has_a_part_of_a_session_gets_the_rest(at: int) -> None:
    """A kill between two appends leaves the first events; the next call appends the others."""
    source, target = InMemorySessionService(), InMemorySessionService()
    await fill(source, [("u", "s", many(9))])
    kept = target.append_event
    left = at

    async def append(session: Any, event: Event) -> Event:
        nonlocal left
        if left == 0:
            raise KilledError
        left -= 1
        return await kept(session, event)

    target.append_event = append  # type: ignore[method-assign]
    with pytest.raises(BaseException) if at < 9 else pytest.MonkeyPatch.context():  # noqa: PT011
        await copy(source, target, app_name=APP)
    target.append_event = kept  # type: ignore[method-assign]
    report = await copy(source, target, app_name=APP, verify=True)

    assert (True, 1, 9 - at) == (report.is_complete, report.verified, report.events)
    assert await texts_of(source, "u", "s") == await texts_of(target, "u", "s")


async def test_many_events_take_few_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment for each 64 KiB and the session, in one commit: 5 for a thousand."""
    source, (count, writes) = InMemorySessionService(), at_length((300, 2), (1000, 5))
    await fill(source, [("u", "s", many(count))])
    async with Store.local(":memory:") as store:
        commits = sizes_of_commits(monkeypatch)
        await copy(source, store.sessions, app_name=APP)
        session = await store.sessions.get_session(app_name=APP, user_id="u", session_id="s")

        assert session is not None
        assert count == len(session.events)
        assert [writes] == commits
        assert [] == await faults_in(store)


async def test_a_session_of_many_megabytes_takes_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note comes before its parts, and nothing is left behind."""
    count, part = at_length((40, 4), (160, 1))
    monkeypatch.setattr(forks, "_BYTES_PER_COMMIT", forks._BYTES_PER_COMMIT // part)
    source = InMemorySessionService()
    events = [
        event(f"{number} {b64encode(Random(number).randbytes(30_000)).decode()}")  # noqa: S311  # no secret
        for number in range(count)
    ]
    await fill(source, [("u", "s", events)])
    async with Store.local(":memory:") as store:
        commits = sizes_of_commits(monkeypatch)
        report = await copy(source, store.sessions, app_name=APP, verify=True)
        garbage = [one async for one in store.find_garbage(older_than_s=3600)]

        assert (True, count) == (report.is_complete, report.events)
        assert len(commits) > 1
        assert ([], []) == (await faults_in(store), garbage)


async def test_redactors_of_the_target_do_not_see_what_is_copied() -> None:
    """Neither a whole session nor the events that it lacks; so the next copies find it as they wrote it."""
    events = many(6)
    source = InMemorySessionService()
    await fill(source, [("u", "s", events[:2])])
    session = await source.get_session(app_name=APP, user_id="u", session_id="s")
    assert session is not None
    async with Store.local(":memory:", redactors=[lambda texts: ["redacted" for _ in texts]]) as store:
        reports = [await copy(source, store.sessions, app_name=APP, verify=True)]
        for one in events[2:4]:
            await source.append_event(session, one.model_copy(deep=True))
            reports.append(await copy(source, store.sessions, app_name=APP, verify=True))

        assert [(True, 1, 2), (True, 1, 1), (True, 1, 1)] == [
            (each.is_complete, each.verified, each.events) for each in reports
        ]


class RefusingArtifacts(InMemoryArtifactService):
    """Accepts only a file with the name g."""

    async def save_artifact(self, **given: Any) -> int:
        """Refuse it, as a service whose disk is full."""
        if given["filename"] != "g":
            raise ValueError("full")
        return await super().save_artifact(**given)


async def test_a_session_that_can_have_no_artifacts_fails_none() -> None:
    """The files of its user are copied."""
    which: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "c:1"}
    async with Store.local(":memory:") as source, Store.local(":memory:") as target:
        await source.sessions.create_session(**which)
        await source.artifacts.save_artifact(**which, filename="user:g", artifact=types.Part(text="g"))
        services = (source.artifacts, target.artifacts)
        report = await copy(source.sessions, target.sessions, app_name="app", artifacts=services)

        assert report.is_complete
        assert types.Part(text="g") == await target.artifacts.load_artifact(**which, filename="user:g")


class DroppingArtifacts(InMemoryArtifactService):
    """Keeps nothing that a copy saves."""

    async def save_artifact(self, **_given: Any) -> int:
        """Answer as if it were saved."""
        return 0


async def test_artifacts_that_failed_are_copied_by_the_next_call(tmp_path: Path) -> None:
    """Of a session and of its user, although the ledger knows the session."""
    which: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}
    source, artifacts = InMemorySessionService(), InMemoryArtifactService()
    await fill(source, [("u", "s", many(2))])
    for name in ("f", "g", "user:g"):
        await artifacts.save_artifact(**which, filename=name, artifact=types.Part(text=name))
    async with Store.local(":memory:") as store:
        given: dict[str, Any] = {"app_name": APP, "resume": tmp_path / "ledger"}
        failed = await copy(source, store.sessions, artifacts=(artifacts, RefusingArtifacts()), **given)
        reports = [
            await copy(source, store.sessions, artifacts=(artifacts, store.artifacts), **given)
            for _ in range(2)
        ]

        assert [
            "artifact 'f': a ValueError of the service",
            "artifact 'user:g': a ValueError of the service",
        ] == [note.says for note in failed.notes if note.kind == "failed"]
        assert 1 == failed.artifact_versions
        assert [(True, 3), (True, 0)] == [(each.is_complete, each.artifact_versions) for each in reports]
        assert ["f", "g", "user:g"] == await store.artifacts.list_artifact_keys(**which)


async def test_the_state_of_a_user_is_copied_although_the_session_that_has_it_goes(tmp_path: Path) -> None:
    """ADK's services show it with a session alone: the next call reads another one."""
    who: dict[str, Any] = {"app_name": APP, "user_id": "u"}

    class Source(InMemorySessionService):
        async def get_session(self, **given: Any) -> Session | None:
            if given.get("config") is not None:
                await self.delete_session(**who, session_id="s2")
            return await super().get_session(**given)

    source = Source()
    await fill(source, [("u", "s1", many(1)), ("u", "s2", many(1))], **{"user:name": "Ada"})
    async with Store.local(":memory:") as store:
        first, then = [
            await copy(source, store.sessions, app_name=APP, resume=tmp_path / "ledger") for _ in range(2)
        ]

        assert ["skipped"] == [note.kind for note in first.notes if note.user_id is not None]
        assert (2, 1) == (first.copied, then.unchanged)
        assert {"name": "Ada"} == await store.sessions.get_user_state(**who)


async def test_artifacts_that_conflict_are_named_by_each_call(tmp_path: Path) -> None:
    """Although the ledger knows the session; and verify names a version that the target dropped."""
    which: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}
    source, artifacts, there = InMemorySessionService(), InMemoryArtifactService(), DroppingArtifacts()
    await fill(source, [("u", "s", many(2))])
    for service, name in ((artifacts, "f"), (artifacts, "g"), (there, "f"), (there, "f")):
        await InMemoryArtifactService.save_artifact(
            service, **which, filename=name, artifact=types.Part(text=name)
        )
    async with Store.local(":memory:") as store:
        given: dict[str, Any] = {"app_name": APP, "resume": tmp_path / "ledger"}
        both = artifacts, there
        reports = [
            await copy(source, store.sessions, artifacts=both, verify=verify, **given)
            for verify in (True, False)
        ]

    conflict = "artifact 'f': the target has 2 versions, the source 1"
    assert [{conflict, "artifact 'g': version 0 differs"}, {conflict}] == [
        {note.says for note in report.notes if note.kind in ("conflict", "differs")} for report in reports
    ]


@pytest.mark.parametrize("first", ["nothing", "a failure"])
async def test_memories_that_were_not_copied_are_copied_by_the_next_call(tmp_path: Path, first: str) -> None:
    """If the call before failed to, or was not asked to."""
    user: dict[str, Any] = {"app_name": APP, "user_id": "u"}
    source = InMemorySessionService()
    await fill(source, [("u", "s", many(2))])
    async with Store.local(":memory:") as one, Store.local(":memory:") as other:
        await one.memory.add_session_to_memory(
            await source.get_session(**user, session_id="s")  # type: ignore[arg-type]
        )
        small = MemoryService(other.sessions.storage, limits=MemoryLimits(max_memories=1))
        before = None if first == "nothing" else (one.memory, small)
        given: dict[str, Any] = {"app_name": APP, "resume": tmp_path / "ledger"}
        began = await copy(source, other.sessions, memories=before, **given)
        report = await copy(source, other.sessions, memories=(one.memory, other.memory), **given)

        assert (first == "nothing", 0) == (began.is_complete, began.memories)
        assert (True, 2) == (report.is_complete, report.memories)
        assert 2 == len((await other.memory.list_memories(**user)).memories)


async def test_what_is_no_ledger_of_the_copy_is_refused(tmp_path: Path) -> None:
    """One of another copy, a text, or the database of another program, to which no table is added."""
    (tmp_path / "text").write_text(
        "not a ledger, but a text that is long enough for SQLite to look at it" * 20
    )
    one = InMemorySessionService()
    async with Store.local(tmp_path) as store:
        await fill(store.sessions, [("u", "s", many(1))])
        await copy(one, store.sessions, app_name=APP, resume=tmp_path / "ledger")
        with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as sql:
            before = sql.execute("SELECT name FROM sqlite_master").fetchall()
            for path, says in (
                ("ledger", "another copy"),
                ("text", f"{str(tmp_path / 'text')!r} cannot be used"),
                ("store.sqlite3", "is a database, and not a ledger"),
            ):
                with pytest.raises(InvalidInputError, match=says):
                    await copy(one, store.sessions, app_name="other", resume=tmp_path / path)
            assert before == sql.execute("SELECT name FROM sqlite_master").fetchall()


async def test_a_ledger_that_fails_meanwhile_ends_the_copy(tmp_path: Path) -> None:
    """By a typed error; what is finished stays."""
    ledger = tmp_path / "ledger"

    def damage(_: Report) -> None:
        with closing(sqlite3.connect(ledger)) as sql, sql:
            sql.execute("DROP TABLE users")

    source = InMemorySessionService()
    await fill(source, [("u", "s", many(1))])
    async with Store.local(":memory:") as store:
        with pytest.raises(UnavailableError, match="the ledger cannot be used"):
            await copy(source, store.sessions, app_name=APP, resume=ledger, on_progress=damage)
        assert 1 == len((await store.sessions.list_sessions(app_name=APP)).sessions)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"app_name": 5}, "app_name must be a string, not int"),
        ({"since": "2026"}, "since must be a number or None, not str"),
        ({"follow": True}, "follow must be an Event or None, not bool"),
        *(({"interval_s": given}, "interval_s is") for given in (0, -1, math.inf, math.nan)),
        ({"resume": "a\0b"}, "cannot be used as a ledger"),
        ({"resume": Path("/")}, "^'/' cannot be used as a ledger"),
        ({"source": "http://["}, "a malformed host"),
        ({"source": 5}, "a int is not a store"),
        ({"target": None}, "a NoneType is not a store"),
        ({"artifacts": (InMemoryArtifactService(),)}, "artifacts has 1 places"),
        ({"artifacts": (1, 2)}, "an artifact service must be a service of ADK or its URI, not int"),
        ({"memories": (1, 2)}, "a memory service must be a service of ADK or its URI, not int"),
    ],
)
async def test_arguments_of_another_kind_are_refused(given: dict[str, Any], says: str) -> None:
    """By name, before anything is read."""
    services: dict[str, Any] = {"source": InMemorySessionService(), "target": InMemorySessionService()}
    with pytest.raises(InvalidInputError, match=says):
        await copy(**{**services, "app_name": APP, **given})


class Losing(InMemorySessionService):
    """A service that drops the second event."""

    async def append_event(self, session: Session, event: Event) -> Event:
        """Keep all but that event."""
        return event if event.id == "e1" else await super().append_event(session, event)


async def test_verify_finds_an_event_that_was_lost(tmp_path: Path) -> None:
    """Without it, nobody would; the report is not complete, and so is that of the next call."""
    source, target = InMemorySessionService(), Losing()
    await fill(source, [("u", "s", many(3))])
    report, then = [
        await copy(source, target, app_name=APP, resume=tmp_path / "ledger", verify=verify)
        for verify in (True, False)
    ]

    assert ["conflict"] == [note.kind for note in then.notes if note.session_id]
    assert (False, False) == (report.is_complete, then.is_complete)
    assert ["the target has 2 events, the source 3; their digests differ"] == [
        note.says for note in report.notes if note.kind == "differs"
    ]


async def test_verify_finds_a_state_that_differs() -> None:
    """Also in sessions that were copied before."""
    source = InMemorySessionService()
    await fill(source, [("u", "s", many(3))])
    async with Store.local(":memory:") as store:
        await copy(source, store.sessions, app_name=APP)
        source.sessions[APP]["u"]["s"].state["k1"] = "changed without an event"
        report = await copy(source, store.sessions, app_name=APP, verify=True)

        assert [
            ("state", "1 keys differ from what the events say: 'k1'"),
            ("differs", "the state differs"),
        ] == [(note.kind, note.says) for note in report.notes if note.kind in ("state", "differs")]


async def test_a_title_that_was_given_after_a_copy_is_copied(tmp_path: Path) -> None:
    """With the labels, of which those that are gone in the source go; a dry run only says so."""
    async with Store.local(":memory:") as source, Store.local(":memory:") as store:
        await fill(source.sessions, [("u", "s", many(2))])
        who: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}
        ledger = tmp_path / "ledger"
        counts = []
        for labels in ({"a": "1", "b": "1"}, {"a": "2", "b": None}):
            await copy(source.sessions, store.sessions, app_name=APP, resume=ledger)
            await source.sessions.update_session_info(**who, title="T", labels=labels)
            for dry_run in (True, False):
                both = source.sessions, store.sessions
                report = await copy(*both, app_name=APP, resume=ledger, dry_run=dry_run, verify=True)
                counts.append((report.continued, report.events, report.verified, report.is_complete))
        found = await store.sessions.get_session_info(**who)

    assert [(1, 0, 0, True), (1, 0, 1, True)] * 2 == counts
    assert found is not None
    assert ("T", {"a": "2"}) == (found.title, dict(found.labels))


async def test_shared_state_is_compared_with_its_types() -> None:
    """True is not 1, and a time is the text that a store keeps of it."""
    source = InMemorySessionService()
    async with Store.local(":memory:") as store:
        for service, flag in ((source, True), (store.sessions, 1)):
            who: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": f"of {flag}"}
            state = {"user:flag": flag, "app:at": datetime(2026, 1, 1, tzinfo=UTC)}
            await service.create_session(**who, state=state)
        report = await copy(source, store.sessions, app_name=APP, verify=True)
        found = await read(store.sessions, who)

    assert report.is_complete
    assert found.state["user:flag"] is True


async def test_another_session_of_the_id_stays_as_it_is() -> None:
    """It is a conflict, and the copy is not complete."""
    source = InMemorySessionService()
    await fill(source, [("u", "s", many(3))])
    async with Store.local(":memory:") as store:
        await fill(store.sessions, [("u", "s", [event("mine")])])
        before = await texts_of(store.sessions, "u", "s")
        report = await copy(source, store.sessions, app_name=APP)

        assert (False, 0) == (report.is_complete, report.copied)
        assert ["conflict"] == [note.kind for note in report.notes if note.session_id]
        assert before == await texts_of(store.sessions, "u", "s")


async def test_a_dry_run_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor to the ledger, also if it takes memories along, which the copy before did not."""
    ledger = tmp_path / "ledger"
    async with Store.local(":memory:") as one, Store.local(":memory:") as other:
        await fill(one.sessions, [("u", "s", many(3)), ("u", "anew", many(2))])
        await copy(one.sessions, other.sessions, app_name=APP, resume=ledger)
        await one.sessions.delete_session(app_name=APP, user_id="u", session_id="anew")
        await fill(one.sessions, [("u", "s2", hardest()), ("u", "anew", hardest()[:5])])
        before, commits = ledger.read_bytes(), sizes_of_commits(monkeypatch)
        memories = one.memory, other.memory
        report = await copy(
            one.sessions, other.sessions, app_name=APP, resume=ledger, dry_run=True, memories=memories
        )

    assert (1, 1, 8 + 5, []) == (report.copied, report.replaced, report.events, commits)
    assert before == ledger.read_bytes()


async def test_a_dry_run_reports_what_the_run_does(tmp_path: Path) -> None:
    """Also of a session that the ledger knows, of a user who has a new one."""
    source, target = InMemorySessionService(), InMemorySessionService()
    given: dict[str, Any] = {"app_name": APP, "resume": tmp_path / "ledger"}
    await fill(source, [("u", "known", many(1))])
    await copy(source, target, **given)
    await fill(source, [("u", "before it", many(1))])
    would, did = [await copy(source, target, **given, dry_run=dry_run) for dry_run in (True, False)]

    assert would == did


async def test_what_changes_is_followed_until_the_end() -> None:
    """Appends, new sessions, sessions made anew and deletions reach the target; the last pass comes after."""
    grows: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "grows"}
    done = asyncio.Event()
    async with Store.local(":memory:") as one, Store.local(":memory:") as other:
        await fill(one.sessions, [("u", "grows", many(2)), ("u", "goes", many(1)), ("u", "anew", many(2))])
        copying = asyncio.create_task(
            copy(one.sessions, other.sessions, app_name=APP, follow=done, interval_s=3600)
        )
        await once(
            other.sessions,
            lambda: texts_of(other.sessions, "u", "grows"),  # the last one of the first pass
            lambda found: len(found) == 2,
            **grows,
        )
        session = await read(one.sessions, grows)
        await one.sessions.append_event(session, event("more", delta={"user:new": 1}))
        for name in ("goes", "anew"):
            await one.sessions.delete_session(app_name=APP, user_id="u", session_id=name)
        await fill(one.sessions, [("u", "anew", hardest()), ("v", "new", many(1))])
        done.set()
        report = await copying
        final = await copy(one.sessions, other.sessions, app_name=APP, verify=True)
        user = await other.sessions.get_user_state(app_name=APP, user_id="u")

        assert (1, 1, 1) == (report.continued, report.replaced, report.removed)
        assert (3, 3, True) == (final.unchanged, final.verified, final.is_complete)
        assert await texts_of(other.sessions, "u", "goes") == []
        assert (1, "Ada") == (user["new"], user["name"])


async def test_a_report_names_and_counts_each_thing_once_whatever_the_passes() -> None:
    """Of sessions that conflict in each pass, and of one that grows."""

    class Source(InMemorySessionService):
        passes = 0

        async def list_sessions(self, **given: Any) -> Any:
            self.passes += 1
            if self.passes == 2:
                await self.append_event(grows, event("more"))
            if self.passes == 3:
                done.set()
            return await super().list_sessions(**given)

    done, source, names = asyncio.Event(), Source(), [f"s{number}" for number in range(101)]
    await fill(source, [("u", name, many(1)) for name in (*names, "grows")])
    grows = await read(source, {"app_name": APP, "user_id": "u", "session_id": "grows"})
    async with Store.local(":memory:") as store:
        await fill(store.sessions, [("u", name, [event("mine")]) for name in names])
        report = await copy(source, store.sessions, app_name=APP, follow=done, interval_s=0.001)

    assert sorted(names) == sorted(str(note.session_id) for note in report.notes if note.kind == "conflict")
    assert (101, 1, 1) == (report.wrong, report.copied, report.continued)
    assert ["of 1 sessions the time of creation is lost"] == [
        note.says for note in report.notes if note.kind == "times"
    ]


@pytest.mark.parametrize("kind", ["own", "sqlite"])
async def test_what_the_source_deleted_between_two_calls_goes_with_the_next(
    tmp_path: Path, kind: str
) -> None:
    """However many passes the call before had made, and in whatever order the target has the events."""
    done = asyncio.Event()
    done.set()
    following: dict[str, Any] = {"app_name": APP, "follow": done, "resume": tmp_path / "ledger"}
    async with Store.local(":memory:") as one, Store.local(":memory:") as other:
        target = other.sessions if kind == "own" else SqliteSessionService(db_path=f"{tmp_path}/other.db")
        await fill(one.sessions, [("u", "goes", many(2)[::-1]), ("u", "stays", many(1))])
        await copy(one.sessions, target, **following)
        await one.sessions.delete_session(app_name=APP, user_id="u", session_id="goes")
        report = await copy(one.sessions, target, **following)
        left = await target.list_sessions(app_name=APP)

    assert (1, 2) == (report.removed, report.passes)
    assert ["stays"] == [session.id for session in left.sessions]


@pytest.mark.parametrize("kind", ["own", "sqlite"])
@pytest.mark.parametrize("events", [0, 2])
async def test_a_session_that_was_made_anew_with_another_state_is_replaced(
    tmp_path: Path, kind: str, events: int
) -> None:
    """Although the target has its first events: none."""
    who: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}
    async with Store.local(":memory:") as one, Store.local(":memory:") as other:
        target = other.sessions if kind == "own" else SqliteSessionService(db_path=f"{tmp_path}/other.db")
        given: dict[str, Any] = {"app_name": APP, "resume": tmp_path / "ledger"}
        await one.sessions.create_session(**who, state={"old": 1})
        await copy(one.sessions, target, **given)
        await one.sessions.delete_session(**who)
        await fill(one.sessions, [("u", "s", many(events))])
        would = await copy(one.sessions, target, **given, dry_run=True)
        then = await copy(one.sessions, target, **given, verify=True)

        assert [(1, events, 0), (1, events, 1)] == [
            (each.replaced, each.events, each.verified) for each in (would, then)
        ]
        assert (await read(one.sessions, who)).state == (await read(target, who)).state


async def test_what_failed_in_a_pass_and_then_was_deleted_goes_too() -> None:
    """The target has it as the pass before wrote it."""
    goes: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "goes"}
    done = asyncio.Event()

    class Source(OwnStore):
        passes = 0

        async def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
            self.passes += 1
            match self.passes:
                case 2:
                    await change(one, session_path(goes), {"tail": ["no event"], "rev": 1})
                case 3:
                    await one.sessions.delete_session(**goes)
                    done.set()
            async for each in super().sessions(app, user):
                yield each

    async with Store.local(":memory:") as one, Store.local(":memory:") as other:
        await fill(one.sessions, [("u", "goes", many(1))])
        source = Source(one.sessions, closes=False)
        report = await copy(source, other.sessions, app_name=APP, follow=done, interval_s=0.001)

        assert ["failed"] == [note.kind for note in report.notes]
        assert 1 == report.removed
        assert await texts_of(other.sessions, "u", "goes") == []


async def test_a_copy_that_goes_on_keeps_state_of_an_event_that_was_redacted() -> None:
    """The source keeps the value, which no event has any more; the next copy finds nothing to do."""
    who: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}
    async with Store.local(":memory:") as one, Store.local(":memory:") as other:
        session = await one.sessions.create_session(**who)
        await one.sessions.append_event(session, event("first"))
        await copy(one.sessions, other.sessions, app_name=APP)
        told = await one.sessions.append_event(session, event("secret", delta={"language": "en"}))
        await one.redact_event(**who, event_id=told.id, reason="ticket 7")
        would = await copy(one.sessions, other.sessions, app_name=APP, dry_run=True)
        then = await copy(one.sessions, other.sessions, app_name=APP, verify=True)
        again = await copy(one.sessions, other.sessions, app_name=APP, verify=True)

        assert ((1, 3, 0), (1, 3, 1), (1, 0, 1)) == (
            (would.replaced, would.events, would.verified),
            (then.replaced, then.events, then.verified),
            (again.unchanged, again.events, again.verified),
        )
        assert {"language": "en"} == (await read(other.sessions, who)).state
        assert [] == await faults_in(other)
