"""Encode what stands in the place of a redacted event, and the write of the session with it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.encode import EncodedEvent, FieldValue, encode_state, referring
from gcp_adk_store.codec.markers import REMOVED, TEXT, counted
from gcp_adk_store.codec.redactions import encoded_whole
from gcp_adk_store.codec.writes import Document, Write, update
from gcp_adk_store.model.appends import REDACTED_KEY, as_marker, digests_of, hash_of, step
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadRef
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.settings import SessionLimits


def marker_of(
    text: str,
    event: Event,
    refs: Iterable[PayloadRef],
    *,
    reason: str,
    time: float,
    limits: SessionLimits,
) -> str:
    """Return the marker that stands for the stored *text* of *event*, which referred to *refs*.

    It keeps what others rely on: ids, author, times, branch, the number of tokens, the names of state keys,
    artifacts and tools, and the ids of calls. ADK would refuse a tool's response without its call.
    """
    note = {"sha256": hash_of(text).hex(), "reason": reason, "time": time}
    kept = Event(
        id=event.id,
        invocation_id=event.invocation_id,
        author=event.author,
        timestamp=event.timestamp,
        branch=event.branch,
        content=_shape_of(event),
        long_running_tool_ids=event.long_running_tool_ids,
        usage_metadata=event.usage_metadata and counted(event.usage_metadata),
        model_version=event.model_version,
        custom_metadata={REDACTED_KEY: note},
        actions=EventActions(
            artifact_delta=event.actions.artifact_delta,
            rewind_before_invocation_id=event.actions.rewind_before_invocation_id,
        ),
    )
    for name in ("isolation_scope", "node_info"):  # later than the oldest ADK that is supported
        if getattr(event, name, None) is not None:
            setattr(kept, name, getattr(event, name))
    encoded = encoded_whole(kept, dict.fromkeys(event.actions.state_delta), limits).text
    named = referring(encoded, {(number,): ref for number, ref in enumerate(refs)}, key=REMOVED)
    return as_marker(named, hash_of(text))


def _shape_of(event: Event) -> types.Content | None:
    """Return content with the text of a marker, and the calls and responses of *event* without content."""
    if event.content is None:
        return None
    parts = [types.Part(text=TEXT)]
    for part in event.content.parts or ():
        call, response = part.function_call, part.function_response
        if call is not None:
            parts.append(types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args={})))
        if response is not None:
            empty = types.FunctionResponse(id=response.id, name=response.name, response={"result": TEXT})
            parts.append(types.Part(function_response=empty))
    return types.Content(role=event.content.role, parts=parts)


def redaction_write(
    layout: Layout,
    stored: StoredSession,
    tail: Sequence[str],
    audit: EncodedEvent,
    *,
    last_text: str,
    state: ScopedState,
    without_title: bool,
) -> Write:
    """Return the write of a session document with *tail*, which holds markers, and the *audit* after it."""
    marker = stored.marker
    texts = [*tail, audit.text]
    header: dict[str, FieldValue] = {
        "rev": stored.revision + 1,
        "last_update_time": audit.event.timestamp,
        "chain": step(marker.chain, audit.text),
        "tail": texts,
        "digests": [*stored.digests, *digests_of([audit.text])],
        "tail_bytes": sum(len(text.encode()) for text in texts),
        "redactions": stored.redactions + 1,
        "last_text": last_text,
    }
    write = update(
        layout.session(stored.key),
        header,
        must=stored.update_time,
        without=["title"] if without_title else [],
        life=stored.epoch,
    )
    cleared = encode_state(state.session)
    if not cleared:
        return write
    mask = [*(write.mask or ()), *(("state", name) for name in cleared)]
    return replace(write, fields={**write.fields, "state": cleared}, mask=mask)


def redaction_count_write(layout: Layout, stored: StoredSession) -> Write:
    """Return the write that counts a redaction which changes no event, and removes payloads after it."""
    header: dict[str, FieldValue] = {"redactions": stored.redactions + 1}
    return update(layout.session(stored.key), header, must=stored.update_time, life=stored.epoch)


def shared_writes(
    layout: Layout, key: SessionKey, state: ScopedState, found: Sequence[Document]
) -> list[Write]:
    """Return the writes of *state* of app and user, which require the documents as they were *found*."""
    times = {document.path: document.update_time for document in found}
    return [replace(write, must=times[write.path]) for write in layout.shared_state(key, state)]


def texts_in(event: Event) -> list[str]:
    """Return the texts of the content of *event*."""
    parts = (event.content.parts if event.content else None) or []
    return [part.text for part in parts if part.text]


def summaries_of(events: Sequence[Event], meant: Sequence[int]) -> tuple[str, ...]:
    """Return the ids of events that summarise the times of the *meant* ones."""
    found = []
    for event in events:
        summary = event.actions.compaction
        if summary is not None and any(
            summary.start_timestamp <= events[number].timestamp <= summary.end_timestamp for number in meant
        ):
            found.append(event.id)
    return tuple(found)
