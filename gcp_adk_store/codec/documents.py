"""Lay out the documents of a session: paths, fields and writes of format 2.

::

    {prefix}_apps/{app}                               state
    {prefix}_apps/{app}/{prefix}_users/{user}         state
      .../{prefix}_sessions/{session}                 header, state, tail
      .../{prefix}_sessions/{session}/{prefix}_segments/{epoch}-{n}
      .../{prefix}_sessions/{session}/{prefix}_deletions/{epoch}
    {any of the first three}/{prefix}_chunks/{life}-{sha256}-{n}      payloads of a store without a bucket

docs/data-model.md lists every field.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gcp_adk_store.codec.encode import CHUNK_BYTES, FieldValue, encode_state
from gcp_adk_store.codec.names import escape_name, unescape_name
from gcp_adk_store.codec.packing import MAX_SEGMENTS
from gcp_adk_store.codec.segments import conflict_fields, initial_fields, segment_write
from gcp_adk_store.codec.turns import turn_fields
from gcp_adk_store.codec.writes import (
    FORMAT,
    Delete,
    Document,
    FieldPath,
    Must,
    Write,
    kept_until,
    of_part,
    time_at,
    update,
)
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.appends import DIGEST_BYTES, Append, Marker, Summary, genesis
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import Payload, PayloadOwner, PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import Expiry, Turn
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.model.state import ScopedState

UNCHANGED_FORMAT: Final = 1
"""Number of the layout of all other documents, which has not changed since.

Every session of an app is read with the state of the app and the user: with a new number there, older
releases could not read their own sessions any more during a rollout.
"""

OWNER: Final = "adkStoreOwner"
"""Metadata key of a payload's object: the path of the document that owns it."""

PUT_TIME: Final = "adkStorePutTime"
"""Metadata key of a payload's object: the time of a repeated write, which makes the object new again."""

