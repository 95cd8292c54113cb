"""Judge the chain of a session's events, and its redactions.

Each run of events leads exactly from its head to the next one, and ``rev`` is the number of events. Nothing
that the database holds excuses another one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from gcp_adk_store.codec.decode import StoredEvent, decode_event
from gcp_adk_store.codec.encode import encode_value
from gcp_adk_store.codec.markers import hash_of_marker
from gcp_adk_store.codec.redactions import audit_in, is_redacted
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.appends import Turns, fold, genesis, replaced_by, text_of, turns_of
from gcp_adk_store.model.json_values import finite
from gcp_adk_store.model.payloads import PayloadRef
from gcp_adk_store.model.state import split_scopes
from gcp_adk_store.sessions.fsck.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMarker:
    """A text that ends as a marker, and what the history proves of it."""

    position: int
    """Number of the event, from 0."""
    event_id: str
    """Empty if it cannot be read."""
    path: str
    """The document that holds it."""
    sha256: str
    """Hash of the event that stood there, as the marker says it, in hex digits."""
    is_fixed: bool
    """Whether it contains nothing but what a marker may."""
    sha256_of_marker: str
    says: str = ""
    """What is wrong; empty if the chain holds its redaction."""
    audits: tuple[int, ...] = ()
    """The numbers of the events that report its redaction."""
    is_bound: bool = False
    """Whether they have the hash of the marker."""


class Redactions:
    """The markers of a history, and what its events say of redactions."""

    def __init__(self) -> None:
        """Begin with an empty history."""
        self._markers: list[FoundMarker] = []
        self._listed: dict[tuple[int, str], list[tuple[int, str | None]]] = defaultdict(list)

    def add(self, position: int, text: str, path: str) -> None:
        """Take note of the event number *position* in the document at *path*; those before it were added."""
        replaced = replaced_by(text)
        if replaced is not None:
            event_id, is_fixed = "", False
            with suppress(StoredDataError):
                event_id, is_fixed = decode_event(text).event.id, True
            self._markers.append(
                FoundMarker(
                    position=position,
                    event_id=event_id,
                    path=path,
                    sha256=replaced.hex(),
                    is_fixed=is_fixed,
                    sha256_of_marker=hash_of_marker(text),
                )
            )
            return
        audit = audit_in(text)
        for one in audit.events if audit is not None else ():
            if one.position < position:
                self._listed[one.position, one.sha256].append((position, one.marker))

    def judged(self) -> list[FoundMarker]:
        """Return the markers with what is proven of each, once all events were added."""
        return [self._judged(marker) for marker in self._markers]

    def _judged(self, marker: FoundMarker) -> FoundMarker:
        listed = self._listed[marker.position, marker.sha256]
        bound = {sha256 for _, sha256 in listed if sha256 is not None}
        says = ""
        if not marker.is_fixed:
            says = "a marker stands here with content that no redaction writes"
        elif not listed:
            says = "a marker stands here, and no later event of the chain reports a redaction"
        elif bound - {marker.sha256_of_marker}:
            says = "the marker that stands here is not the one that the redaction wrote"
        audits = tuple(position for position, sha256 in listed if sha256 is not None or not bound)
        return replace(marker, says=says, audits=audits, is_bound=bool(bound))


_KEPT_CHARACTERS: Final = 1024
"""The JSON of a value up to this size is kept for a repair."""


@dataclass(frozen=True, slots=True)
class Run:
    """Events of one document: a segment, or the tail."""

    path: str
    """Path of the document."""
    texts: Sequence[str]
    events: Sequence[StoredEvent | None]
    """The same events decoded, with ``None`` for one that cannot be read."""
    begin: bytes
    """The head of the chain before them."""
    end: bytes
    code: str
    """The code of a fault in their chain."""
    references: Sequence[PayloadRef] = ()
    """The payloads that they refer to."""
    digests: Sequence[bytes] | None = None
    """The digests of the texts as they were appended, if they are known."""


@dataclass(slots=True)
class Value:
    """The value that the events gave last to a key of the state, or that it began with."""

    digest: bytes
    encoded: Any = None
    """The value as it is stored, if it is small."""
    is_small: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of the state that differs, perhaps, from what the events say."""

    key: str
    says: str
    right: Value | None
    """The right value; ``None`` if the key must be absent."""
    ref: PayloadRef | None
    """The payload that the state refers to, whose value decides."""


