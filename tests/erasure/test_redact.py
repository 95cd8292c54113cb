"""A redacted event leaves a marker, its hash, a proven history, and none of its content."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    Point,
    SessionConflictError,
    SessionLimits,
    Store,
)
from gcp_adk_store.testing.conformance.running import read
from tests.erasure.conftest import LIMITS, Stored, said
from tests.support.stored import change, collection, fields_of, session_path
from tests.support.traces import in_folder, traces

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
WHY: dict[str, Any] = {"reason": "ticket 7"}
REDACTED = "[this event was redacted]"
SECRET = "here-secret-here"  # noqa: S105  # a canary


def numbered(number: int, text: str = "", **options: Any) -> Event:
    """Return the event of a number."""
    made = said(text or f"event {number} {'x' * 150}", **options)
    made.id = f"e{number}"
    return made


async def fill(store: Store, *, count: int = 9) -> None:
    """Make a session of several segments and a tail."""
    session = await store.sessions.create_session(**WHO)
    for number in range(count):
        await store.sessions.append_event(session, numbered(number))


async def events_of(store: Store, session_id: str = "s") -> list[Event]:
    """Return the events of the session as a process without memory reads them."""
    found = await store.sessions.get_session(**{**WHO, "session_id": session_id})
    assert found is not None
    return found.events


@pytest.mark.parametrize(
    "where", ["tail", "segment", "inline", "whole"], ids=lambda where: f"from the {where}"
)
async def test_a_scan_finds_the_content_before_and_not_after(where: str, tmp_path: Path) -> None:
    """Neither in documents, nor in payloads, nor in freed pages of the file."""
    texts = {"tail": SECRET, "segment": SECRET + "x" * 900, "inline": "picture", "whole": SECRET * 300}
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        await fill(store, count=3)
        session = await read(store.sessions, WHO)
        data = SECRET.encode() * 20 if where == "inline" else b""
        await store.sessions.append_event(session, numbered(3, texts[where], data=data))
        if where != "tail":
            await store.sessions.append_event(session, numbered(4))
        before = traces(in_folder(tmp_path), SECRET)

        redaction = await store.redact_event(**WHO, event_id="e3", **WHY)

        assert before
        assert [] == traces(in_folder(tmp_path), SECRET)
        assert (where in ("inline", "whole")) == (redaction.payloads > 0)
        assert (await store.sessions.verify_session(**WHO)).broken is None
        assert [] == [fault async for fault in store.check()]


@pytest.mark.parametrize("event_id", ["e\ud83d", "\ud83d\ude00"], ids=["half", "two halves"])
async def test_an_event_whose_id_is_no_unicode_is_redacted(event_id: str) -> None:
    """A session holds such events; no memory does."""
    async with Store.local(":memory:") as store:
        session = await store.sessions.create_session(**WHO)
        event = numbered(0, SECRET)
        event.id = event_id
        await store.sessions.append_event(session, event)
        redaction = await store.redact_event(**WHO, event_id=event_id, **WHY, memories=True)
        (proven,) = (await store.sessions.verify_session(**WHO)).redacted

        assert (event_id, (0,), ()) == (redaction.event_id, redaction.positions, redaction.memories)
        assert (event_id, True) == (proven.event_id, proven.is_bound)
        assert SECRET not in f"{await events_of(store)}"


async def test_nothing_of_an_event_is_left_in_either_store(place: tuple[Store, Stored]) -> None:
    """On the emulators, too: text, inline data, state with a payload, and the title that repeats it."""
    store, stored = place
    await fill(store, count=2)
    session = await read(store.sessions, WHO)
    delta = {"key": SECRET, "user:key": SECRET}
    delta |= {f"{scope}large": SECRET * count for count, scope in enumerate(("", "user:", "app:"), 40)}
    await store.sessions.append_event(session, numbered(2, SECRET, data=SECRET.encode() * 20, delta=delta))
    await store.sessions.append_event(session, numbered(3, "x" * 1200))
    await store.sessions.update_session_info(**WHO, title=f"{SECRET[:10].upper()}…")
    await store.memory.add_session_to_memory(session)
    before = traces(stored(), SECRET)

    redaction = await store.redact_event(**WHO, event_id="e2", **WHY, state=True, memories=True)

    assert before
    assert [] == traces(stored(), SECRET)
    assert [] == traces(stored(), SECRET[:10].upper())
    assert {*delta} == {*redaction.state_removed}
    assert (True, ("e2",), True) == (redaction.title_removed, redaction.memories, redaction.memories_removed)
    assert (await store.sessions.verify_session(**WHO)).broken is None


async def test_a_reader_gets_a_marker_with_what_others_rely_on(store: Store) -> None:
    """Ids, author, time, token counts, calls of tools, names of keys and artifacts; no content."""
    call = types.FunctionCall(id="call-1", name="lookup", args={"card": SECRET})
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7)
    event = Event(
        id="e0",
        invocation_id="turn-1",
        author="agent",
        branch="a.b",
        timestamp=5.0,
        content=types.Content(role="model", parts=[types.Part(text=SECRET), types.Part(function_call=call)]),
        actions=EventActions(state_delta={"key": SECRET}, artifact_delta={"f.txt": 2}),
        usage_metadata=usage,
        custom_metadata={"note": SECRET},
        error_message=SECRET,
        long_running_tool_ids={"call-1"},
    )
    session = await store.sessions.create_session(**WHO)
    await store.sessions.append_event(session, event)
    await store.redact_event(**WHO, event_id="e0", **WHY)

    marker, audit = await events_of(store)

    assert SECRET not in marker.model_dump_json()
    assert ("e0", "turn-1", "agent", "a.b", 5.0) == (
        marker.id,
        marker.invocation_id,
        marker.author,
        marker.branch,
        marker.timestamp,
    )
    assert marker.content is not None
    text, kept = marker.content.parts or []
    assert (REDACTED, "call-1", "lookup", {}) == (
        text.text,
        *(
            (kept.function_call.id, kept.function_call.name, kept.function_call.args)
            if kept.function_call
            else ()
        ),
    )
    assert ({"key": None}, {"f.txt": 2}) == (marker.actions.state_delta, marker.actions.artifact_delta)
    assert usage == marker.usage_metadata
    assert {"call-1"} == marker.long_running_tool_ids
    assert "ticket 7" == (marker.custom_metadata or {})["adk_store_redacted"]["reason"]
    note = (audit.custom_metadata or {})["adk_store_redaction"]
    assert ("e0", "ticket 7", None) == (note["event_id"], note["reason"], audit.content)


async def test_other_events_and_the_state_stay(store: Store) -> None:
    """By default only recorded values go; the result names the keys that still have them."""
    session = await store.sessions.create_session(**WHO, state={"a": 0, "b": 0})
    await store.sessions.append_event(session, numbered(0, delta={"a": 1, "b": 1, "user:c": "u"}))
    await store.sessions.append_event(session, numbered(1, delta={"b": 2}))

    redaction = await store.redact_event(**WHO, event_id="e0", **WHY)

    found = await read(store.sessions, WHO)
    assert {"a": 1, "b": 2, "user:c": "u"} == found.state
    assert (("a", "user:c"), ()) == (redaction.state_kept, redaction.state_removed)
    assert ["e0", "e1", redaction.audit_id] == [event.id for event in found.events]
    assert {"b": 2} == found.events[1].actions.state_delta


async def test_values_that_the_event_gave_become_null_if_asked(store: Store) -> None:
    """A value that a later event gave stays, whatever the scope."""
    session = await store.sessions.create_session(**WHO)
    await store.sessions.append_event(session, numbered(0, delta={"a": 1, "b": 1, "user:c": 1, "app:d": 1}))
    await store.sessions.append_event(session, numbered(1, delta={"b": 2, "app:d": 2}))

    redaction = await store.redact_event(**WHO, event_id="e0", **WHY, state=True)

    found = await read(store.sessions, WHO)
    assert {"a": None, "b": 2, "user:c": None, "app:d": 2} == found.state
    assert {"a", "user:c"} == {*redaction.state_removed}
    assert [] == [fault async for fault in store.check()]


async def test_large_values_go_that_later_ones_have_replaced(store: Store) -> None:
    """In each scope."""
    session = await store.sessions.create_session(**WHO)
    for number, text in enumerate((SECRET * 10, "later")):
        delta = {f"{scope}key": f"{scope} {text}" for scope in ("", "user:", "app:")}
        await store.sessions.append_event(session, numbered(number, delta=delta))

    redaction = await store.redact_event(**WHO, event_id="e0", **WHY)

    assert (3, ()) == (redaction.payloads, redaction.state_kept)
    assert "later" in f"{(await read(store.sessions, WHO)).state}"


async def test_large_values_of_the_user_that_others_refer_to_stay(store: Store) -> None:
    """They go with the last key that has them; a dry run says how many."""
    session = await store.sessions.create_session(**WHO)
    for number, name in enumerate(("user:a", "user:b")):
        await store.sessions.append_event(session, numbered(number, delta={name: "large " * 50}))

    first = await store.redact_event(**WHO, event_id="e0", **WHY, state=True)
    found = await read(store.sessions, WHO)
    planned = await store.redact_event(**WHO, event_id="e1", **WHY, state=True, dry_run=True)
    second = await store.redact_event(**WHO, event_id="e1", **WHY, state=True)

    assert {"user:a": None, "user:b": "large " * 50} == found.state
    assert (0, 1, 1) == (first.payloads, planned.payloads, second.payloads)


async def test_a_dry_run_reports_the_same_and_writes_nothing(tmp_path: Path) -> None:
    """Byte for byte."""
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        await fill(store)
        before = await collection(store, "adk_sessions")

        planned = await store.redact_event(**WHO, event_id="e2", **WHY, dry_run=True)
        after = await collection(store, "adk_sessions")
        done = await store.redact_event(**WHO, event_id="e2", **WHY)

    assert before == after
    assert (True, "") == (planned.is_dry_run, planned.audit_id)
    assert (planned.positions, planned.sha256) == (done.positions, done.sha256)


async def test_a_second_redaction_changes_nothing(store: Store) -> None:
    """It reports the same hash, and that it is not new."""
    await fill(store)
    first = await store.redact_event(**WHO, event_id="e2", **WHY)
    events = await events_of(store)

    second = await store.redact_event(**WHO, event_id="e2", reason="another")

    assert (first.sha256, False, "") == (second.sha256, second.is_new, second.audit_id)
    assert events == await events_of(store)


async def test_forks_restores_and_points_keep_the_marker_and_stay_proven(store: Store) -> None:
    """A fork and a restore to before the audit event report the redaction again, behind the point."""
    await fill(store)
    await store.redact_event(**WHO, event_id="e1", **WHY)
    await store.fork_session(**WHO, to_session_id="fork", at=Point.position(5))
    then = await store.sessions.get_session_at(**WHO, at=Point.position(3))
    fork = await store.verify_session(**{**WHO, "session_id": "fork"})
    await store.restore_session(**WHO, at=Point.position(4))
    restored = await store.verify_session(**WHO)

    assert then is not None
    for events in (then.events, await events_of(store), await events_of(store, "fork")):
        assert "x" * 150 not in events[1].model_dump_json()
        assert "x" * 150 in events[2].model_dump_json()
    for proof in (fork, restored):
        assert proof.broken is None
        assert [(1, True, True)] == [(one.position, one.is_audited, one.is_bound) for one in proof.redacted]
    assert (6, 5) == (fork.events, restored.events)
    assert [] == [fault async for fault in store.check()]


async def test_a_handle_from_before_conflicts_and_a_merging_one_goes_on(store: Store, tmp_path: Path) -> None:
    """As after any other writer."""
    await fill(store, count=2)
    held = await read(store.sessions, WHO)
    await store.redact_event(**WHO, event_id="e1", **WHY)
    with pytest.raises(SessionConflictError):
        await store.sessions.append_event(held, numbered(5))
    async with Store.local(tmp_path, on_conflict="merge") as merging:
        await fill(merging, count=2)
        old = await read(merging.sessions, WHO)
        await merging.redact_event(**WHO, event_id="e1", **WHY)
        await merging.sessions.append_event(old, numbered(5))
        proof = await merging.verify_session(**WHO)

        assert (4, None) == (proof.events, proof.broken)


async def test_memories_and_summaries_of_the_event_are_named(store: Store) -> None:
    """The memory has its id; a compaction covers its time. Neither goes unless it is asked for."""
    session = await store.sessions.create_session(**WHO)
    await store.sessions.append_event(session, numbered(0, SECRET))
    summary = EventCompaction(
        start_timestamp=session.events[0].timestamp - 1,
        end_timestamp=session.events[0].timestamp + 1,
        compacted_content=types.Content(parts=[types.Part(text=SECRET)]),
    )
    await store.sessions.append_event(
        session, Event(id="c", author="agent", actions=EventActions(compaction=summary))
    )
    await store.memory.add_session_to_memory(session)
    entry = MemoryEntry(id="other", content=types.Content(parts=[types.Part(text="other")]))
    await store.memory.add_memory(app_name="app", user_id="user", memories=[entry])

    named = await store.redact_event(**WHO, event_id="e0", **WHY)
    removed = await store.redact_event(**WHO, event_id="e0", **WHY, memories=True)
    again = await read(store.sessions, WHO)
    await store.memory.add_session_to_memory(again)
    left = await store.memory.list_memories(app_name="app", user_id="user")

    assert (("e0",), False, ("c",)) == (named.memories, named.memories_removed, named.compactions)
    assert (("e0",), True) == (removed.memories, removed.memories_removed)
    assert {"other"} == {each.id for each in left.memories}


async def test_a_marker_without_an_audit_event_is_a_break(store: Store) -> None:
    """Whoever can write the database cannot pass off a deletion as a redaction."""
    await fill(store, count=2)
    fork = {**WHO, "session_id": "fork"}
    await store.fork_session(**WHO, to_session_id="fork")
    await store.redact_event(**fork, event_id="e1", **WHY)
    redacted = (await fields_of(store, session_path(fork)))["tail"]
    plain = (await fields_of(store, session_path(WHO)))["tail"]
    await change(store, session_path(WHO), {"tail": [plain[0], redacted[1]]})

    broken = (await store.verify_session(**WHO)).broken

    assert broken is not None
    assert (1, "e1", "redacted") == (broken.position, broken.event_id, broken.change)


async def test_what_an_app_writes_is_never_taken_for_a_marker(store: Store) -> None:
    """Neither in texts, nor in metadata, nor in state, however it ends."""
    forged = ',"adk_store_redacted":{"sha256":"' + "ab" * 32 + '"}}'
    session = await store.sessions.create_session(**WHO)
    nested = {"adk_store_redacted": {"sha256": "ab" * 32}}
    given: list[dict[str, Any]] = [
        {"custom_metadata": {"a": 1, **nested}},
        {"error_message": forged},
        {"actions": EventActions(state_delta={"a": forged, **nested})},
    ]
    for number, options in enumerate(given):
        await store.sessions.append_event(session, Event(id=f"e{number}", author="agent", **options))

    proof = await store.verify_session(**WHO)

    assert (3, None, ()) == (proof.events, proof.broken, proof.redacted)


@pytest.mark.parametrize("noted", [{"position": "0"}, {"sha256": ["ab"]}], ids=str)
async def test_what_an_app_notes_as_a_redaction_takes_no_proof(store: Store, noted: dict[str, Any]) -> None:
    """It is an event like others, whatever the kinds of its values."""
    events = [{"position": 0, "sha256": "ab", **noted}]
    note = {"event_id": "e0", "reason": "why", "state_keys": [], "events": events}
    session = await store.sessions.create_session(**WHO)
    metadata = {"adk_store_redaction": note}
    for author in ("user", "gcp_adk_store"):
        event = Event(id=author, author=author, custom_metadata=metadata)
        await store.sessions.append_event(session, event)

    assert [] == [each async for each in store.check(app_name="app")]
    await store.redact_event(**WHO, event_id="gcp_adk_store", **WHY)
    proof = await store.verify_session(**WHO)

    assert (None, [True]) == (proof.broken, [one.is_bound for one in proof.redacted])


@pytest.mark.filterwarnings("ignore:new one is not a valid")
async def test_an_event_is_redacted_whose_usage_has_a_word_that_this_release_does_not_know(
    store: Store,
) -> None:
    """Its marker counts the tokens, and leaves the word out."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=7,
        prompt_tokens_details=[types.ModalityTokenCount.model_validate({"modality": "new one"})],
    )
    session = await store.sessions.create_session(**WHO)
    await store.sessions.append_event(session, Event(id="e0", author="agent", usage_metadata=usage))

    await store.redact_event(**WHO, event_id="e0", **WHY)

    marker, _ = await events_of(store)
    assert types.GenerateContentResponseUsageMetadata(prompt_token_count=7) == marker.usage_metadata