_CHUNK: Final = re.compile(r"(?P<owner>.+)/[^/]+/(?P<life>[^/]+)-(?P<sha256>[0-9a-f]{64})-[0-9]+")
_LEVELS: Final = ("apps", "users", "sessions")
_FOR_EVER: Final = "shared"  # the life of a document that the store never deletes


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deleted session, or an unfinished fork, that may still have segments and payloads."""

    epoch: str
    sealed: int
    spilled: frozenset[PayloadPlace]
    making: bool | None = None
    """Whether a fork may still be completed; ``None`` for a deleted session."""
    artifacts: bool = False
    """Whether a fork may have copied artifacts."""
    update_time: str = ""
    """Update time of the note of a fork that may still be completed."""


class Layout:
    """Paths and writes below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        """Start of the names of all collections."""
        self.apps_collection = f"{prefix}_apps"
        """Id of the collection of apps."""
        self.users_collection = f"{prefix}_users"
        """Id of the collection of an app's users."""
        self.sessions_collection = f"{prefix}_sessions"
        """Id of the collection of a user's sessions."""
        self.segments_collection = f"{prefix}_segments"
        """Id of the collection of a session's segments."""
        self.deletions_collection = f"{prefix}_deletions"
        """Id of the collection of a deleted session's unfinished deletions."""
        self.chunks_collection = f"{prefix}_chunks"
        """Id of the collection of payloads below the document that refers to them."""

    def app(self, app: str) -> str:
        """Path of the document with the app's state."""
        return f"{self.apps_collection}/{escape_name(app, what='app_name')}"

    def user(self, key: UserKey) -> str:
        """Path of the document with the user's state."""
        return f"{self.app(key.app)}/{self.users_collection}/{escape_name(key.user, what='user_id')}"

    def session(self, key: SessionKey) -> str:
        """Path of the session document."""
        session = escape_name(key.session, what="session_id")
        return f"{self.user(key.owner)}/{self.sessions_collection}/{session}"

    def segments(self, key: SessionKey, epoch: str, numbers: Iterable[int]) -> list[str]:
        """Paths of segments by number, oldest first."""
        parent = f"{self.session(key)}/{self.segments_collection}"
        return [f"{parent}/{epoch}-{number}" for number in numbers]

    def level_of(self, path: str) -> int | None:
        """Return 1, 2 or 3 for the document of an app, a user or a session; ``None`` for any other."""
        collections = path.split("/")[::2]
        known = [f"{self.prefix}_{level}" for level in _LEVELS[: len(collections)]]
        return len(collections) if collections == known and path.count("/") % 2 else None

    def session_at(self, path: str) -> SessionKey | None:
        """Return the session whose document is at *path*; ``None`` for another path.

        Raises:
            StoredDataError: it is below a collection of sessions, but not the encoding of an id.
        """
        if self.level_of(path) != len(_LEVELS):
            return None
        app, user, session = ids_of(path)
        key = SessionKey(app=app, user=user, session=session)
        if key.session != session:  # a padded id names the session without the padding
            raise StoredDataError(f"{path} is not the path of a session")
        return key

    def session_payloads(self, key: SessionKey, epoch: str) -> PayloadOwner:
        """Owner of a session's payloads, which are deleted with it."""
        return PayloadOwner(path=self.session(key), life=epoch)

    def app_payloads(self, app: str) -> PayloadOwner:
        """Owner of the payloads of an app's state."""
        return self.shared_payloads(self.app(app))

    def user_payloads(self, key: UserKey) -> PayloadOwner:
        """Owner of the payloads of a user's state."""
        return self.shared_payloads(self.user(key))

    def shared_payloads(self, path: str) -> PayloadOwner:
        """Owner of the payloads of the state at *path*, the document of an app or a user."""
        return PayloadOwner(path=path, life=_FOR_EVER)

    def chunks_of(self, owner: PayloadOwner) -> str:
        """Start of the paths of all chunks of *owner*."""
        return f"{owner.path}/{self.chunks_collection}/{owner.life}-"

    def chunks(self, owner: PayloadOwner, ref: PayloadRef) -> list[str]:
        """Paths of the chunks of one payload, in order."""
        count = max(1, -(-ref.size // CHUNK_BYTES))
        return [f"{self.chunks_of(owner)}{ref.sha256}-{number}" for number in range(count)]

    def put_chunks(
        self, owner: PayloadOwner, payload: Payload, *, now: float, parts_at: int | None
    ) -> list[Write]:
        """Return the writes of one payload, each of at most 900 KiB; without *parts_at* they never expire."""
        return [
            Write(
                path=path,
                fields={
                    "format": UNCHANGED_FORMAT,
                    # A second write changes the chunk: a collector that saw the first does not remove it.
                    "put_time": now,
                    "body": payload.data[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES],
                    **of_part(parts_at),
                },
            )
            for number, path in enumerate(self.chunks(owner, payload.ref))
        ]

    def create(
        self,
        key: SessionKey,
        *,
        epoch: str,
        time: float,
        state: ScopedState,
        initial: PayloadRef | None = None,
        spilled: frozenset[PayloadPlace] = frozenset(),
        expiry: Expiry | None = None,
    ) -> list[Write]:
        """Return the writes that create a session and apply its initial app and user state.

        Its own initial state is kept as the payload *initial*, or beside the present one.
        """
        head = genesis(epoch)
        return [
            Write(
                path=self.session(key),
                fields={
                    "format": FORMAT,
                    "epoch": epoch,
                    "app": key.app,
                    "user": key.user,
                    "id": key.session,
                    "rev": 0,
                    "create_time": time,
                    "last_update_time": time,
                    "state": encode_state(state.session),
                    **initial_fields(initial or state.session),
                    "chain": head,
                    "chain_sealed": head,
                    **summary_fields(Summary()),
                    "tail": [],
                    "digests": [],
                    "tail_bytes": 0,
                    "sealed": 0,
                    "sealed_max": None,
                    **places(spilled),
                    **({"ttl_s": expiry.ttl_s, **times(expiry)} if expiry else {}),
                },
                must=Must.BE_ABSENT,
                life=epoch,
            ),
            *self.shared_state(key, state),
        ]

    def append_writes(
        self,
        key: SessionKey,
        append: Append,
        marker: Marker,
        expiry: Expiry | None = None,
        *,
        turn_until: float | None = None,
        released: Turn | None = None,
        inbox: Sequence[str] | None = None,
        conflicts: int = 0,
    ) -> list[Write]:
        """Return the writes that add events and their state delta, the session's first.

        They require the session exactly as *marker* describes it. *turn_until* moves the end of its turn,
        *released* is its turn after its end, *inbox* replaces the messages that wait for one, and so many
        *conflicts* are added to its own.
        """
        fields: dict[str, FieldValue] = {
            "last_update_time": append.timestamp,
            "rev": marker.revision + len(append.texts),
            "chain": append.head_after(marker.chain),
            **summary_change(marker, append),
        }
        if expiry is not None:
            fields |= times(expiry)
        mask: list[FieldPath] = [(name,) for name in fields]
        if released is not None:
            fields["turn"] = turn_fields(released)
            mask.append(("turn",))
        elif turn_until is not None:
            fields["turn"] = {"until": datetime.fromtimestamp(turn_until, UTC)}
            mask.append(("turn", "until"))
        if inbox is not None:
            fields["inbox"] = list(inbox)
            mask.append(("inbox",))
        union: dict[str, Sequence[FieldValue]] = {"tail": list(append.texts), **places(append.spilled)}
        union["digests"] = [hashed[:DIGEST_BYTES] for hashed in append.hashes]
        state = encode_state(append.delta.session)
        if state:
            fields["state"] = state
            mask += [("state", name) for name in state]
        return [
            Write(
                path=self.session(key),
                fields=fields,
                mask=mask,
                union=union,
                increment={
                    "tail_bytes": sum(len(text.encode()) for text in append.texts),
                    **({"conflicts": conflicts} if conflicts else {}),
                },
                must=marker.update_time,
                life=marker.epoch,
            ),
            *self.shared_state(key, append.delta),
        ]

    def seal(self, stored: StoredSession, segment: Segment, *, now: float) -> list[Write]:
        """Return the writes that move the tail of *stored* into its next segment.

        Raises:
            InvalidInputError: it has 100,000 segments already, the most that a read accepts.
        """
        number = stored.sealed
        if number == MAX_SEGMENTS:
            raise InvalidInputError(f"a session has at most {MAX_SEGMENTS} segments of events: {stored.key}")
        marker = stored.marker
        header: dict[str, FieldValue] = {
            "tail": [],
            "digests": [],
            "tail_bytes": 0,
            "sealed": number + 1,
            "sealed_max": segment.running_max,
            "chain": marker.chain,
            "chain_sealed": segment.chain_end,
        }
        parts_at = None
        if stored.expiry is not None:
            parts_at = stored.expiry.of_new_part(now)
            header |= times(stored.expiry.with_part_until(parts_at))
        (part,) = self.segments(stored.key, stored.epoch, [number])
        path = self.session(stored.key)
        moved = initial_fields(segment.initial) | conflict_fields(segment.conflicts)
        return [
            update(path, header, must=stored.update_time, without=moved, life=stored.epoch),
            segment_write(part, segment, parts_at=parts_at),
        ]

    def renewals(self, parts: Sequence[Document], *, parts_at: int) -> list[Write]:
        """Return the writes that keep segments and chunks until *parts_at* at least, never shorter."""
        until = kept_until(parts_at)
        return [
            update(part.path, {"expire_at": until}, must=part.update_time)
            for part in parts
            if isinstance(kept := part.fields.get("expire_at"), datetime) and kept < until
        ]

    def delete(self, stored: StoredSession) -> list[Write | Delete]:
        """Return the writes that delete a session and note which of its parts remain."""
        deletion = Delete(path=self.session(stored.key), must=stored.update_time)
        if not stored.sealed and not stored.spilled:
            return [deletion]
        fields: dict[str, FieldValue] = {"format": UNCHANGED_FORMAT, "epoch": stored.epoch}
        fields["sealed"] = stored.sealed
        note = Write(path=self.note(stored.key, stored.epoch), fields=fields | places(stored.spilled))
        return [deletion, note]

    def finish_deletion(self, key: SessionKey, deletion: Deletion) -> list[Delete]:
        """Return the deletes that complete *deletion*; its note comes last."""
        segments = self.segments(key, deletion.epoch, range(deletion.sealed))
        return [Delete(path=path) for path in (*segments, self.note(key, deletion.epoch))]

    def note(self, key: SessionKey, epoch: str) -> str:
        """Path of the note of an unfinished deletion or fork."""
        return f"{self.session(key)}/{self.deletions_collection}/{epoch}"

    def shared_state(self, key: SessionKey, delta: ScopedState) -> list[Write]:
        """Return one masked upsert per changed scope, which never conflicts with writers of other keys."""
        states = {self.app(key.app): encode_state(delta.app), self.user(key.owner): encode_state(delta.user)}
        return [
            Write(
                path=path,
                fields={"format": UNCHANGED_FORMAT, "state": state},
                mask=[("format",), *(("state", name) for name in state)],
            )
            for path, state in states.items()
            if state
        ]


def owner_digest(path: str) -> str:
    """Return the digest of *path* for names of objects, for which ids can be too long."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def chunk_owner(path: str) -> tuple[PayloadOwner, str] | None:
    """Return the owner of the chunk at *path*, and the SHA-256 of its payload; ``None`` for another path."""
    found = _CHUNK.fullmatch(path)
    return found and (PayloadOwner(path=found["owner"], life=found["life"]), found["sha256"])


def object_owner(name: str, path: str | None) -> tuple[PayloadOwner, str] | None:
    """Return the same for an object of this *name* whose metadata names the document at *path*."""
    folder, _, sha256 = name.rpartition("/")
    folder, _, life = folder.rpartition("/")
    if path is None or folder.rpartition("/")[2] != owner_digest(path):
        return None
    return PayloadOwner(path=path, life=life), sha256


def ids_of(path: str) -> list[str]:
    """Return the ids of the app, the user and the session in the *path* of a document.

    Raises:
        StoredDataError: a name is not the encoding of an id.
    """
    try:
        return [unescape_name(name) for name in path.split("/")[1::2]]
    except ValueError:
        raise StoredDataError(f"{path} is not the path of a session") from None


def summary_fields(summary: Summary) -> dict[str, FieldValue]:
    """Return the fields that keep what listings show of a session's events."""
    turns = summary.turns
    return {"turns": turns.count, "last_turn": turns.last, "last_text": summary.last_text}


def summary_change(marker: Marker, append: Append) -> dict[str, FieldValue]:
    """Return the fields of :func:`summary_fields` that *append* changes."""
    fields: dict[str, FieldValue] = {}
    turns = marker.turns and marker.turns.after(append.turns)
    if turns is not None and (turns != marker.turns or not marker.revision):  # 0 need not be stored before
        fields |= {"turns": turns.count, "last_turn": turns.last}
    if append.last_text is not None:
        fields["last_text"] = append.last_text
    return fields


def times(expiry: Expiry) -> dict[str, FieldValue]:
    """Return when a session and its parts expire."""
    fields: dict[str, FieldValue] = {"expire_at": time_at(expiry.at)}
    if expiry.parts_at is not None:
        fields["parts_expire_at"] = time_at(expiry.parts_at)
    return fields


def places(spilled: frozenset[PayloadPlace]) -> dict[str, list[str]]:
    """Return where payloads of a session are."""
    return {"spilled": sorted(place.value for place in spilled)} if spilled else {}
