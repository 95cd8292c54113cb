"""Read the documents of a session, as :class:`~gcp_adk_store.codec.documents.Layout` wrote them.

Each function raises ``StoredDataError`` for a document that has another format, lacks a field or is damaged.
The error names the path, and the field with its kind, never the content.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from gcp_adk_store.codec.decode import decode_state, error_of, kind_of, kind_of_content
from gcp_adk_store.codec.documents import UNCHANGED_FORMAT
from gcp_adk_store.codec.encode import decode_ref
from gcp_adk_store.codec.names import escape_name
from gcp_adk_store.codec.packing import MAX_SEGMENTS, MAX_UNPACKED_BYTES, unpack_archive, unpack_segment
from gcp_adk_store.codec.segments import ARCHIVED_FORMAT
from gcp_adk_store.codec.writes import FORMAT, Document
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.appends import DIGEST_BYTES, Turns
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import (
    MAX_HOLDER,
    MAX_TTL_S,
    Archived,
    Expiry,
    Turn,
    are_runs,
    newest_live,
)
from gcp_adk_store.model.sessions import Origin, Segment, StoredSession

MAX_COUNT: Final = 10**18 - 1
"""The highest count that fits the marker of a handle."""

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Head = Annotated[bytes, Field(min_length=32, max_length=32)]
Epoch = Annotated[str, Field(pattern=r"^[^%/`\\\x00-\x1f\x7f]{1,200}$")]
"""Documents' ids contain it unchanged."""


class DocumentFields(BaseModel):
    """Fields of a document; a value of another kind is damage."""

    model_config = ConfigDict(strict=True)

    formats: ClassVar[tuple[int, ...]] = (UNCHANGED_FORMAT,)
    """The numbers of such documents that this release reads."""


Kind = TypeVar("Kind", bound=DocumentFields)


def require_format(document: Document, *formats: int) -> None:
    """Refuse *document* if it has none of the *formats*."""
    found = document.fields.get("format")
    if type(found) is int and found in formats:
        return
    shown = found if found is None or type(found) is int else kind_of(found)
    known = " and ".join(map(str, formats))
    advice = "no release wrote it: restore the document"
    if type(found) is int and found > max(formats):
        advice = "upgrade gcp-adk-store"
    elif type(found) is int and 0 < found < min(formats):
        advice = "it is from before the first release; export it with that version, and import it here"
    raise StoredDataError(f"{document.path} has format {shown}, this release reads {known}; {advice}")


def read_fields(kind: type[Kind], document: Document) -> Kind:
    """Return some fields of *document*; each has the required kind and value."""
    require_format(document, *kind.formats)
    try:
        return kind.model_validate(document.fields)
    except ValidationError as exc:
        problem = exc.errors(include_url=False, include_context=False)[0]
    # Outside of the block: pydantic's error quotes the content.
    name, *indexes = problem["loc"]
    where = "".join([str(name), *(f"[{index}]" for index in indexes)])
    if problem["type"] == "missing":
        raise StoredDataError(f"{document.path} lacks {where}")
    if problem["type"].endswith("_type"):
        found, error = problem["input"], error_of(problem["input"])
        raise error(f"{document.path} has a field of a wrong kind: {where} is {kind_of_content(found)}")
    raise wrong(document.path, where)


def wrong(path: str, name: str) -> StoredDataError:
    """Return the error for a field of the document at *path* whose value contradicts others."""
    return StoredDataError(f"{path} has a field that cannot be right: {name}")


_EPOCH: Final = datetime.fromtimestamp(0, UTC)

Digest = Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


class _Body(DocumentFields):
    body: bytes


class _OfSession(DocumentFields):
    formats: ClassVar[tuple[int, ...]] = (FORMAT,)


class _Initial(_OfSession):
    initial: dict[str, Any] | None = None
    initial_payload: dict[str, Any] | None = None


