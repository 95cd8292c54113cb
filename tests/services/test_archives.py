"""The oldest events of a session go to the bucket: reads of all leave them out, and nothing loses them."""

import asyncio
import json
import shlex
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store import (
    HistoryConfig,
    OutcomeUnknownError,
    PayloadMissingError,
    Point,
    PointMissingError,
    SessionLimits,
    SessionService,
    Store,
    StoredDataError,
    UnavailableError,
)
from gcp_adk_store.cli.command import command
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.sessions.archive.decide import EventFacts, before_whole_turns
from tests.support.clock import in_days
from tests.support.documents import blocks, commands
from tests.support.local_commits import before_commits
from tests.support.stored import change, collection, fields_of, remove, session_path
from tests.support.temporary import temporary_folder

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
SMALL = SessionLimits(seal_tail_bytes=2_000, inline_bytes=50)
"""Eight or nine of the events are a segment."""
COUNT = 40


@pytest.fixture(scope="module")
def filled() -> Iterator[Path]:
    """The folder of a store that seals often, with a session of 40 events."""

    async def make(folder: Path) -> None:
        async with Store.local(folder, session_limits=SMALL) as store:
            await fill(store)

    with temporary_folder() as above:
        asyncio.run(make(above / "store"))
        yield above / "store"


@pytest.fixture
def copied(filled: Path) -> Iterator[Path]:
    """A copy of that folder, for one test."""
    with temporary_folder() as above:
        yield shutil.copytree(filled, above / "store")


@pytest.fixture
async def store(copied: Path) -> AsyncIterator[Store]:
    """A store of such a folder."""
    async with Store.local(copied, session_limits=SMALL) as store:
        yield store


async def fill(store: Store, **options: Any) -> None:
    """Make the session."""
    session = await store.sessions.create_session(**WHO, state={"initial": True}, **options)
    for number in range(COUNT):
        await store.sessions.append_event(session, event(number))


def event(number: int) -> Event:
    """Return an event of a turn of its own; some have a payload."""
    part = types.Part(text=f"word{number}")
    if number % 10 == 0:
        part = types.Part(inline_data=types.Blob(data=b"word%d" % number * 20, mime_type="a/b"))
    return Event(
        id=f"e{number}",
        invocation_id=f"turn-{number}",
        author="user",
        timestamp=1_000.0 + number,
        content=types.Content(role="user", parts=[part]),
        actions=EventActions(state_delta={"n": number}),
    )


def ids(first: int, last: int = COUNT) -> list[str]:
    """Return the ids of the events of these numbers."""
    return [f"e{number}" for number in range(first, last)]


async def read(store: Store, config: GetSessionConfig | None = None) -> Session:
    """Return the session as a process reads it that knows nothing yet."""
    session = await SessionService(store.sessions.storage).get_session(**WHO, config=config)
    assert session is not None
    return session


def ids_of(session: Session) -> list[str]:
    """Return the ids of the session's events."""
    return [each.id for each in session.events]


async def faults(store: Store) -> list[Any]:
    """Return what a check of all finds."""
    return [fault async for fault in store.check(older_than_s=10**9, full=True)]


async def archives(store: Store) -> list[dict[str, Any]]:
    """Return the segments in the order of their numbers."""
    found = await collection(store, "adk_segments")
    return [found[path] for path in sorted(found, key=lambda path: int(path.rpartition("-")[2]))]


async def is_in_bucket(store: Store, words: bytes) -> bool:
    """Return whether an object has these words."""
    objects = store.sessions.storage.payloads.objects
    assert objects is not None
    names = await objects.names("", delimiter=None)
    found = [await objects.read(name, generation=None) for name in names]
    return any(words in content[0] for content in found if content is not None)


