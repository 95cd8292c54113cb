"""Events that report redactions, and what their texts hold."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Final, Self

from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.codec.encode import EncodedEvent, decode_ref, encode_event
from gcp_adk_store.codec.markers import REMOVED
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.appends import REDACTED_KEY, hash_of, replaced_by
from gcp_adk_store.model.payloads import MAX_PAYLOAD_BYTES, PayloadPlace, PayloadRef
from gcp_adk_store.settings import SessionLimits

AUTHOR: Final = "gcp_adk_store"
"""The author of the event that reports a redaction."""


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

    @classmethod
    def read(cls, noted: Mapping[str, Any]) -> Self:
        """Return what an audit has *noted*; a ``TypeError`` if a value is of another kind."""
        found = cls(noted["position"], noted["sha256"], noted.get("marker"))
        kinds = int, str, str if found.marker is not None else NoneType
        if (type(found.position), type(found.sha256), type(found.marker)) != kinds:
            raise TypeError
        return found


@dataclass(frozen=True, slots=True)
class AuditedRedaction:
    """What the event of a redaction reports."""

    event_id: str
    reason: str
    events: Sequence[Replaced]
    state_keys: Sequence[str]
    """The keys of the state that it set to null."""


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
    """Return the event that reports a redaction, and sets *state*."""
    audit = {
        "event_id": event_id,
        "reason": reason,
        "events": [
            {"position": one.position, "sha256": one.sha256}
            | ({} if one.marker is None else {"marker": one.marker})
            for one in replaced
        ],
        "state_keys": [*state],
    }
    event = Event(id=audit_id, author=AUTHOR, timestamp=time, custom_metadata={_AUDIT: audit})
    return encoded_whole(event, state, limits)


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


def audit_in(text: str) -> AuditedRedaction | None:
    """Return what the event *text* says of a redaction; ``None`` for any other event."""
    if f'"{_AUDIT}"' not in text or replaced_by(text) is not None:
        return None
    try:
        event = json.loads(text)
        audit = event["custom_metadata"][_AUDIT]
        if event["author"] != AUTHOR:
            return None
        return AuditedRedaction(
            event_id=str(audit["event_id"]),
            reason=str(audit["reason"]),
            events=[Replaced.read(one) for one in audit["events"]],
            state_keys=[*map(str, audit["state_keys"])],
        )
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return None  # what an app wrote


def lost_audits(texts: Sequence[str], kept: int) -> list[AuditedRedaction]:
    """Return what the first *kept* of *texts* have to record again: redactions that only later events name.

    A marker without any such event stays without one.
    """
    markers = _unreported(texts[:kept])
    if not markers:
        return []
    found = []
    for text in texts[kept:]:
        audit = audit_in(text)
        events = [one for one in (audit.events if audit else ()) if (one.position, one.sha256) in markers]
        if audit is not None and events:
            markers -= {(one.position, one.sha256) for one in events}
            found.append(replace(audit, events=events, state_keys=()))
    return found


def has_unreported(texts: Sequence[str]) -> bool:
    """Return whether one of *texts* is a marker, and none reports its redaction."""
    return bool(_unreported(texts))


def _unreported(texts: Sequence[str]) -> set[tuple[int, str]]:
    """Return the markers among *texts* that none reports: the number of each, and the hash of its event."""
    markers = {(place, hash_of(text).hex()) for place, text in enumerate(texts) if replaced_by(text)}
    for text in texts if markers else ():
        audit = audit_in(text)
        markers -= {(one.position, one.sha256) for one in (audit.events if audit else ())}
    return markers


def audits_again(
    audits: Iterable[AuditedRedaction], *, time: float, limits: SessionLimits
) -> list[EncodedEvent]:
    """Return events that report redactions again, and change no state."""
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
        for one in audits
    ]


def is_redacted(event: Event) -> bool:
    """Return whether *event* is what a reader gets in place of one that was redacted."""
    return REDACTED_KEY in (event.custom_metadata or {})


def encoded_whole(event: Event, state: Mapping[str, Any], limits: SessionLimits) -> EncodedEvent:
    """Return *event* in one text: neither a marker nor an audit has payloads."""
    whole = replace(limits, inline_bytes=MAX_PAYLOAD_BYTES, event_text_bytes=MAX_PAYLOAD_BYTES)
    return encode_event(event, state_delta=state, limits=whole, place=PayloadPlace.CHUNKS)
