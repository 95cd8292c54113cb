"""ADK's ToolCallIntegrityPlugin accepts what the store makes of sessions, and refuses what others changed."""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.events._internal_metadata import public_event as public_event_of_adk
from google.adk.plugins import ToolCallIntegrityPlugin
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Point, RedactedCallWarning, Store
from gcp_adk_store.model.internal_metadata import public_event, restored_event
from gcp_adk_store.moving import copy, export_jsonl, import_jsonl, records_of
from tests.integrity.conftest import APP, LIMITS, RESTORED, STAMPS, WHO, Bank, metadata, read
from tests.support.clock import in_days
from tests.support.stored import change, collection, fields_of

LONG = "n" * 6000
"""The note of a call whose event is a payload as a whole."""


def plugin() -> ToolCallIntegrityPlugin:
    """Return the plugin, always with the same key."""
    return ToolCallIntegrityPlugin(secret_key=b"0123456789abcdef")


async def conversation(store: Store, *said: str, **who: Any) -> tuple[Bank, Session]:
    """Make a session with a turn for each text."""
    bank = Bank(store.sessions, plugin())
    session = await store.sessions.create_session(**{**WHO, **who})
    for text in said:
        await bank.turn(session, text)
    return bank, await read(store, **who)


async def exported(store: Store) -> bytes:
    """Return the lines of an export of all sessions."""
    file = io.BytesIO()
    await export_jsonl(records_of(store.sessions, APP), file, place={}, on_event=lambda _: None)
    return file.getvalue()


async def require_sound(store: Store) -> None:
    """Require that check finds nothing, and that gc finds no payload without an event."""
    assert [] == [fault async for fault in store.check(app_name=APP)]
    with in_days(2):
        assert [] == [garbage async for garbage in store.find_garbage()]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "to",
    [
        {},
        {"to_session_id": "f"},
        {"to_user_id": "bob"},
        {"to_user_id": "bob", "to_session_id": "s"},
        {"at": Point.position(4)},
    ],
    ids=["now", "named", "user", "user-same-id", "point"],
)
async def test_an_agent_goes_on_in_a_fork(store: Store, to: dict[str, Any]) -> None:
    """Of a fork, too; what the call returns is what a reader gets, and the source is as it was."""
    bank, source = await conversation(store, "one", LONG, "three")
    fork = await store.fork_session(**WHO, **to)
    again = await read(store, user_id=fork.user_id, session_id=fork.id)
    await bank.turn(fork, "four")
    second = await store.fork_session(app_name=APP, user_id=fork.user_id, session_id=fork.id)
    await bank.turn(second, "five")
    await bank.turn(source, "six")
    after = await read(store, user_id=second.user_id, session_id=second.id)
    calls = len(metadata(fork))

    assert again == fork
    assert [{RESTORED}] * calls == metadata(fork)
    assert [{RESTORED}] * (calls + 1) + [{STAMPS}] == metadata(after)
    assert [{STAMPS}] * 4 == metadata(await read(store))
    assert source.events == (await read(store)).events[:12]
    assert ["four", "five", "six"] == bank.paid[3:]
    for session in (source, fork, second):
        proof = await store.sessions.verify_session(
            app_name=APP, user_id=session.user_id, session_id=session.id
        )
        assert proof.broken is None
    await require_sound(store)


async def test_a_fork_differs_from_its_source_in_the_metadata_of_adk_alone(store: Store) -> None:
    """In the events with calls; all others are the same texts."""
    _, source = await conversation(store, "one", LONG, "three")
    fork = await store.fork_session(**WHO)

    for mine, theirs in zip(source.events, fork.events, strict=True):
        if mine.get_function_calls():
            assert ToolCallIntegrityPlugin.prepare_restored_event(mine) == theirs
        else:
            assert mine.model_dump_json() == theirs.model_dump_json()


