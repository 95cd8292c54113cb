"""Encode what stands in the place of a redacted event, and the event that tells of the redaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.event_payloads import referring
from gcp_adk_store.codec.events import EncodedEvent, encode_event
from gcp_adk_store.codec.fields import update
from gcp_adk_store.codec.markers import REMOVED, TEXT
from gcp_adk_store.codec.spilling import decode_ref
from gcp_adk_store.codec.values import FieldValue, encode_state
from gcp_adk_store.codec.writes import Document, Write
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.history import step
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, PayloadPlace, PayloadRef
from gcp_adk_store.model.redactions import KEY, as_marker, digests_of, hash_of, replaced_by
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.settings import SessionLimits

AUTHOR: Final = "gcp_adk_store"
"""The author of the event that tells of a redaction."""

_AUDIT: Final = "adk_store_redaction"


@dataclass(frozen=True, slots=True)
class Replaced:
    """An event that a redaction replaces."""

    position: int
    """Its number in the session, from 0."""
    sha256: str
    """Its hash, in hex digits."""
    marker: str | None
    """The SHA-256 of the marker in its place, in hex digits; ``None`` if a release before 0.2 redacted it."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the event of a redaction tells."""

    event_id: str
    reason: str
    events: Sequence[Replaced]
    state_keys: Sequence[str]
    """The keys of the state that it set to null."""


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
    told = {"sha256": hash_of(text).hex(), "reason": reason, "time": time}
    kept = Event(
        id=event.id,
        invocation_id=event.invocation_id,
        author=event.author,
        timestamp=event.timestamp,
        branch=event.branch,
        content=_shape_of(event),
        long_running_tool_ids=event.long_running_tool_ids,
        usage_metadata=event.usage_metadata,
        model_version=event.model_version,
        custom_metadata={KEY: told},
        actions=EventActions(
            artifact_delta=event.actions.artifact_delta,
            rewind_before_invocation_id=event.actions.rewind_before_invocation_id,
        ),
    )
    for name in ("isolation_scope", "node_info"):  # later than the oldest ADK that is supported
        if getattr(event, name, None) is not None:
            setattr(kept, name, getattr(event, name))
    encoded = _encoded(kept, dict.fromkeys(event.actions.state_delta), limits).text
    named = referring(encoded, {(number,): ref for number, ref in enumerate(refs)}, key=REMOVED)
    return as_marker(named, hash_of(text))


def audit_of(
    event_id: str,
    replaced: Sequence[Replaced],
    *,
    audit_id: str,
    reason: str,
    time: float,
    state: Mapping[str, None],
    limits: SessionLimits,
) -> EncodedEvent:
    """Return the event that tells of a redaction, and sets *state*."""
    told = {
        "event_id": event_id,
        "reason": reason,
        "events": [
            {"position": one.position, "sha256": one.sha256}
            | ({} if one.marker is None else {"marker": one.marker})
            for one in replaced
        ],
        "state_keys": [*state],
    }
    event = Event(id=audit_id, author=AUTHOR, timestamp=time, custom_metadata={_AUDIT: told})
    return _encoded(event, state, limits)


def removed_refs(text: str) -> list[PayloadRef]:
    """Return the payloads that the event referred to in whose place the marker *text* stands.

    Raises:
        StoredDataError: they have an unknown form.
    """
    what = f"a marker of {len(text)} characters"
    try:
        return [decode_ref(entry, what=what) for entry in json.loads(text).get(REMOVED, [])]
    except (TypeError, ValueError, AttributeError, RecursionError) as exc:
        raise StoredDataError(f"{what} names payloads in an unknown way") from exc


def told_by(text: str) -> Told | None:
    """Return what the event *text* tells of a redaction; ``None`` for any other event."""
    if f'"{_AUDIT}"' not in text or replaced_by(text) is not None:
        return None
    try:
        event = json.loads(text)
        told = event["custom_metadata"][_AUDIT]
        if event["author"] != AUTHOR:
            return None
        return Told(
            event_id=str(told["event_id"]),
            reason=str(told["reason"]),
            events=[Replaced(one["position"], one["sha256"], one.get("marker")) for one in told["events"]],
            state_keys=[*told["state_keys"]],
        )
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return None  # what an app wrote


def lost_audits(texts: Sequence[str], kept: int) -> list[Told]:
    """Return what the first *kept* of *texts* have to be told again: redactions that only later events tell.

    A marker without any such event stays without one.
    """
    markers = {(place, hash_of(text).hex()) for place, text in enumerate(texts[:kept]) if replaced_by(text)}
    if not markers:
        return []
    for text in texts[:kept]:
        told = told_by(text)
        markers -= {(one.position, one.sha256) for one in (told.events if told else ())}
    found = []
    for text in texts[kept:]:
        told = told_by(text)
        events = [one for one in (told.events if told else ()) if (one.position, one.sha256) in markers]
        if told is not None and events:
            markers -= {(one.position, one.sha256) for one in events}
            found.append(replace(told, events=events, state_keys=()))
    return found


def audits_again(told: Iterable[Told], *, time: float, limits: SessionLimits) -> list[EncodedEvent]:
    """Return the events that tell again of redactions, and change no state."""
    return [
        audit_of(
            one.event_id,
            one.events,
            audit_id=platform_uuid.new_uuid(),
            reason=one.reason,
            time=time,
            state={},
            limits=limits,
        )
        for one in told
    ]


def is_redacted(event: Event) -> bool:
    """Return whether *event* is what a reader gets in place of one that was redacted."""
    return KEY in (event.custom_metadata or {})


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


def _encoded(event: Event, state: Mapping[str, Any], limits: SessionLimits) -> EncodedEvent:
    """Return *event* in one text: neither a marker nor an audit has payloads."""
    whole = replace(limits, inline_bytes=MAX_PAYLOAD_BYTES, event_text_bytes=MAX_PAYLOAD_BYTES)
    return encode_event(event, state_delta=state, limits=whole, place=PayloadPlace.CHUNKS)


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
