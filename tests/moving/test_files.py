"""Exports are of one moment and exact, imports make them again, and Parquet has what a scan finds."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pyarrow.parquet import read_table

from gcp_adk_store import Point, SessionLimits, Store, UnavailableError
from gcp_adk_store.moving import copy, export_parquet, import_jsonl, records_of
from gcp_adk_store.testing.conformance.running import event, read
from tests.moving.hardest import APP, exported, fill, hardest, many, queried
from tests.services import test_archives as archives
from tests.support.clock import in_days
from tests.support.local_commits import before_commits

MANY = 30
"""Events of a session, in several segments."""


async def filled() -> Store:
    """Return a store in memory with sessions of two users."""
    store = Store.local(":memory:", session_limits=SessionLimits(seal_tail_bytes=4000))
    await fill(store.sessions, [("ada", "s1", hardest()), ("ada", "s2", []), ("bob", "s1", many(MANY))])
    await store.sessions.update_session_info(
        app_name=APP, user_id="ada", session_id="s1", title="T", labels={"a": "b"}
    )
    return store


async def test_an_import_makes_what_was_exported() -> None:
    """With titles, times, the initial state and the shared state; an export of it has the same lines.

    Any service of ADK takes the sessions, such as the one in memory, for tests of agents.
    """
    async with await filled() as store, Store.local(":memory:") as other:
        lines, service = await exported(store), InMemorySessionService()
        report = await import_jsonl(io.BytesIO(lines), other.sessions)
        await import_jsonl(io.BytesIO(lines), service)
        compared = await copy(store.sessions, service, app_name=APP, verify=True)
        faults = [fault async for fault in other.check(app_name=APP)]

        assert (3, 3, 8 + MANY) == (report.listed, report.copied, report.events)
        assert lines == await exported(other)
        assert (3, True) == (compared.verified, compared.is_complete)
        assert [] == faults
        assert b"" == lines.translate(None, bytes(range(0x20, 0x7F))).replace(b"\n", b"")


async def test_halves_of_surrogate_pairs_survive() -> None:
    """In texts and in keys, also in keys alone, for which pydantic puts U+FFFD, and side by side."""
    odd = event("a\ud83d", delta={"k\ud83d": ["\ude00"], "j\ud83e": 1, "m": "\ud83d\ude00"})
    keys = event("a", delta={"l\ud83d": 1})
    async with Store.local(":memory:") as store, Store.local(":memory:") as other:
        await fill(store.sessions, [("u", "s", [odd, keys])])
        lines = await exported(store)
        await import_jsonl(io.BytesIO(lines), other.sessions)
        one = await store.sessions.get_session(app_name=APP, user_id="u", session_id="s")
        two = await other.sessions.get_session(app_name=APP, user_id="u", session_id="s")
        compared = await copy(store.sessions, other.sessions, app_name=APP, verify=True)

        assert one is not None
        assert two is not None
        assert (one.events, one.state) == (two.events, two.state)
        assert (1, True) == (compared.verified, compared.is_complete)


async def test_users_get_other_ids_and_conflicts_are_settled_as_asked() -> None:
    """Left out, replaced, or with a new id."""
    async with await filled() as store, Store.local(":memory:") as other:
        lines = await exported(store, "bob")
        await import_jsonl(io.BytesIO(lines), other.sessions, users={"bob": "eve"})
        skipped = await import_jsonl(io.BytesIO(lines), other.sessions, users={"bob": "eve"})
        replaced = await import_jsonl(
            io.BytesIO(lines), other.sessions, users={"bob": "eve"}, on_conflict="overwrite"
        )
        renamed = await import_jsonl(
            io.BytesIO(lines), other.sessions, users={"bob": "eve"}, on_conflict="new-id"
        )
        listed = await other.sessions.list_sessions(app_name=APP)

        assert (1, 0) == (skipped.unchanged, skipped.events)
        assert (1, 0, MANY) == (replaced.replaced, replaced.copied, replaced.events)
        assert (1, ["ids"]) == (renamed.copied, [note.kind for note in renamed.notes])
        assert ["eve", "eve"] == [session.user_id for session in listed.sessions]


@pytest.mark.parametrize("place", ["folder", "memory"])
async def test_an_export_is_of_one_moment(tmp_path: Path, place: str) -> None:
    """What is written after its first line is not in it, in no session."""
    async with Store.local(tmp_path if place == "folder" else ":memory:") as store:
        await fill(store.sessions, [("u", f"s{number}", many(2)) for number in range(3)])
        records = records_of(store.sessions, APP)
        first = await anext(records)
        session = await store.sessions.get_session(app_name=APP, user_id="u", session_id="s2")
        assert session is not None
        await store.sessions.append_event(session, event("later", delta={"later": 1}))
        await store.sessions.delete_session(app_name=APP, user_id="u", session_id="s1")
        await fill(store.sessions, [("u", "s9", many(1))])
        rest = [
            (one.header.key.session, len([e async for e in one.events]), one.header.state)
            async for one in records
        ]

        assert "s0" == first.header.key.session
        assert ["s1", "s2"] == [name for name, _, _ in rest]
        assert [2, 2] == [count for _, count, _ in rest]
        assert all("later" not in state for _, _, state in rest)


async def test_an_export_goes_on_beside_calls_that_remove_payloads(tmp_path: Path) -> None:
    """A session that was restored is as it is then, a deleted one is left out."""
    large = event("x" * 300_000)
    async with Store.local(tmp_path) as store:
        names = ("first", "removed", "restored")
        await fill(store.sessions, [("u", name, [*many(1), large]) for name in names])
        records = records_of(store.sessions, APP)
        first = await anext(records)
        for name in ("first", "removed"):
            await store.sessions.delete_session(app_name=APP, user_id="u", session_id=name)
        await store.restore_session(app_name=APP, user_id="u", session_id="restored", at=Point.position(1))
        found = {first.header.key.session: [one.id async for one in first.events]}
        async for record in records:
            found[record.header.key.session] = [one.id async for one in record.events]

    assert {"first": 2, "restored": 1} == {name: len(ids) for name, ids in found.items()}


async def test_an_export_goes_on_beside_a_collector_of_the_users_state(tmp_path: Path) -> None:
    """Also with a session that did not change itself."""
    told = [event("told", delta={"user:told": "x" * 300_000}), event("forgotten", delta={"user:told": None})]
    async with Store.local(tmp_path) as store:
        await fill(store.sessions, [("u", "s1", []), ("u", "s2", []), ("u", "s3", told[:1])])
        records = records_of(store.sessions, APP)
        first = await anext(records)
        session = await store.sessions.get_session(app_name=APP, user_id="u", session_id="s3")
        assert session is not None
        await store.sessions.append_event(session, told[1])
        with in_days(3):
            removed = [await store.remove_garbage(one) async for one in store.find_garbage()]
        rest = [(one.header.key.session, one.shared.user) async for one in records]

    assert [True] == removed
    assert 300_000 == len(first.shared.user["told"])
    assert [("s2", {"told": None}), ("s3", {"told": None})] == rest


async def test_parquet_has_what_a_scan_finds(tmp_path: Path) -> None:
    """DuckDB reads it, with types and the documented columns."""
    async with await filled() as store:
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=5)
        call = types.Part(function_call=types.FunctionCall(name="look", args={}))
        said = Event(author="a", usage_metadata=usage, content=types.Content(role="model", parts=[call]))
        await fill(store.sessions, [("eve", "s", [said])])
        found = await export_parquet(
            records_of(store.sessions, APP), tmp_path / "out", on_event=lambda _: None
        )
        scanned = []
        listed = await store.sessions.list_sessions(app_name=APP)
        for each in sorted(listed.sessions, key=lambda one: (one.user_id, one.id)):
            session = await store.sessions.get_session(app_name=APP, user_id=each.user_id, session_id=each.id)
            assert session is not None
            scanned += [
                (
                    session.user_id,
                    session.id,
                    number,
                    one.id,
                    json.loads(one.model_dump_json(exclude_none=True)),
                )
                for number, one in enumerate(session.events)
            ]

    events, headers = (str(tmp_path / "out" / f"{name}.parquet") for name in ("events", "sessions"))
    rows, sessions, tokens = queried(
        (
            "SELECT user_id, session_id, position, event_id, event FROM read_parquet(?) ORDER BY 1, 2, 3",
            events,
        ),
        (
            (
                "SELECT user_id, session_id, events, title, labels->>'a', state->>'count'"
                " FROM read_parquet(?) ORDER BY 1, 2"
            ),
            headers,
        ),
        (
            (
                "SELECT sum(input_tokens), any_value(function_calls) FILTER (author = 'a'),"
                " min(timestamp) < now()"
                " FROM read_parquet(?)"
            ),
            events,
        ),
    )

    assert (4, 9 + MANY) == (found.sessions, found.events)
    assert scanned == [(*row[:4], json.loads(row[4])) for row in rows]
    assert [("ada", "s1", 8, "T", "b", "2"), ("ada", "s2", 0, None, None, None)] == sessions[:2]
    assert [(3, ["look"], True)] == tokens
    assert ["events.parquet", "sessions.parquet"] == sorted(
        each.name for each in (tmp_path / "out").iterdir()
    )


async def test_a_parquet_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    """Also none that begins with a dot."""

    async def failing() -> Any:
        async with await filled() as store:
            async for record in records_of(store.sessions, APP):
                yield record
                raise OSError

    with pytest.raises(OSError):  # noqa: PT011  # the one above
        await export_parquet(failing(), tmp_path, on_event=lambda _: None)

    assert [] == os.listdir(tmp_path)  # noqa: PTH208  # waits for nothing


async def test_an_import_that_ended_early_sets_shared_state_when_it_is_called_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session that is there shows that the state of its user is: the next call leaves both alone."""
    async with await filled() as store, Store.local(":memory:") as other:
        lines = await exported(store)
        with monkeypatch.context() as broken:

            async def refuse(writes: Sequence[Any]) -> None:
                if any("adk_sessions" not in write.path for write in writes):
                    raise UnavailableError("the service does not answer")

            before_commits(broken, refuse)
            with pytest.raises(UnavailableError):
                await import_jsonl(io.BytesIO(lines), other.sessions)
        await import_jsonl(io.BytesIO(lines), other.sessions)

        for user in ("ada", "bob"):
            ids = {"app_name": APP, "user_id": user}
            assert await store.sessions.get_user_state(**ids) == await other.sessions.get_user_state(**ids)
        assert {"name": "Ada"} == await other.sessions.get_user_state(app_name=APP, user_id="ada")