async def test_a_call_that_waits_in_a_fork_never_runs(store: Store) -> None:
    """Its tool asks for a confirmation: in the source it runs then, in the fork the plugin refuses it."""
    bank = Bank(store.sessions, plugin(), confirms=True)
    source = await store.sessions.create_session(**WHO)
    events = await bank.turn(source, "one")
    (asked,) = [call for event in events for call in event.get_function_calls() if call.name != "pay"]
    fork = await store.fork_session(**WHO)
    answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
    with pytest.raises(RuntimeError, match="comes from restored history and cannot be executed"):
        await bank.turn(fork, types.Part(function_response=answer))
    in_fork = [*bank.paid]
    await bank.turn(source, types.Part(function_response=answer))
    await store.turns.repair(app_name=APP, user_id=fork.user_id, session_id=fork.id)
    await bank.turn(fork, "another")

    assert [] == in_fork
    assert ["one"] == bank.paid


async def test_an_agent_goes_on_after_a_restore_and_a_rewind(store: Store) -> None:
    """The session keeps its ids, so it keeps its stamps; what was cut off goes on in a fork."""
    bank, source = await conversation(store, "one", LONG, "three")
    await bank.runner.rewind_async(
        user_id="ada", session_id="s", rewind_before_invocation_id=source.events[-1].invocation_id
    )
    await bank.turn(source, "four")
    before = source.events[4].invocation_id
    back = await store.restore_session(**WHO, at=Point.before_invocation(before), keep_as="kept")
    await bank.turn(back, "five")
    kept = await read(store, session_id="kept")
    await bank.turn(kept, "six")

    assert source.events[:4] == back.events
    assert [{STAMPS}] * 2 == metadata(await read(store))
    assert [{RESTORED}] * 4 == metadata(kept)
    await require_sound(store)


async def test_an_import_under_the_same_ids_keeps_the_stamps(store: Store) -> None:
    """The agent goes on in the other store, and an export there has the same lines."""
    await conversation(store, "one", LONG)
    lines = await exported(store)
    async with Store.local(":memory:", session_limits=LIMITS) as other:
        await import_jsonl(io.BytesIO(lines), other.sessions)
        again = await exported(other)
        bank = Bank(other.sessions, plugin())
        await bank.turn(await read(other), "three")

        assert lines == again
        assert [{STAMPS}] * 3 == metadata(await read(other))


async def test_an_import_under_other_ids_marks_the_events(store: Store) -> None:
    """Of another user, and of an id that is taken; the agent goes on in both."""
    bank, source = await conversation(store, "one", LONG)
    lines = await exported(store)
    await import_jsonl(io.BytesIO(lines), store.sessions, users={"ada": "bob"})
    report = await import_jsonl(io.BytesIO(lines), store.sessions, on_conflict="new-id")
    listed = await store.sessions.list_sessions(app_name=APP, user_id=None)
    made = [each for each in listed.sessions if (each.user_id, each.id) != (source.user_id, source.id)]
    for each in made:
        await bank.turn(each, "three")
        found = await read(store, user_id=each.user_id, session_id=each.id)

        assert [{RESTORED}, {RESTORED}, {STAMPS}] == metadata(found)
    assert (2, 1) == (len(made), report.copied)
    assert source.events == (await read(store)).events


async def test_a_copy_keeps_the_stamps(store: Store) -> None:
    """Its ids are those of the source; a second call finds nothing to do."""
    await conversation(store, "one", LONG)
    async with Store.local(":memory:", session_limits=LIMITS) as other:
        await copy(store.sessions, other.sessions, app_name=APP)
        bank = Bank(other.sessions, plugin())
        compared = await copy(store.sessions, other.sessions, app_name=APP, verify=True)
        await bank.turn(await read(other), "three")

        assert (1, 1, []) == (compared.unchanged, compared.verified, [*compared.notes])
        assert [{STAMPS}] * 3 == metadata(await read(other))