async def test_a_read_of_all_begins_after_the_point(store: Store) -> None:
    """The state stays, and the next append goes on."""
    found = await store.sessions.archive_session(**WHO, before=Point.position(25))

    assert (25, False) == (found.events, found.is_dry_run)
    session = await read(store)
    assert ids(25) == ids_of(session)
    assert {"initial": True, "n": 39} == session.state
    assert ids(38) == ids_of(await read(store, GetSessionConfig(num_recent_events=2)))
    assert ids(25) == ids_of(await read(store, GetSessionConfig(num_recent_events=100)))
    assert ids(25) == ids_of(await read(store, GetSessionConfig(after_timestamp=1_003.0)))
    await store.sessions.append_event(session, event(COUNT))
    assert ids(25, COUNT + 1) == ids_of(await read(store))
    info = await store.sessions.get_session_info(**WHO)
    assert info is not None
    assert (COUNT + 1, 25) == (info.events, info.archived_events)


async def test_the_bucket_has_the_events_as_lines_of_json(store: Store) -> None:
    """Each object has the events of a segment, and is named by its SHA-256."""
    before = await archives(store)
    found = await store.sessions.archive_session(**WHO, before=Point.position(25))
    after = await archives(store)

    objects = store.sessions.storage.payloads.objects
    assert objects is not None
    lines: list[str] = []
    size = 0
    for segment in after[: found.segments]:
        assert (3, None) == (segment["format"], segment.get("body"))
        content = await objects.read(f"{found.folder}{segment['archive']['sha256']}", generation=None)
        assert content is not None
        lines += content[0].decode().splitlines()
        size += len(content[0])
    assert ids(0, sum(segment["count"] for segment in after[: found.segments])) == [
        json.loads(line)["id"] for line in lines
    ]
    assert found.bytes == size
    assert before[found.segments :] == after[found.segments :]
    heads = [(each["chain_begin"], each["chain_end"], each["count"]) for each in before]
    assert heads == [(each["chain_begin"], each["chain_end"], each["count"]) for each in after]


async def test_all_else_has_the_archived_events(store: Store) -> None:
    """Iterations, points, forks, windows, usage, proofs and checks."""
    whole = await read(store)
    usage = await store.sessions.get_session_usage(**WHO)
    await store.sessions.archive_session(**WHO, before=Point.position(25))

    sessions = SessionService(store.sessions.storage)
    assert whole.events == [each.event async for each in sessions.iter_events(**WHO)]
    at = await sessions.get_session_at(**WHO, at=Point.after_event("e4"))
    assert at is not None
    assert (ids(0, 5), {"initial": True, "n": 4}) == (ids_of(at), at.state)
    fork = await store.fork_session(**WHO, to_session_id="fork", at=Point.position(30))
    assert whole.events[:30] == fork.events
    window = HistoryConfig(history="since_compaction")
    assert whole.events == (await read(store, window)).events
    assert usage == await sessions.get_session_usage(**WHO)
    proof = await store.verify_session(**WHO)
    assert (None, COUNT) == (proof.broken, proof.events)
    assert [] == await faults(store)
    with in_days(2):
        assert [] == [each async for each in store.find_garbage()]


async def test_archived_events_are_moved_whole_segments_at_a_time(store: Store) -> None:
    """A later call goes on, another with an earlier point changes nothing, and a dry run only reports."""
    dry = await store.sessions.archive_session(**WHO, before=Point.position(25), dry_run=True)
    assert ids(0) == ids_of(await read(store))
    first = await store.sessions.archive_session(**WHO, before=Point.position(25))
    again = await store.sessions.archive_session(**WHO, before=Point.position(25))
    rest = await store.sessions.archive_session(**WHO, before=Point.as_of(datetime.fromtimestamp(5_000, UTC)))

    assert replace(first, is_dry_run=True) == dry
    assert (25, 0) == (again.events, again.segments)
    assert COUNT == rest.events
    archived = [each.get("archive") is not None for each in await archives(store)]
    assert [True] * (first.segments + rest.segments) == archived
    assert [] == (await read(store)).events
    with pytest.raises(PointMissingError, match=r"its first \d+ are archived"):
        await store.sessions.archive_session(**WHO, before=Point.after_event("e1"))