class _Segment(_Initial):
    formats: ClassVar[tuple[int, ...]] = (FORMAT, ARCHIVED_FORMAT)

    body: bytes | None = None
    archive: dict[str, Any] | None = None
    count: Count
    running_max: Number
    chain_begin: Head
    chain_end: Head
    digests: bytes | None = None
    window: bytes = b""
    conflicts: Count = 0

    @property
    def each_digest(self) -> list[bytes] | None:
        if self.digests is None:
            return None
        starts = range(0, len(self.digests), DIGEST_BYTES)
        return [self.digests[start : start + DIGEST_BYTES] for start in starts]


class _State(DocumentFields):
    state: Annotated[dict[str, Any], Field(default_factory=dict)]


class PartFields(_OfSession):
    """The fields that name the parts of a session: segments and payloads."""

    epoch: Epoch
    sealed: Annotated[int, Field(ge=0, le=MAX_SEGMENTS)]
    spilled: Annotated[frozenset[Annotated[PayloadPlace, Strict(strict=False)]], Strict(strict=False)] = (
        frozenset()
    )


class RunFields(DocumentFields):
    """A run of numbers of segments."""

    model_config = ConfigDict(strict=True, extra="forbid")

    start: Annotated[int, Field(alias="from", ge=0, le=MAX_SEGMENTS)]
    to: Annotated[int, Field(ge=0, le=MAX_SEGMENTS)]


class _ArchivedMap(BaseModel):
    model_config = ConfigDict(strict=True)

    events: Count
    segments: Annotated[int, Field(ge=0, le=MAX_SEGMENTS)]


class _TurnMap(BaseModel):
    model_config = ConfigDict(strict=True)

    fence: Count
    holder: Annotated[str, Field(max_length=MAX_HOLDER)] = ""
    until: Annotated[datetime, Field(ge=_EPOCH)] | None = None
    abort: bool = False


class _Header(PartFields):
    app: str
    user: str
    id: str
    rev: Count
    last_update_time: Number
    sealed_max: Number | None
    chain: Head
    restores: Count = 0
    redactions: Count = 0
    cut: Annotated[list[RunFields], Field(default_factory=list)]
    turns: Count = 0
    last_turn: Annotated[str, Field(pattern=r"^([0-9a-f]{16})?$")] = ""
    archived: _ArchivedMap | None = None
    turn: _TurnMap | None = None
    inbox: list[str] = Field(default_factory=list)


class _HeaderWithState(_Header):
    state: dict[str, Any]


class _OriginFields(BaseModel):
    model_config = ConfigDict(strict=True)

    app: str
    user: str
    session: str
    epoch: str
    position: Count


class _TailDigests(_OfSession):
    digests: Annotated[list[Digest], Field(default_factory=list)]


class _Session(_HeaderWithState, _TailDigests, _Initial):
    create_time: Number
    tail: list[str]
    tail_bytes: Count
    chain_sealed: Head
    restore_id: str | None = None
    origin: _OriginFields | None = None
    conflicts: Count = 0


class _Expiry(_OfSession):
    ttl_s: Annotated[int, Field(ge=0, le=MAX_TTL_S)]
    expire_at: Annotated[datetime, Field(ge=_EPOCH)]
    parts_expire_at: Annotated[datetime, Field(ge=_EPOCH)] | None = None


_READ_LATER: Final = "inbox"
"""What a listing leaves out: messages may be long."""

HEADER_WITHOUT_STATE: Final = (
    "format",
    *(name for name in (*_Header.model_fields, *_Expiry.model_fields) if name != _READ_LATER),
)

HEADER_FIELDS: Final = (*HEADER_WITHOUT_STATE, "state")
"""The part of a session that a listing reads: everything but its events."""

HEADER_WITH_DIGESTS: Final = (*HEADER_FIELDS, _READ_LATER, "tail_bytes", "digests")
"""What a read of a session without its events needs for later appends, and for a turn that begins with it."""

TURN_FIELDS: Final = (*HEADER_WITHOUT_STATE, _READ_LATER)
"""What is read to take a turn."""