async def test_an_agent_goes_on_after_a_call_was_redacted(store: Store) -> None:
    """In the session, in a fork of it, and in what another store imports."""
    bank, source = await conversation(store, "card", LONG, "three")
    for event in source.events:
        if event.get_function_calls() and event is not source.events[-3]:
            await store.redact_event(**WHO, event_id=event.id, reason="ticket 7")
    await bank.turn(source, "four")
    fork = await store.fork_session(**WHO)
    await bank.turn(fork, "five")
    found = await read(store)
    lines = await exported(store)
    async with Store.local(":memory:", session_limits=LIMITS) as other:
        await import_jsonl(io.BytesIO(lines), other.sessions)
        elsewhere = Bank(other.sessions, plugin())
        await elsewhere.turn(await read(other), "six")

    redacted = {"adk_store_redacted", RESTORED}
    assert [redacted, redacted, {STAMPS}, {STAMPS}] == metadata(found)
    assert [redacted, redacted, {RESTORED}, {RESTORED}] == metadata(fork)
    assert b"secret" not in lines
    proof = await store.sessions.verify_session(**WHO)
    assert (None, [True, True]) == (proof.broken, [one.is_audited for one in proof.redacted])
    await require_sound(store)


async def test_a_call_that_somebody_changed_is_refused(store: Store) -> None:
    """Also after a copy: the store marks no event of a session that keeps its ids."""
    await conversation(store, "one")
    (path,) = await collection(store, "adk_sessions")
    tail = (await fields_of(store, path))["tail"]
    await change(store, path, {"tail": [text.replace('"amount":5', '"amount":6') for text in tail]})
    async with Store.local(":memory:") as other:
        await copy(store.sessions, other.sessions, app_name=APP)
        bank = Bank(other.sessions, plugin())
        with pytest.raises(RuntimeError, match="does not match its integrity stamp"):
            await bank.turn(await read(other), "two")


def without_secrets(texts: Sequence[str]) -> list[str]:
    """Replace a secret, and all hex digits of what looks like a stamp."""
    return [text.replace("secret", "***").replace("v1:", "***") for text in texts]


async def test_redactors_that_change_arguments_are_reported_once(tmp_path: Path) -> None:
    """The plugin refuses the call at once; a redactor that leaves arguments as they are is no trouble."""
    async with Store.local(tmp_path / "store", redactors=[without_secrets]) as store:
        bank = Bank(store.sessions, plugin())
        session = await store.sessions.create_session(**WHO)
        await bank.turn(session, "one")
        await bank.turn(session, "two")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for session_id in ("t", "u"):
                other = await store.sessions.create_session(**{**WHO, "session_id": session_id})
                with pytest.raises(RuntimeError, match="does not match its integrity stamp"):
                    await bank.turn(other, "card")
        stuck = await read(store, session_id="t")
        with pytest.raises(RuntimeError, match="does not match its integrity stamp"):
            await bank.turn(stuck, "later")
        (call,) = [event for event in stuck.events if event.get_function_calls()]
        await store.redact_event(**{**WHO, "session_id": "t"}, event_id=call.id, reason="its stamp is wrong")
        await bank.turn(stuck, "later")

    mine = [each for each in caught if each.category is RedactedCallWarning]
    assert 1 == len(mine)
    assert "ToolCallIntegrityPlugin" in str(mine[0].message)
    assert ["one", "two", "later"] == bank.paid


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        {"mine": {"a": 1}},
        {STAMPS: {"c": "v1:00"}},
        {"mine": 1, STAMPS: {}, "__adk_internal_other": [1]},
        {RESTORED: True},
        {"mine": 1, RESTORED: False},
    ],
)
def test_metadata_changes_as_adk_changes_it(given: dict[str, Any] | None) -> None:
    """For people, and for another session."""
    event = Event(author="agent", custom_metadata=given)
    before = event.model_copy(deep=True)

    assert public_event_of_adk(event) == public_event(event)
    assert ToolCallIntegrityPlugin.prepare_restored_event(event) == restored_event(event)
    assert before == event
