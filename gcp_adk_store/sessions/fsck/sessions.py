"""Decide what is wrong with the document of a session, and with its segments."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from gcp_adk_store.codec.encode import FieldValue, encode_state
from gcp_adk_store.codec.packing import unpack_archive, unpack_segment
from gcp_adk_store.codec.segments import LABEL_SET, archived_fields
from gcp_adk_store.codec.stored import read_segment, read_session
from gcp_adk_store.codec.writes import Document, Write, kept_until, update
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.appends import fold
from gcp_adk_store.model.payloads import PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.sessions.fsck.faults import Fault
from gcp_adk_store.sessions.fsck.history import Difference, History

_SHOWN: Final = 40  # characters of a state key


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A session document that can be read, and its fields as they are stored."""

    stored: StoredSession
    document: Document

    @property
    def raw(self) -> Mapping[str, Any]:
        """Its fields as they are stored."""
        return self.document.fields

    @property
    def path(self) -> str:
        """Path of the document."""
        return self.document.path

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its segments, oldest first."""
        return self.stored.live

    @property
    def cut(self) -> frozenset[int]:
        """Numbers of segments that a restore cut off."""
        return frozenset(number for run in self.stored.cut for number in run)

    def fault(
        self,
        code: str,
        item: str,
        says: str,
        fields: Mapping[str, FieldValue] | None = None,
        *,
        without: Sequence[str] = (),
    ) -> Fault:
        """Return a fault of the document; *fields* and *without* repair it."""
        if fields is None:
            return Fault(code=code, path=self.path, item=item, says=says)
        must, life = self.document.update_time, self.stored.epoch
        repair = update(self.path, fields, must=must, without=without, life=life)
        return Fault(code=code, path=self.path, item=item, says=says, repair=(repair,))


def read_header(document: Document) -> Header | Fault:
    """Return the session in *document*, or why it cannot be read.

    What the reader refuses because two fields contradict each other does not count here: the checks of the
    single fields report it, and repair it.
    """
    try:
        return Header(stored=read_session(document, is_judged=False), document=document)
    except StoredDataError as exc:
        return Fault(code="FSCK101", path=document.path, says=str(exc))


def header_faults(header: Header, *, place: PayloadPlace) -> Iterator[Fault]:
    """Yield what the document of a session says about itself alone; new payloads go to *place*."""
    stored, fields = header.stored, header.raw
    if not header.numbers and fields["sealed_max"] is not None:
        yield header.fault("FSCK105", "sealed_max", "is set without segments", {"sealed_max": None})
    if header.numbers and fields["sealed_max"] is None:
        yield header.fault("FSCK105", "sealed_max", f"is missing with {stored.sealed} segments")
    has_initial = fields.get("initial") is not None or fields.get("initial_payload") is not None
    if "archived" in fields and not stored.archived.events:
        says = "counts more events or segments than there are"
        yield header.fault("FSCK121", "archived", says, {}, without=["archived"])
    if "initial" in fields and "initial_payload" in fields:
        yield header.fault("FSCK109", "initial_payload", "is set beside initial")
    if not has_initial and not header.numbers:
        yield header.fault("FSCK109", "initial", "is missing before the first seal")
    if PayloadPlace.BUCKET in stored.spilled and place is not PayloadPlace.BUCKET:
        says = "names the bucket, and this store was opened without one: open it with its bucket"
        yield header.fault("FSCK108", "bucket", says)
    expiry = stored.expiry
    if expiry is not None and expiry.parts_at is None and (header.numbers or stored.spilled):
        yield header.fault("FSCK110", "parts_expire_at", "is missing, and the session has parts")
    if expiry is not None and expiry.outlives_its_parts:
        says = "is before expire_at; the next append renews the parts"
        yield header.fault("FSCK110", "parts_expire_at", says)


def missing_segments(header: Header, there: Sequence[int], *, named: AbstractSet[int]) -> Iterator[Fault]:
    """Yield the segments that a session lacks, and those that it does not count, of the numbers *there*.

    Notes of restores say that those *named* are to be removed.
    """
    expected = frozenset(header.numbers)
    for number in sorted(expected - set(there)):
        says = f"is missing; the session counts {header.stored.sealed}"
        yield Fault(code="FSCK201", path=header.path, item=f"segment {number}", says=says)
    for number in sorted(set(there) - expected - header.cut):
        says = f"is there; the session counts {header.stored.sealed}"
        yield Fault(code="FSCK206", path=header.path, item=f"segment {number}", says=says)
    for number in sorted(set(there) & header.cut - named):
        says = "is there, and no note of a restore names it"
        yield Fault(code="FSCK209", path=header.path, item=f"segment {number}", says=says)


def read_counted_segment(document: Document, archive: bytes | None) -> tuple[Segment | None, list[Fault]]:
    """Return the events of a segment, also if it counts them wrong, and what is wrong with it.

    *archive* has them if they are archived.
    """
    try:
        return read_segment(document, archive), []
    except StoredDataError as exc:
        unreadable = Fault(code="FSCK202", path=document.path, says=str(exc))
    body, count = document.fields.get("body"), document.fields.get("count")
    try:
        texts = unpack_segment(body) if isinstance(body, bytes) else unpack_archive(archive or b"")
        if type(count) is not int or not texts or count == len(texts):
            return None, [unreadable]
        counted = replace(document, fields={**document.fields, "count": len(texts)})
        segment = read_segment(counted, archive)
    except StoredDataError:
        return None, [unreadable]
    repair = update(document.path, {"count": len(texts)}, must=document.update_time)
    says = f"is {count}, the segment holds {len(texts)} events"
    return segment, [Fault(code="FSCK203", path=document.path, item="count", says=says, repair=(repair,))]


def segment_faults(
    header: Header, document: Document, number: int, segment: Segment, newest: float | None
) -> list[Fault]:
    """Return what is wrong with one segment; *newest* is the newest timestamp up to its end."""
    found = []

    def fault(code: str, item: str, says: str, fields: Mapping[str, FieldValue] | None = None) -> None:
        repair = () if fields is None else (update(document.path, fields, must=document.update_time),)
        found.append(Fault(code=code, path=document.path, item=item, says=says, repair=repair))

    if newest is not None and segment.running_max != newest:
        says = f"is {segment.running_max}, the events say {newest}"
        fault("FSCK204", "running_max", says, {"running_max": newest})
    has_initial = segment.initial is not None
    is_first = header.numbers[0] == number
    if has_initial and not is_first:
        fault("FSCK109", "initial", f"is in segment {number}, it belongs into the first one")
    if not has_initial and is_first:
        fault("FSCK109", "initial", "is missing in the first segment")
    return found


def archived_fault(header: Header, number: int, *, begin: int, end: int) -> Iterator[Fault]:
    """Yield a fault if reads leave out the segment *number*, and not all of its events are archived.

    *begin* and *end* are the numbers of events before it and after it.
    """
    archived = header.stored.archived
    if number < archived.segments and begin <= archived.events < end:
        says = f"counts {archived.events} events, and segments up to event {end}, which reads leave out"
        right = archived_fields(replace(archived, segments=number))
        yield header.fault("FSCK121", "archived", says, right)


def part_expiry_faults(expiry: Expiry | None, document: Document) -> list[Fault]:
    """Return a fault if a segment or a chunk expires at a wrong time for an owner that expires so."""
    at = document.fields.get("expire_at")
    if expiry is None:
        if at is None:
            return []
        says = "is set, and its owner has no time to live"
        repair = update(document.path, {}, must=document.update_time, without=("expire_at",))
    else:
        least = max(expiry.at, expiry.parts_at or 0)
        if isinstance(at, datetime) and at.timestamp() >= least:
            return []
        says = "is before parts_expire_at" if isinstance(at, datetime) else "is not a time"
        repair = update(document.path, {"expire_at": kept_until(least)}, must=document.update_time)
    return [Fault(code="FSCK208", path=document.path, item="expire_at", says=says, repair=(repair,))]


def tail_run_head(header: Header, history: History) -> tuple[bytes, list[Fault]]:
    """Return the head before the tail, and a fault if ``chain_sealed`` is another, as the rest proves."""
    stored: bytes = header.raw["chain_sealed"]
    if stored != history.head and fold(history.head, header.stored.tail) == header.stored.chain:
        says = f"is {stored.hex()[:16]}..., the newest segment ends with {history.head.hex()[:16]}..."
        return history.head, [header.fault("FSCK107", "chain_sealed", says, {"chain_sealed": history.head})]
    return stored, []


def ended_faults(header: Header, history: History, *, last_max: float | None) -> list[Fault]:
    """Return what contradicts the events; *last_max* is ``running_max`` of the newest segment, if known."""
    stored, fields = header.stored, header.raw
    revision: int = fields["rev"]
    found, right = history.ended(revision)
    found = [*found]
    is_broken = bool(found)  # then nothing follows from the events
    repair: dict[str, FieldValue] | None
    if right is not None:
        says = f"is {revision}, the events say {right}"
        repair = {"rev": right} if not is_broken else None
        found.append(header.fault("FSCK102", "rev", says, repair))
    size = sum(len(text.encode()) for text in stored.tail)
    if fields["tail_bytes"] != size:
        repair = None if is_broken else {"tail_bytes": size}
        says = f"is {fields['tail_bytes']}, the tail takes {size}"
        found.append(header.fault("FSCK103", "tail_bytes", says, repair))
    found += summary_faults(header, history, is_broken=is_broken)
    for marker in history.redactions.judged():
        if marker.says and marker.is_fixed:  # otherwise it cannot be read as an event
            item = f"event {marker.position}"
            found.append(Fault(code="FSCK120", path=marker.path, item=item, says=marker.says))
    if last_max is not None and fields["sealed_max"] is not None and fields["sealed_max"] != last_max:
        says = f"is {fields['sealed_max']}, the newest segment says {last_max}"
        found.append(header.fault("FSCK105", "sealed_max", says, {"sealed_max": last_max}))
    last: float = fields["last_update_time"]
    if not history.events:
        create_time = stored.create_time
        if last != create_time:
            says = f"is {last}, create_time is {create_time}, and the session has no event"
            found.append(header.fault("FSCK104", "last_update_time", says))
    elif history.last is not None and last != history.last:
        says = f"is {last}, the last event says {history.last}"
        repair = None if is_broken else {"last_update_time": history.last}
        found.append(header.fault("FSCK104", "last_update_time", says, repair))
    return found


def summary_faults(header: Header, history: History, *, is_broken: bool) -> Iterator[Fault]:
    """Yield what contradicts the events in what listings show, and ``label_set`` if it is not ``labels``."""
    raw = header.raw
    if history.state_is_known:
        right: dict[str, FieldValue] = {"turns": history.turns.count, "last_turn": history.turns.last}
        if "turns" in raw and {name: raw.get(name) for name in right} != right:
            says = f"is {raw['turns']}, the events say {history.turns.count}"
            yield header.fault("FSCK112", "turns", says, None if is_broken else right)
        if "last_text" in raw and raw["last_text"] != history.last_text:
            fields: dict[str, FieldValue] | None = None if is_broken else {"last_text": history.last_text}
            yield header.fault("FSCK112", "last_text", "is not that of the events", fields)
    labels = raw.get("labels", {})
    texts = [f"{name}={value}" for name, value in labels.items()] if isinstance(labels, dict) else []
    label_set = raw.get(LABEL_SET, [])
    if not isinstance(label_set, list) or sorted(map(str, label_set)) != sorted(texts):
        says = f"does not have the {len(texts)} labels"
        is_known = isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values())
        fields = ({LABEL_SET: texts} if texts else {}) if is_known else None
        yield header.fault("FSCK113", LABEL_SET, says, fields, without=() if texts else (LABEL_SET,))


def state_fault(header: Header, difference: Difference, *, is_proven: bool) -> Fault:
    """Return the fault of one key of the state; the events' value repairs it if the chain *is_proven*."""
    repair: tuple[Write, ...] = ()
    if is_proven and difference.right is not None and difference.right.is_small:
        (name,) = encode_state({difference.key: None})
        fields: dict[str, FieldValue] = {"state": {name: difference.right.encoded}}
        path, must, life = header.path, header.document.update_time, header.stored.epoch
        repair = (Write(path=path, fields=fields, mask=[("state", name)], must=must, life=life),)
    item, says = f"state key {difference.key[:_SHOWN]!r}", f"the value {difference.says}"
    return Fault(code="FSCK106", path=header.path, item=item, says=says, repair=repair)


def sealed_initial_fault(
    header: Header, first: Segment | None, initial: Mapping[str, Any] | PayloadRef | None
) -> list[Fault]:
    """Return a fault if a session with segments still holds its initial state itself."""
    if not header.numbers or ("initial" not in header.raw and "initial_payload" not in header.raw):
        return []
    same = first is not None and first.initial is not None and repr(first.initial) == repr(initial)
    names = [name for name in ("initial", "initial_payload") if name in header.raw]
    says = "is in the session document after the first seal"
    return [header.fault("FSCK109", "initial", says, {} if same else None, without=names)]


def wrong_places(header: Header, references: Mapping[PayloadRef, str]) -> list[Fault]:
    """Return a fault if ``spilled`` lacks the place of a payload that the session refers to."""
    places = {ref.place for ref in references} - header.stored.spilled
    right = sorted(place.value for place in places | header.stored.spilled)
    return [
        header.fault("FSCK108", place.value, "is missing in spilled", {"spilled": right})
        for place in sorted(places, key=lambda place: place.value)
    ]