async def test_a_restore_to_an_archived_point_brings_its_events_back(store: Store) -> None:
    """One to a later point leaves them archived."""
    await store.sessions.archive_session(**WHO, before=Point.position(25))
    later = await store.restore_session(**WHO, at=Point.position(30))
    assert (ids(25, 30), {"initial": True, "n": 29}) == (ids_of(later), later.state)

    earlier = await store.restore_session(**WHO, at=Point.position(12))

    assert (ids(0, 12), {"initial": True, "n": 11}) == (ids_of(earlier), earlier.state)
    assert ids(0, 12) == ids_of(await read(store))
    assert [] == await faults(store)
    assert (await store.verify_session(**WHO)).broken is None


async def test_a_process_that_knew_the_segments_before_takes_no_archive_for_garbage(store: Store) -> None:
    """After a restore to an archived point, the session counts no archived segments, and has some."""
    other = SessionService(store.sessions.storage)
    assert COUNT == len([each async for each in other.iter_events(**WHO)])
    await store.sessions.archive_session(**WHO, before=Point.position(25))
    await store.restore_session(**WHO, at=Point.position(20))

    with in_days(2):
        assert [] == [each async for each in other.find_garbage()]
    await other.redact_event(**WHO, event_id="e3", reason="asked for")
    assert not await is_in_bucket(store, b'"word3"')


async def test_a_redaction_removes_an_archived_event_and_its_archive(store: Store) -> None:
    """No object has its words; the other events of the segment stay."""
    await store.sessions.archive_session(**WHO, before=Point.position(25))

    redaction = await store.redact_event(**WHO, event_id="e3", reason="asked for")

    assert (3,) == redaction.positions
    assert not await is_in_bucket(store, b'"word3"')
    assert await is_in_bucket(store, b'"word12"')
    proof = await store.verify_session(**WHO)
    assert (None, ["e3"]) == (proof.broken, [each.event_id for each in proof.redacted])
    assert [] == await faults(store)
    assert ids(25) == ids_of(await read(store))[:-1]
    again = await store.redact_event(**WHO, event_id="e3", reason="asked for")
    assert (False, 0) == (again.is_new, again.payloads)


def in_bucket(store: Store) -> Any:
    """Return what keeps payloads in the bucket."""
    return store.sessions.storage.payloads.at(PayloadPlace.BUCKET)


