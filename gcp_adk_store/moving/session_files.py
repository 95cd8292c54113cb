"""Write sessions as JSON lines, and read them: the session, its events in order, and their number."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, Literal

from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService

from gcp_adk_store.codec.decode import decode_event
from gcp_adk_store.codec.encode import SURROGATES_KEY
from gcp_adk_store.errors import (
    InvalidInputError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
    StoreError,
)
from gcp_adk_store.kernel.calls import checks_arguments
from gcp_adk_store.model.json_values import (
    decode_surrogates,
    encode_surrogates,
    finite,
    has_surrogates,
    map_texts,
)
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.state import ScopedState, merge_scopes, split_scopes
from gcp_adk_store.moving.canonical import Digest, canonical_event, kept_state, plain_event
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.moving.places import open_target
from gcp_adk_store.moving.records import OwnStore, Record, Target, as_of_now, elsewhere, listed, whole_record
from gcp_adk_store.moving.report import Report, failure_of_one
from gcp_adk_store.sessions.describe.decide import UnreadableSession
from gcp_adk_store.sessions.describe.run import unreadable
from gcp_adk_store.sessions.service import SessionService

FORMAT: Final = 1
MAX_LINE_BYTES: Final = 1024**3
"""The longest line that is read: one event with its content, or the state of a session."""

OnConflict = Literal["skip", "overwrite", "new-id"]

_NOT_HELD: Final = "is of a session that the target cannot hold"


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    sessions: int
    events: int


@checks_arguments
async def records_of(
    service: SessionService,
    app: str,
    user: str | None = None,
    session: str | None = None,
    *,
    on_unreadable: Callable[[UnreadableSession], object] | None = None,
) -> AsyncGenerator[Record]:
    """Yield sessions as they are at one moment: one of a user, or all of a user or an app, by name.

    One that loses content in the bucket meanwhile is yielded as it is then, or not if it is gone. Takes 1
    query for 100 sessions, and 2 reads a session beside those of its events. Firestore serves the moment for
    an hour.

    Args:
        service: The store.
        app: The app.
        user: The user; by default all of the app.
        session: One session of the user; by default all.
        on_unreadable: Called with each session that cannot be read, and which is left out; by default the
            first one is an error. With it, a temporary file has the events of one session.

    Raises:
        SessionMissingError: the one *session* does not exist.
        StoredDataError: a session cannot be read, and *on_unreadable* is not given.
    """
    live = service.storage
    async with as_of_now(live) as then:
        if session is not None:
            key = SessionKey(app=app, user=user or "", session=session)
            async with whole_record(then, key, live=live) as record:
                if record is None:
                    raise SessionMissingError(f"the session {session!r} does not exist")
                yield record
            return
        async for one in listed(then, app, user):
            bad = one.unreadable
            if bad is None:
                key = SessionKey(app=app, user=one.user_id, session=one.session_id)
                try:
                    async with whole_record(
                        then, key, live=live, is_read_first=on_unreadable is not None
                    ) as record:
                        if record is not None:
                            yield record
                except StoredDataError as exc:
                    bad = unreadable(live.layout, app, live.layout.session(key), exc)
            if bad is not None:
                if on_unreadable is None:
                    raise StoredDataError(f"{bad.reason}; look at it: {bad.command}")
                on_unreadable(bad)


@checks_arguments
async def export_jsonl(
    records: AsyncIterator[Record],
    file: BinaryIO,
    *,
    place: Mapping[str, Any] | None = None,
    on_event: Callable[[int], object] | None = None,
) -> Exported:
    """Write *records* to *file*; one event at a time is in memory, and those that are read with it.

    Everything is ASCII: other characters are escaped as in JSON, so that a terminal can show the lines. NaN
    and infinite numbers in state become null, as they are in events.

    Args:
        records: The sessions.
        file: The output.
        place: More fields of the first line of each session; by default none.
        on_event: Called with the number of written events.
    """
    sessions = events = 0
    async for record in records:
        sessions += 1
        _write(file, {"session": {"format": FORMAT, **(place or {}), **_header(record)}})
        digest = Digest()
        async for event in record.events:
            digest.add(canonical_event(event))
            _write(file, {"event": plain_event(event)})
            events += 1
            if on_event is not None:
                on_event(events)
        _write(file, {"end": {"events": digest.events, "digest": digest.of_events()}})
    return Exported(sessions, events)


@checks_arguments
async def import_jsonl(
    file: BinaryIO,
    target: str | BaseSessionService | Target,
    *,
    users: Mapping[str, str] | None = None,
    on_conflict: OnConflict = "skip",
    on_progress: Callable[[Report], object] | None = None,
) -> Report:
    """Read sessions that :func:`export_jsonl` wrote, and make them in *target*.

    A session whose lines are damaged or incomplete is not made, and ends the import; those before it stay.
    After the sessions of a user, the state of user and app gets the values of the export. What the session
    service refuses in a title, a label, an id or a time, it refuses, too. In a session that gets another id
    or another user, events that ADK's ``ToolCallIntegrityPlugin`` stamped are marked as restored: it accepts
    them, and never runs their calls.

    With ``on_conflict="overwrite"`` the stored session stays as it is until the new one is read to its last
    line and checked. A store of this library then exchanges both in one commit, also if others append
    meanwhile. ADK's other services have no such step: a temporary file holds the new session, the old one is
    deleted, and comes back if the service cannot hold the new one. A kill in that moment leaves none, or one
    with its first events; import the file again.

    Args:
        file: The lines.
        target: A service, or its URI.
        users: Other ids for users.
        on_conflict: What happens to a session whose id is taken: it is left out, it replaces the one that is
            there, or it gets another id. One that is there and cannot be read is noted as ``failed`` if it
            stays. With other ids, a second import of a file makes each session once more.
        on_progress: Called with the report so far after each session.

    Raises:
        InvalidInputError: a line is not one of an export, or longer than 1 GiB, or its session cannot be
            stored; the error of a line has its number.
        UnavailableError: a service does not answer; import the file again.
    """
    report, lines = Report(), _Lines(file)
    unseen = set(users or ())
    into = open_target(target)
    last: Record | None = None
    early: ScopedState | None = None
    """Of the owner of *last*, what was set before the first session was there."""
    try:
        try:
            for header in lines.headers():
                record = _record(header, lines, users or {})
                report.listed += 1
                unseen.discard(header["user_id"])
                if last is not None and last.header.key.owner != record.header.key.owner:
                    await _put_shared(into, last, unless=early)
                    last = early = None
                made = record
                if last is None and isinstance(into, OwnStore):  # others make a session event by event
                    made, early = replace(record, events=_then_shared(record, into)), record.shared
                with lines.naming_failures():
                    is_made = await _put(made, into, on_conflict, report)
                if is_made:
                    last = record
                else:
                    await _drain(record.events)
                if on_progress is not None:
                    on_progress(report)
        except InvalidInputError:
            await _put_shared(into, last, unless=early)  # the sessions before the damaged one are whole
            raise
        await _put_shared(into, last, unless=early)
        for user in sorted(unseen):
            report.add("ids", "the file has no session of this user, who was to get another id", user=user)
    finally:
        await into.close()
    return report


async def _then_shared(record: Record, into: Target) -> AsyncIterator[Event]:
    """Yield the events of a session, then set the state of its user and app, before the session is there.

    Another import leaves out a session that is there, and would never set that state.
    """
    async for event in record.events:
        yield event
    await _put_shared(into, record)


async def _drain(events: AsyncIterable[Event]) -> None:
    """Read and check the lines of a session that is left out."""
    async for _ in events:
        pass


async def _put_shared(into: Target, last: Record | None, *, unless: ScopedState | None = None) -> None:
    """Set the state of user and app after the *last* session that was made, if any was; *unless* it is so."""
    if last is not None and last.shared != unless:
        await into.put_shared(last.header.key.owner, last.shared)


async def _put(record: Record, into: Target, on_conflict: OnConflict, report: Report) -> bool:
    """Make a session, and return whether it was made."""
    key = record.header.key
    damage = ""
    try:
        async with into.open(key) as there:
            taken = there is not None
    except StoredDataError as exc:
        taken, damage = True, str(exc)
    if taken and on_conflict == "skip":
        report.unchanged += not damage
        return _stays(report, key, damage)
    if on_conflict == "overwrite":
        try:
            report.events += await into.replace(record, record.events)
        except StoredDataError as exc:
            return _stays(report, key, str(exc))
        report.replaced += taken
        report.copied += not taken
        return True
    if taken:
        key = replace(key, session=platform_uuid.new_uuid())
        says = f"the id is taken: it is {key.session!r} now"
        report.add("ids", says, user=key.user, session=record.header.key.session)
        record = elsewhere(replace(record, header=replace(record.header, key=key)))
    try:
        report.events += await into.write(record, record.events)
    except SessionExistsError:  # since the look; its lines are read
        report.unchanged += on_conflict == "skip"
        if on_conflict != "skip":
            says = "others made a session of this id meanwhile; import its lines again"
            report.add("failed", says, user=key.user, session=key.session)
        return False
    report.copied += 1
    return True


def _stays(report: Report, key: SessionKey, damage: str) -> bool:
    """Note the *damage*, if any, of a stored session that stays as it is; return that none was made."""
    if damage:
        says = f"the stored session cannot be read, and stays: {damage}; look at it: gcp-adk-store fsck"
        report.add("failed", says, user=key.user, session=key.session)
    return False


def _header(record: Record) -> dict[str, Any]:
    header = record.header
    scopes = ScopedState(app=record.shared.app, user=record.shared.user, session=header.state)
    fields = {
        **header.key.ids,
        "create_time": header.create_time,
        "last_update_time": header.last_update_time,
        "title": header.title,
        "labels": dict(header.labels),
        "state": finite(merge_scopes(scopes)),
        "initial_state": None if header.initial is None else finite(dict(header.initial)),
    }
    if has_surrogates(fields) and json.loads(json.dumps(fields)) != fields:  # escapes join two to a pair
        return {**map_texts(fields, encode_surrogates), SURROGATES_KEY: True}
    return fields


def _record(header: Mapping[str, Any], lines: "_Lines", users: Mapping[str, str]) -> Record:
    if header.get("format") != FORMAT:
        raise lines.wrong("has another format")
    try:
        user = header["user_id"]
        key = SessionKey(app=header["app_name"], user=users.get(user, user), session=header["session_id"])
        scopes = split_scopes(header["state"])
        labels = header.get("labels")
        made = SessionHeader(
            key=key,
            state=scopes.session,
            initial=header.get("initial_state"),
            create_time=header.get("create_time"),
            last_update_time=header["last_update_time"],
            title=header.get("title"),
            labels={} if labels is None else labels,
        )
        made.require_valid()
        for state in (header["state"], made.initial or {}):
            kept_state(state)  # refuses what nests too deep
    except InvalidInputError as exc:
        raise lines.wrong(f"has a session that cannot be stored: {exc}", way_out="") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise lines.wrong("lacks a field of a session, or has one of another type") from None
    shared = ScopedState(app=scopes.app, user=scopes.user)
    record = Record(header=made, shared=shared, stamp="", events=lines.events())
    return record if (key.user, key.session) == (user, header["session_id"]) else elsewhere(record)


class _Lines:
    """The lines of an export."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._number = 0
        self._wrong: InvalidInputError | None = None
        """The newest error that names a line."""

    def headers(self) -> Iterator[Mapping[str, Any]]:
        """Yield the first line of each session; the caller reads its events before the next."""
        while (line := self._next()) is not None:
            kind, content = line
            if kind != "session":
                raise self.wrong("is not the first line of a session")
            yield content

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of a session, and check their number and digest at its last line."""
        digest = Digest()
        for kind, content in self._of_session():
            if kind == "event":
                try:
                    event = decode_event(json.dumps(content)).event
                except (StoredDataError, RecursionError):
                    raise self.wrong("is not an event that the installed google-adk reads") from None
                digest.add(canonical_event(event))
                yield event
            elif content.get("events") != digest.events:
                raise self.wrong(f"does not fit the {digest.events} events before it")
            elif content.get("digest") != digest.of_events():
                raise self.wrong("has another digest than the events before it")

    def _of_session(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        while True:
            line = self._next()
            if line is None:
                raise self.wrong("is missing: the file ends within a session")
            if line[0] == "session":
                raise self.wrong("begins another session before the end of the one before")
            yield line
            if line[0] == "end":
                return

    def _next(self) -> tuple[str, Mapping[str, Any]] | None:
        self._number += 1
        try:
            text = self._file.readline(MAX_LINE_BYTES + 1)
        except OSError as exc:
            raise self.wrong(f"cannot be read: {exc.strerror}", way_out="") from exc
        if not text:
            return None
        if len(text) > MAX_LINE_BYTES:
            raise self.wrong(f"has more than {MAX_LINE_BYTES} bytes, the limit of a line")
        try:
            ((kind, content),) = json.loads(text).items()
            if kind == "session" and content.get(SURROGATES_KEY) is True:
                content = map_texts(content, decode_surrogates)
        except RecursionError:
            raise self.wrong("nests deeper than any event or state may") from None
        except (ValueError, AttributeError):
            raise self.wrong("is not a line of an export") from None
        if kind not in ("session", "event", "end") or not isinstance(content, dict):
            raise self.wrong("is not a line of an export")
        return kind, content

    @contextmanager
    def naming_failures(self) -> Iterator[None]:
        """Name the line that was read last where the target refuses a session: a service of ADK by any error.

        Raises:
            InvalidInputError: the target cannot hold the session, or the line is wrong.
            UnavailableError: a service of ADK does not answer.
        """
        try:
            yield
        except StoreError as exc:
            if exc is self._wrong or not isinstance(exc, InvalidInputError):
                raise
            raise self.wrong(f"{_NOT_HELD}: {exc}", way_out="") from exc
        except Exception as exc:
            says = f"{_NOT_HELD}: {failure_of_one(exc)}; see the cause"
            raise self.wrong(says, way_out="") from exc

    def wrong(self, says: str, *, way_out: str = "; export the sessions again") -> InvalidInputError:
        """Return the error for the line that was read last."""
        self._wrong = InvalidInputError(f"line {self._number} {says}{way_out}")
        return self._wrong


def _write(file: BinaryIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