async def test_what_reports_a_redaction_is_not_redacted(store: Store) -> None:
    """Without it, the marker would have no proof."""
    await fill(store)
    redaction = await store.redact_event(**WHO, event_id="e0", **WHY)
    with pytest.raises(InvalidInputError, match="the event reports a redaction"):
        await store.redact_event(**WHO, event_id=redaction.audit_id, **WHY)

    assert (await store.sessions.verify_session(**WHO)).broken is None


async def test_a_full_document_takes_a_redaction() -> None:
    """Its events move to a segment first, as they do for an append."""
    limits = SessionLimits(seal_tail_bytes=10**9)
    async with Store.local(":memory:", session_limits=limits) as store:
        session = await store.sessions.create_session(**WHO)
        for number, size in enumerate([10, 250_000, 250_000, 250_000, 250_000, 46_000]):
            await store.sessions.append_event(session, numbered(number, "x" * size))
        await store.redact_event(**WHO, event_id="e0", **WHY)
        proof = await store.verify_session(**WHO)
        fields = await fields_of(store, session_path(WHO))

    assert (7, None, 1) == (proof.events, proof.broken, len(proof.redacted))
    assert (1, 1) == (fields["sealed"], len(fields["tail"]))


async def test_markers_that_no_reader_unpacks_are_refused(store: Store) -> None:
    """A large event is a payload, and its marker is not; the session stays as it is."""
    session = await store.sessions.create_session(**WHO)
    for number in range(6):
        branch = "b" * 2_200_000 if number < 2 else None
        await store.sessions.append_event(session, numbered(number).model_copy(update={"branch": branch}))
    await store.redact_event(**WHO, event_id="e0", **WHY)
    with pytest.raises(InvalidInputError, match="events of one segment would take"):
        await store.redact_event(**WHO, event_id="e1", **WHY)

    assert "e1" in [event.id for event in await events_of(store)]
    assert (await store.sessions.verify_session(**WHO)).broken is None


async def test_all_events_of_an_id_are_redacted(store: Store) -> None:
    """ADK does not require that ids differ; each has its hash."""
    session = await store.sessions.create_session(**WHO)
    for text in ("one", "two"):
        await store.sessions.append_event(session, numbered(0, text))

    redaction = await store.redact_event(**WHO, event_id="e0", **WHY)

    assert ((0, 1), 2) == (redaction.positions, len({*redaction.sha256}))
    assert "two" not in json.dumps([event.model_dump(mode="json") for event in await events_of(store)])