def read_session(document: Document, *, is_judged: bool = True) -> StoredSession:
    """Return the session in *document*.

    If it is not *is_judged*, fields may contradict each other: ``rev`` counts the tail at least, more
    archived events than there are count as none, and the document's own initial state goes before a payload.
    """
    fields = read_fields(_Session, document)
    if not is_judged:
        fields.rev = max(fields.rev, fields.sealed + len(fields.tail))
    stored = _session(document, fields, fields.state, is_judged=is_judged)
    if is_judged:
        if bool(fields.tail) != bool(fields.tail_bytes):  # the value before a seal emptied the tail
            raise wrong(document.path, "tail_bytes")
        if fields.rev < len(stored.live) + len(fields.tail):  # each segment holds at least one event
            raise wrong(document.path, "rev")
        if not fields.tail and fields.chain_sealed != stored.chain:
            raise wrong(document.path, "chain_sealed")
    return replace(
        stored,
        tail=fields.tail,
        digests=tuple(fields.digests),
        chain_sealed=fields.chain_sealed,
        restore_id=fields.restore_id,
        initial=_initial(document, fields, is_judged=is_judged),
        create_time=fields.create_time,
        origin=None if fields.origin is None else Origin(**fields.origin.model_dump()),
        conflicts=fields.conflicts,
    )


def read_header(document: Document, *, with_state: bool = True) -> StoredSession:
    """Return the session in *document* of a listing, without its tail and perhaps without its state."""
    if not with_state:
        return _session(document, read_fields(_Header, document), {})
    fields = read_fields(_HeaderWithState, document)
    return _session(document, fields, fields.state)


def read_tail_digests(document: Document) -> Sequence[bytes] | None:
    """Return the digests of the tail in a document that was read without it; ``None`` if they lack some."""
    digests = read_fields(_TailDigests, document).digests
    return digests if bool(digests) == bool(document.fields.get("tail_bytes")) else None


def read_state(document: Document | None) -> dict[str, Any]:
    """Return the state of an app or a user; without a document it is empty."""
    return {} if document is None else _decoded(document, read_fields(_State, document).state)


def archive_of(document: Document) -> PayloadRef | None:
    """Return what holds the events of the segment in *document*; ``None`` if the document does."""
    if document.fields.get("archive") is None or document.fields.get("body") is not None:
        return None
    return _archive_in(document, read_fields(_Segment, document))


def _archive_in(document: Document, fields: _Segment) -> PayloadRef | None:
    if (fields.archive is None) != (document.fields["format"] == FORMAT):
        raise wrong(document.path, "archive")
    if fields.archive is None:
        return None
    ref = _ref(document, fields.archive, "archive")
    if ref.size > MAX_UNPACKED_BYTES:  # of no segment: refused before anybody reads so much
        raise wrong(document.path, "archive")
    return ref


def read_segment(document: Document, archive: bytes | None = None) -> Segment:
    """Return the run of events in *document*; *archive* is what :func:`archive_of` it names."""
    fields = read_fields(_Segment, document)
    ref = _archive_in(document, fields)
    if fields.body is None and archive is None:
        what = "lacks body" if ref is None else "has archived events, which were not read"
        raise StoredDataError(f"{document.path} {what}")
    try:
        texts = unpack_archive(archive or b"") if fields.body is None else unpack_segment(fields.body)
    except StoredDataError as exc:
        raise StoredDataError(f"{document.path}: {exc}") from exc.__cause__
    if not texts:  # a seal needs a tail with events
        raise wrong(document.path, "count")
    if len(texts) != fields.count:
        raise StoredDataError(f"{document.path} holds {len(texts)} events, not {fields.count}")
    return Segment(
        texts=texts,
        running_max=fields.running_max,
        chain_begin=fields.chain_begin,
        chain_end=fields.chain_end,
        initial=_initial(document, fields),
        digests=fields.each_digest,
        window=fields.window,
        archive=ref if fields.body is None else None,
        old_archive=None if fields.body is None else ref,
        conflicts=fields.conflicts,
    )


def read_chunk(document: Document) -> bytes:
    """Return a part of a payload."""
    return read_fields(_Body, document).body