async def test_numbers_that_json_lacks_are_null_in_an_export(tmp_path: Path) -> None:
    """As in events: a session with one does not end the export of its app. The store itself keeps them."""
    which: dict[str, Any] = {"app_name": APP, "user_id": "u", "session_id": "s"}
    state = {"n": float("nan"), "kept": [1.5, {"x": float("inf")}]}
    async with Store.local(":memory:") as store, Store.local(":memory:") as other:
        session = await store.sessions.create_session(**which, state=state)
        delta = {"m": -float("inf"), "user:n": float("nan")}
        await store.sessions.append_event(
            session, Event(author="user", actions=EventActions(state_delta=delta))
        )
        lines = await exported(store)
        await export_parquet(records_of(store.sessions, APP), tmp_path, on_event=lambda _: None)
        await import_jsonl(io.BytesIO(lines), other.sessions)
        found = await read(other.sessions, which)
        faults = [fault async for fault in store.check(app_name=APP)]
        kept = await read(store.sessions, which)

    assert b"NaN" not in lines
    assert b"Infinity" not in lines
    assert {"n": None, "kept": [1.5, {"x": None}], "m": None, "user:n": None} == found.state
    assert -float("inf") == kept.state["m"]
    assert [] == faults
    (shown,) = read_table(tmp_path / "sessions.parquet").to_pylist()
    assert {"n": None, "kept": [1.5, {"x": None}], "m": None} == json.loads(shown["state"])
    assert "NaN" not in shown["state"]


async def test_exports_and_copies_have_archived_events() -> None:
    """In their order; the copy has nothing archived."""
    async with Store.local(":memory:", session_limits=archives.SMALL) as store:
        await archives.fill(store)
        await store.sessions.archive_session(**archives.WHO, before=Point.position(25))
        lines = [json.loads(line) for line in (await exported(store)).splitlines()]
        async with Store.local(":memory:") as other:
            report = await copy(store.sessions, other.sessions, app_name=APP, verify=True)

            assert (1, 1, 0) == (report.copied, report.verified, report.wrong)
            assert archives.ids(0) == archives.ids_of(await archives.read(other))
    assert archives.ids(0) == [line["event"]["id"] for line in lines if "event" in line]