async def interrupt_archive(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave an object in the bucket that no document names."""

    async def refuse(_: Sequence[Any]) -> None:
        raise UnavailableError("the process ends here")

    with monkeypatch.context() as patch:
        before_commits(patch, refuse)
        with pytest.raises(UnavailableError):
            await store.sessions.archive_session(**WHO, before=Point.position(25))
    assert await is_in_bucket(store, b'"word3"')


@pytest.mark.parametrize("between", ["nothing", "a restore", "an interrupted redaction"])
async def test_a_redaction_finds_the_event_in_what_an_interrupted_archive_left(
    store: Store, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    """Also if it is in the tail then, or its segment has the marker already; others keep their payloads."""
    await interrupt_archive(store, monkeypatch)
    if between == "a restore":
        await store.restore_session(**WHO, at=Point.position(5))

    async def fail(*_: Any) -> bool:
        raise UnavailableError("the process ends here")

    if between == "an interrupted redaction":
        with monkeypatch.context() as patch:
            patch.setattr(in_bucket(store), "remove_unchanged", fail)
            with pytest.raises(OutcomeUnknownError):
                await store.redact_event(**WHO, event_id="e3", reason="asked for")
    redaction = await store.redact_event(**WHO, event_id="e3", reason="asked for")

    assert redaction.is_new == (between != "an interrupted redaction")
    assert not await is_in_bucket(store, b'"word3"')
    assert [] == await faults(store)


@pytest.mark.parametrize("is_archived", [False, True])
async def test_an_archive_that_a_redaction_overtakes_leaves_nothing_of_the_event(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, is_archived: bool
) -> None:
    """Its first uploads come late. Then it archives the marker, unless another call did."""
    put = in_bucket(store).put
    is_overtaken = False

    async def put_late(*payload: Any, **options: Any) -> None:
        nonlocal is_overtaken
        if not is_overtaken:
            is_overtaken = True
            await store.redact_event(**WHO, event_id="e3", reason="asked for")
            if is_archived:
                await store.sessions.archive_session(**WHO, before=Point.position(25))
        await put(*payload, **options)

    with monkeypatch.context() as patch:
        patch.setattr(in_bucket(store), "put", put_late)
        found = await store.sessions.archive_session(**WHO, before=Point.position(25))

    assert 25 == found.events
    assert not await is_in_bucket(store, b'"word3"')
    assert ids(25) == ids_of(await read(store))[:-1]
    assert [] == await faults(store)


async def test_a_lost_or_changed_archive_is_named(store: Store) -> None:
    """By the proof, the check, and a read that needs it; a read of all does not."""
    found = await store.sessions.archive_session(**WHO, before=Point.position(25))
    objects = store.sessions.storage.payloads.objects
    assert objects is not None
    first = (await archives(store))[0]["archive"]["sha256"]
    await objects.delete(f"{found.folder}{first}", generation=None)

    assert ids(25) == ids_of(await read(store))
    broken = (await store.verify_session(**WHO)).broken
    assert broken is not None
    assert (0, "missing") == (broken.position, broken.change)
    assert first in broken.says
    assert {"FSCK202", "FSCK301"} <= {fault.code for fault in await faults(store)}
    with pytest.raises(PayloadMissingError, match=first):
        await SessionService(store.sessions.storage).get_session_at(**WHO, at=Point.position(3))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"archived": {"events": COUNT + 1, "segments": 0}}, "archived"),
        ({"archived": {"events": 1, "segments": 1000}}, "archived"),
        ({"archived": {"events": 1}}, "lacks archived.*segments"),
        ({"archived": "all"}, "archived"),
    ],
)
async def test_a_damaged_count_of_archived_events_is_refused(
    store: Store, fields: dict[str, Any], says: str
) -> None:
    """The check repairs a count that is too high."""
    await change(store, session_path(WHO), fields)

    with pytest.raises(StoredDataError, match=says):
        await read(store)
    codes = {fault.code: fault for fault in await faults(store)}
    if "FSCK121" in codes:
        await store.repair([codes["FSCK121"]])
        assert ids(0) == ids_of(await read(store))
    else:
        assert {"FSCK101"} <= codes.keys()


async def test_a_count_of_archived_segments_with_events_that_are_not_is_repaired(store: Store) -> None:
    """Otherwise reads would leave out events that nobody archived."""
    path = session_path(WHO)
    sealed = (await fields_of(store, path))["sealed"]
    await change(store, path, {"archived": {"events": 20, "segments": sealed}})

    (fault,) = await faults(store)
    assert ("FSCK121", "archived") == (fault.code, fault.item)
    await store.repair([fault])
    assert [] == await faults(store)
    assert ids(20) == ids_of(await read(store))


async def test_an_archive_that_is_larger_than_any_segment_is_refused_unread(store: Store) -> None:
    """A reference must not make a process read and split hundreds of megabytes."""
    await store.sessions.archive_session(**WHO, before=Point.position(25))
    first, fields = next(iter((await collection(store, "adk_segments")).items()))
    await change(store, first, {"archive": {**fields["archive"], "size": 5 * 1024 * 1024}})

    with pytest.raises(StoredDataError, match="cannot be right: archive"):
        await SessionService(store.sessions.storage).get_session_at(**WHO, at=Point.position(30))
    assert {"FSCK202"} == {fault.code for fault in await faults(store) if fault.path == first}


async def test_archives_of_a_session_with_a_time_to_live_end_with_it() -> None:
    """Their objects have a custom time, like all payloads of the session."""
    async with Store.local(":memory:", session_limits=SMALL, default_ttl_seconds=3600) as store:
        await fill(store)
        await store.sessions.archive_session(**WHO, before=Point.position(25))
        assert ids(25) == ids_of(await read(store))
        assert [] == await faults(store)

        await store.delete_session(**WHO)
        payloads = store.sessions.storage.payloads
        assert payloads.objects is not None
        assert [] == await payloads.objects.names("adk-payloads/", delimiter=None)


async def test_prune_archives_what_sessions_need_not_keep(store: Store) -> None:
    """Sessions that go are not archived first; a second run finds nothing to do."""
    await store.sessions.create_session(**{**WHO, "session_id": "short"})

    dry = await store.prune(app_name="app", keep_events=10, dry_run=True)
    assert ids(0) == ids_of(await read(store))
    report = await store.prune(app_name="app", keep_events=10)
    again = await store.prune(app_name="app", keep_events=10)

    assert (2, 1, COUNT - 10) == (dry.sessions, dry.archived_sessions, dry.archived_events)
    assert (2, 1, COUNT - 10) == (report.sessions, report.archived_sessions, report.archived_events)
    assert (0, 0) == (again.archived_sessions, again.archived_events)
    assert ids(COUNT - 10) == ids_of(await read(store))
    gone = await store.prune(app_name="app", keep_events=5, keep_latest=0)
    assert (2, 0) == (gone.pruned_sessions, gone.archived_sessions)


def turn(invocation_id: str, *parts: types.Part) -> Event:
    """Return an event of a turn."""
    return Event(
        invocation_id=invocation_id, author="agent", content=types.Content(role="model", parts=[*parts])
    )


CALL = types.Part(function_call=types.FunctionCall(id="call", name="approve"))
ANSWER = types.Part(function_response=types.FunctionResponse(id="call", name="approve", response={}))
SAID = types.Part(text="hello")


@pytest.mark.parametrize(
    ("events", "most", "kept"),
    [
        ([turn("a", SAID), turn("b", SAID), turn("c", SAID)], 2, 2),
        ([turn("a", SAID), turn("b", CALL), turn("b", ANSWER), turn("b", SAID)], 3, 1),
        ([turn("a", SAID), turn("b", SAID), turn("a", SAID)], 2, 0),
        ([turn("a", SAID), turn("b", CALL), turn("c", SAID), turn("d", ANSWER), turn("e", SAID)], 3, 1),
        ([turn("a", SAID), turn("b", CALL), turn("c", SAID), turn("d", ANSWER), turn("e", SAID)], 4, 4),
        ([turn("a", CALL), turn("b", SAID)], 1, 1),
        ([turn("", SAID), turn("", SAID)], 1, 1),
        ([turn("a", ANSWER), turn("b", SAID)], 0, 0),
        ([turn("a", SAID), turn("a", SAID)], 2, 2),
        ([], 0, 0),
    ],
)
def test_a_turn_stays_whole_and_a_call_with_its_answer(events: list[Event], most: int, kept: int) -> None:
    """A model refuses an answer without its call, and ADK raises an error for it."""
    assert kept == before_whole_turns([EventFacts.of(each) for each in events], most)


async def test_what_of_a_turn_is_in_a_payload_stays_with_it(store: Store) -> None:
    """An event that is a payload as a whole is of its turn, too; one that is gone is an error."""
    session = await store.sessions.create_session(**{**WHO, "session_id": "large"})
    large = turn("a", types.Part(text="x" * 300_000))
    for each in (turn("first", SAID), large, turn("a", SAID), turn("b", SAID)):
        await store.sessions.append_event(session, each)
    who = {**WHO, "session_id": "large"}

    before = Point.before_invocation("a")
    assert 1 == (await store.sessions.archive_session(**who, before=before, dry_run=True)).events
    assert 1 == (await store.sessions.archive_session(**who, before=Point.position(2), dry_run=True)).events
    report = await store.prune(app_name="app", keep_events=2, labels={}, dry_run=True)
    assert (2, COUNT - 2 + 1) == (report.archived_sessions, report.archived_events)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_session_that_lacks_a_segment_is_named_at_once(store: Store, *, is_known: bool) -> None:
    """Also where this process knows the segment; a prune counts the session, and archives the others."""
    if is_known:
        await store.sessions.get_session(**WHO)
    segments = await collection(store, "adk_segments")
    await store.fork_session(**WHO, to_session_id="another")
    await remove(store, min(segments))

    with pytest.raises(StoredDataError, match="segments is missing"):
        await store.sessions.archive_session(**WHO, before=Point.position(25))
    report = await store.prune(app_name="app", keep_events=10)
    assert (2, 1, 1) == (report.sessions, report.archived_sessions, report.unreadable)


def test_the_command_archives_all_but_the_newest_events(copied: Path) -> None:
    """Or those before a time; a dry run only reports."""

    async def left() -> list[str]:
        async with Store.local(copied) as store:
            return ids_of(await read(store))

    options = ["sessions", "archive", "--local", str(copied), "--json"]
    options += ["--app", "app", "--user", "user", "--session", "session"]

    dry = CliRunner().invoke(command, [*options, "--keep", "15", "--dry-run"])
    done = CliRunner().invoke(command, [*options, "--keep", "15"])
    timed = CliRunner().invoke(command, [*options, "--before", "1970-01-01T00:16:59Z"])
    both = CliRunner().invoke(command, [*options, "--before", "1970-01-01", "--keep", "1"])
    none = CliRunner().invoke(command, [*options[:-1], "other", "--keep", "1"])

    assert (0, 0, 0, 2, 1) == tuple(each.exit_code for each in (dry, done, timed, both, none)), done.output
    assert {**json.loads(dry.output), "is_dry_run": False} == json.loads(done.output)
    assert (25, 25) == (json.loads(done.output)["events"], json.loads(timed.output)["events"])
    assert "give one of --keep and --before" in both.output
    assert ids(25) == asyncio.run(left())


def test_the_page_of_long_histories_archives(tmp_path: Path) -> None:
    """Its code, and its commands, which keep the newest events."""
    names: dict[str, Any] = {}
    (code,) = [
        block for block in blocks("docs/how-to/long-histories.md", "python") if "archive_session" in block
    ]
    exec(code, names)  # noqa: S102  # the page's
    who: dict[str, Any] = {"app_name": "shop", "user_id": "ada", "session_id": "s1"}

    async def archived() -> None:
        async with Store.local(tmp_path, session_limits=SMALL) as store:
            session = await store.sessions.create_session(**who)
            for number in range(COUNT):
                await store.sessions.append_event(session, event(number))
            await store.sessions.append_event(session, Event(author="user", invocation_id="e-1"))
            await names["archive"](store)

    asyncio.run(archived())
    for line in commands("docs/how-to/long-histories.md")[0].splitlines():
        _, *options = shlex.split(line)
        ran = CliRunner().invoke(command, options, env={"ADK_STORE_LOCAL": str(tmp_path)})
        assert ran.exit_code == 0, ran.output
        assert "0 events of 0 sessions" in ran.output or f"leaves out: {COUNT}" in ran.output


async def test_many_segments_are_archived_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event is parsed once to find the point, however many commits there are.

    A history of any length takes the memory of 50 segments.
    """
    parsed: list[Event] = []
    read_at_once: list[int] = []

    async with Store.local(":memory:", session_limits=SessionLimits(seal_tail_bytes=1)) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(60):
            await store.sessions.append_event(session, event(number))
        monkeypatch.setattr(Event, "model_post_init", lambda made, _: parsed.append(made))

        documents = type(store.sessions.storage.documents)
        get = documents.get

        async def counted(self: Any, paths: Sequence[str], **more: Any) -> Any:
            read_at_once.append(len(paths))
            return await get(self, paths, **more)

        monkeypatch.setattr(documents, "get", counted)
        dry = await store.sessions.archive_session(**WHO, before=Point.position(55), dry_run=True)
        assert 60 == len(parsed)
        parsed.clear()
        found = await store.sessions.archive_session(**WHO, before=Point.position(55))

        assert (55, 55) == (found.events, found.segments) == (dry.events, dry.segments)
        assert 60 == len(parsed)
        assert 50 == max(read_at_once)
        assert ids(55, 60) == ids_of(await read(store))
        assert ids(0, 60) == [each.event.id async for each in store.sessions.iter_events(**WHO)]
        assert (await store.verify_session(**WHO)).broken is None
        assert [] == await faults(store)