def _session(
    document: Document, fields: _Header, state: dict[str, Any], *, is_judged: bool = True
) -> StoredSession:
    cut = tuple(range(run.start, run.to + 1) for run in fields.cut)
    if not are_runs(cut, sealed=fields.sealed):
        raise wrong(document.path, "cut")
    if is_judged and (fields.sealed_max is None) != (newest_live(fields.sealed, cut) is None):
        raise wrong(document.path, "sealed_max")
    archived = Archived() if fields.archived is None else Archived(**fields.archived.model_dump())
    if archived.events > fields.rev or archived.segments > fields.sealed:
        if is_judged:
            raise wrong(document.path, "archived")
        archived = Archived()
    return StoredSession(
        key=_key(document, fields),
        epoch=fields.epoch,
        revision=fields.rev,
        last_update_time=fields.last_update_time,
        state=_decoded(document, state),
        tail=[],
        sealed=fields.sealed,
        sealed_max=fields.sealed_max,
        spilled=fields.spilled,
        update_time=document.update_time,
        read_time=document.read_time,
        expiry=_expiry(document),
        chain=fields.chain,
        restores=fields.restores,
        redactions=fields.redactions,
        cut=cut,
        turns=_turns(document, fields),
        turn=None if fields.turn is None else _turn(fields.turn),
        inbox=tuple(fields.inbox),
        archived=archived,
    )


def _turn(fields: _TurnMap) -> Turn:
    until = None if fields.until is None else fields.until.timestamp()
    return Turn(fence=fields.fence, holder=fields.holder, until=until, abort=fields.abort)


def _turns(document: Document, fields: _Header) -> Turns | None:
    """Return a session's turns; ``None`` if it had events before the store counted turns."""
    if "turns" not in fields.model_fields_set:
        return None if fields.rev else Turns()
    if "last_turn" not in fields.model_fields_set:
        raise StoredDataError(f"{document.path} lacks last_turn")
    if fields.turns > fields.rev or bool(fields.turns) != bool(fields.last_turn):
        raise wrong(document.path, "turns")
    return Turns(count=fields.turns, last=fields.last_turn)


def _initial(
    document: Document, fields: _Initial, *, is_judged: bool = True
) -> Mapping[str, Any] | PayloadRef | None:
    """Return a session's initial state, or the payload that holds it; ``None`` if the document lacks both."""
    if is_judged and fields.initial is not None and fields.initial_payload is not None:
        raise wrong(document.path, "initial_payload")
    payload = fields.initial_payload
    ref = None if payload is None else _ref(document, payload, "initial_payload")
    return ref if fields.initial is None else _decoded(document, fields.initial)


def _ref(document: Document, entry: Mapping[str, Any], what: str) -> PayloadRef:
    try:
        return decode_ref(entry, what=what)
    except StoredDataError as exc:
        raise StoredDataError(f"{document.path}: {exc}") from None


def _decoded(document: Document, state: dict[str, Any]) -> dict[str, Any]:
    try:
        return decode_state(state)
    except StoredDataError as exc:
        raise type(exc)(f"{document.path}: {exc}") from exc.__cause__


def _key(document: Document, fields: _Header) -> SessionKey:
    """Return the key of a session, which must lead to the same document."""
    try:
        key = SessionKey(app=fields.app, user=fields.user, session=fields.id)
        names = [escape_name(id_, what="id") for id_ in (key.app, key.user, key.session)]
    except InvalidInputError:
        raise wrong(document.path, "app, user or id") from None
    if names != document.path.split("/")[1::2]:
        raise wrong(document.path, "app, user or id")
    return key


def _expiry(document: Document) -> Expiry | None:
    """Return a session's expiry; without a time to live, ``expire_at`` is a deployment's own field."""
    if "ttl_s" not in document.fields:
        return None
    fields = read_fields(_Expiry, document)
    parts = fields.parts_expire_at
    return Expiry(
        ttl_s=fields.ttl_s,
        at=int(fields.expire_at.timestamp()),
        parts_at=None if parts is None else int(parts.timestamp()),
    )