class History:
    """What the events so far lead to; events come in append order."""

    def __init__(self, epoch: str) -> None:
        self.events = 0
        self.newest: float | None = None
        """Their newest timestamp."""
        self.last: float | None = None
        """The timestamp of the last one."""
        self.head = genesis(epoch)
        """The head after the last run."""
        self.state_is_known = True
        """Whether every event could be read."""
        self.turns = Turns()
        self.last_text = ""
        self.references: dict[PayloadRef, str] = {}
        """Payloads and the document that refers to each."""
        self._values: dict[str, Value] = {}
        self._redacted: set[str] = set()
        """Keys of the state that a redacted event set last."""
        self._faults: list[Fault] = []
        self.redactions = Redactions()

    def add(self, run: Run) -> None:
        """Go on with the events of *run*."""
        self._follow_chain(run)
        self.references.update(dict.fromkeys(run.references, run.path))
        for position, text in enumerate(run.texts, start=self.events):
            self.redactions.add(position, text, run.path)
        for event in run.events:
            if event is None:
                self.state_is_known = False
            else:
                self._take(event)
                # Also in a copy, which has no marker: the values are gone, and may be those of the state.
                if is_redacted(event.event):
                    self._redacted |= split_scopes(event.event.actions.state_delta).session.keys()
        self.events += len(run.texts)

    def _take(self, event: StoredEvent) -> None:
        self.last = event.timestamp
        self.newest = event.timestamp if self.newest is None else max(self.newest, event.timestamp)
        self.turns = self.turns.after(turns_of(event.event))
        self.last_text = text_of(event.event) or self.last_text
        for key, value in split_scopes(event.event.actions.state_delta).session.items():
            now = Value(digest(value))
            text_size = len(value) if isinstance(value, str) else len(repr(value))
            if text_size <= _KEPT_CHARACTERS:
                with suppress(InvalidInputError):  # lone surrogates side by side are a payload at any size
                    now.encoded, now.is_small = encode_value(value, what="a state value"), True
            self._values[key] = now
            self._redacted.discard(key)

    def _follow_chain(self, run: Run) -> None:
        if run.begin != self.head:
            self._broken(run, "begin", _differ("begin", run.begin, self.head))
        found = fold(run.begin, run.texts)
        if found != run.end:
            self._broken(run, "end", _differ("end", run.end, found))
        self.head = run.end

    def _broken(self, run: Run, which: str, says: str) -> None:
        self._faults.append(Fault(code=run.code, path=run.path, item=which, says=says))

    def ended(self, revision: int) -> tuple[list[Fault], int | None]:
        """Return the faults of the chain, and the value that ``rev`` must have, ``None`` if it has it."""
        return self._faults, None if revision == self.events else self.events

    def differences(self, state: Mapping[str, Any], initial: Mapping[str, Any] | None) -> list[Difference]:
        """Return the keys of *state* that differ from *initial* with the events' changes.

        An unknown *initial* state, ``None``, says nothing of keys that no event changed.
        """
        if not self.state_is_known:
            return []
        found = []
        for key in {**dict.fromkeys(state), **dict.fromkeys(initial or ()), **dict.fromkeys(self._values)}:
            right = self._values.get(key)
            if key in self._redacted or (right is None and initial is None):
                continue
            says = "is not what the last event that changed it says"
            if right is None:
                right = Value(digest(initial[key])) if initial and key in initial else None
                says = "differs from the initial state, and no event changed it"
            stored = state.get(key)
            # An event holds null for a number that JSON lacks, such as NaN.
            if key in state and right and right.digest in (digest(stored), digest(finite(stored))):
                continue
            ref = stored if isinstance(stored, PayloadRef) and right is not None else None
            found.append(Difference(key, says, right, ref))
        return found


def _differ(which: str, found: bytes, computed: bytes) -> str:
    return f"the chain's {which} is {found.hex()[:16]}..., the events say {computed.hex()[:16]}..."


def digest(value: Any) -> bytes:
    """Return a hash of a state value, which equal values of equal types share; of a reference, its own."""
    if isinstance(value, PayloadRef):
        return hashlib.sha256(b"payload" + value.sha256.encode()).digest()
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
