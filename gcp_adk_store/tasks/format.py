"""Encode A2A tasks and push configurations.

::

    {prefix}_owners/{owner}/{prefix}_tasks/{task}                               a task
      .../{prefix}_tasks/{task}/{prefix}_pieces/{sha256}-{n}                    of a large task
    {prefix}_pushes/{task}/{prefix}_owners/{owner}/{prefix}_configs/{config}    where to send its news
    {prefix}_owners/{owner}/{prefix}_pushes/{task}                              that an owner has such configs

docs/data-model.md lists every field. Reading raises ``StoredDataError`` for a document that has another
format, lacks a field or is damaged. The error names the path, and the field, never the content.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, Final, Self

from pydantic import Field

from gcp_adk_store.codec.encode import CHUNK_BYTES, FieldValue
from gcp_adk_store.codec.names import MAX_NAME_BYTES, escape_name
from gcp_adk_store.codec.packing import unpack
from gcp_adk_store.codec.stored import DocumentFields, read_fields, wrong
from gcp_adk_store.codec.writes import Delete, Document, Must, Write
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.session_fields import MAX_TTL_S, Expiry

FORMAT: Final = 1
"""Number of the layout of tasks and configs."""

MAX_TASK_BYTES: Final = 64 * 1024 * 1024
"""The largest task, as protobuf."""

MAX_PACKED_BYTES: Final = 9 * 1024 * 1024
"""The largest task after compression: one commit, of 10 MiB at most, writes it."""

_MAX_PIECES: Final = -(-MAX_PACKED_BYTES // CHUNK_BYTES)

HEADER_FIELDS: Final = ("format", "id", "context_id", "state", "seconds", "nanos", "ttl_s", "expire_at")
"""The part of a task that a listing reads first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHeader:
    """What a listing orders tasks by, and chooses them by."""

    id: str
    context_id: str
    state: int
    """Number of the SDK's ``TaskState``."""
    time: tuple[int, int] | None
    """Seconds and nanoseconds of the status; ``None`` if the task has none."""

    @property
    def order(self) -> tuple[bool, tuple[int, int], str]:
        """The key of the SDK's order, which goes from the greatest to the least."""
        return self.time is not None, self.time or (0, 0), self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A task's compressed bytes, and how they are spread over documents."""

    data: bytes
    sha256: str
    """Digest of the task before compression."""

    @classmethod
    def of(cls, body: bytes) -> Self:
        """Compress the protobuf *body* of a task.

        Raises:
            InvalidInputError: the task is too large, compressed or not.
        """
        _require_size(len(body), MAX_TASK_BYTES, "")
        data = zlib.compress(body)
        _require_size(len(data), MAX_PACKED_BYTES, " after compression")
        return cls(data=data, sha256=hashlib.sha256(body).hexdigest())

    @property
    def pieces(self) -> int:
        """The number of documents beside the task's own; 0 if it holds the bytes itself."""
        return 0 if len(self.data) <= CHUNK_BYTES else -(-len(self.data) // CHUNK_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """The document of a task at the time of its read."""

    path: str
    header: TaskHeader
    update_time: str
    has_expired: bool
    save_id: str
    """Random id of the save that stored it; empty if it was not read."""
    packed: bytes | None
    """The compressed task; ``None`` if pieces hold it, or if it was not read."""
    sha256: str
    """Digest of the task before compression; empty if it was not read."""
    pieces: Sequence[str]
    """Paths of the pieces, in order."""


class TaskLayout:
    """Paths and writes below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.tasks_collection = f"{prefix}_tasks"
        """Id of the collection of an owner's tasks."""
        self.configs_collection = f"{prefix}_configs"
        """Id of the collection of the configs that an owner has for one task."""
        self.pieces_collection = f"{prefix}_pieces"
        """Id of the collection of the pieces of one task."""
        self.pushes_collection = f"{prefix}_pushes"
        """Id of the collection of an owner's notes of the tasks that they have configs for."""

    def owner(self, owner: str) -> str:
        """Path above an owner's tasks; no document is there."""
        return f"{self.prefix}_owners/{escape_name(owner, what='owner')}"

    def task(self, owner: str, task_id: str) -> str:
        """Path of a task."""
        return f"{self.owner(owner)}/{self.tasks_collection}/{escape_name(task_id, what='task_id')}"

    def pushes(self, task_id: str) -> str:
        """Path above the configs of all owners for a task; no document is there."""
        return f"{self.pushes_collection}/{escape_name(task_id, what='task_id')}"

    def configs(self, owner: str, task_id: str) -> str:
        """Path above the configs of one owner for a task; no document is there."""
        return f"{self.pushes(task_id)}/{self.owner(owner)}"

    def config(self, owner: str, task_id: str, config_id: str) -> str:
        """Path of a config."""
        name = escape_name(config_id, what="config_id")
        return f"{self.configs(owner, task_id)}/{self.configs_collection}/{name}"

    def put_task(
        self,
        owner: str,
        header: TaskHeader,
        packed: Packed,
        *,
        save_id: str,
        must: Must | str,
        expiry: Expiry | None,
        before: Sequence[str] = (),
    ) -> list[Write | Delete]:
        """Return the writes of one commit that stores a task as a whole.

        Args:
            owner: Whose it is.
            header: What listings read of it.
            packed: Its bytes.
            save_id: By which a repeated attempt recognises what an earlier one stored.
            must: The condition on the stored task.
            expiry: When it ends; ``None`` keeps it forever.
            before: Paths of the pieces of the task that it replaces.

        Raises:
            InvalidInputError: an id is too long.
        """
        size = len(header.context_id.encode())
        if size > MAX_NAME_BYTES:
            raise InvalidInputError(
                f"context_id takes {size} bytes, the limit is {MAX_NAME_BYTES}; use a shorter one"
            )
        path = self.task(owner, header.id)
        pieces = self.pieces(path, packed.sha256, packed.pieces)
        ends = _ends(expiry)
        fields: dict[str, FieldValue] = {
            "format": FORMAT,
            "owner": owner,
            "id": header.id,
            "context_id": header.context_id,
            "state": header.state,
            "save": save_id,
            "sha256": packed.sha256,
            "pieces": len(pieces),
            **({} if pieces else {"body": packed.data}),
            **ends,
        }
        if header.time is not None:
            fields["seconds"], fields["nanos"] = header.time
        parts = [
            Write(
                path=piece,
                fields={
                    "format": FORMAT,
                    "body": packed.data[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES],
                    **({"expire_at": ends["expire_at"]} if ends else {}),
                },
            )
            for number, piece in enumerate(pieces)
        ]
        left = [Delete(path=piece) for piece in before if piece not in pieces]
        return [Write(path=path, fields=fields, must=must), *parts, *left]

    def read_task(self, document: Document) -> StoredTask:
        """Return the task of a *document*, or as much of it as was read."""
        fields = read_fields(_Task, document)
        try:
            is_own = escape_name(fields.id, what="id") == document.path.rpartition("/")[2]
        except InvalidInputError:
            is_own = False
        if not is_own:
            raise wrong(document.path, "id")
        time = None if fields.seconds is None else (fields.seconds, fields.nanos or 0)
        return StoredTask(
            path=document.path,
            header=TaskHeader(id=fields.id, context_id=fields.context_id, state=fields.state, time=time),
            update_time=document.update_time,
            has_expired=fields.has_expired(document),
            save_id=fields.save or "",
            packed=fields.body,
            sha256=fields.sha256 or "",
            pieces=self.pieces(document.path, fields.sha256 or "", fields.pieces),
        )

    def pieces(self, task: str, sha256: str, count: int) -> list[str]:
        """Paths of the pieces of the task at the path *task*, in order."""
        return [f"{task}/{self.pieces_collection}/{sha256}-{number}" for number in range(count)]

    def note(self, owner: str, task_id: str) -> str:
        """Path of the note by which the configs of an owner for a task are found."""
        return f"{self.owner(owner)}/{self.pushes_collection}/{escape_name(task_id, what='task_id')}"

    def noted_configs(self, note: str) -> str:
        """Path above the configs that the note at the path *note* names."""
        owner, _, task = note.rsplit("/", 2)
        return f"{self.pushes_collection}/{task}/{owner}"

    def put_config(
        self,
        owner: str,
        task_id: str,
        config_id: str,
        body: bytes,
        *,
        expiry: Expiry | None,
        note: Document | None = None,
    ) -> list[Write]:
        """Return the writes of one config, and of the note by which its owner's configs are found.

        With an *expiry*, *note* is what is stored of the latter, and required: an earlier config may end
        later, and it must be found as long as it is there.

        The note counts the writes, so each gives it a new update time, also one that the network repeats:
        Firestore keeps the update time of a document that a write leaves as it was.

        Raises:
            InvalidInputError: an id is too long, or the config too large.
        """
        if len(body) > CHUNK_BYTES:
            raise InvalidInputError(
                f"the push notification config takes {len(body)} bytes, the limit is {CHUNK_BYTES}; "
                "give it a shorter URL, token or credentials"
            )
        config: dict[str, FieldValue] = {"format": FORMAT, "body": body, **_ends(expiry)}
        must: Must | str = Must.BE_ABSENT
        last = expiry
        if expiry is not None and note is not None:
            must = note.update_time
            stored = read_fields(_Document, note).expiry
            last = None if stored is None else max(expiry, stored, key=attrgetter("at"))
        noted = Write(
            path=self.note(owner, task_id),
            fields={"format": FORMAT, **_ends(last)},
            mask=[("format",), ("ttl_s",), ("expire_at",)],
            increment={"save": 1},
            must=None if expiry is None else must,
        )
        return [Write(path=self.config(owner, task_id, config_id), fields=config), noted]


def joined(pieces: Sequence[Document | None]) -> bytes | None:
    """Return the bytes of a large task, ``None`` if a piece is missing."""
    found = [read_fields(_Piece, piece).body for piece in pieces if piece is not None]
    return b"".join(found) if len(found) == len(pieces) else None


def unpack_task(stored: StoredTask, data: bytes) -> bytes:
    """Return the protobuf body of a task.

    Raises:
        StoredDataError: the *data* is damaged.
    """
    try:
        body = unpack(data, limit=MAX_TASK_BYTES)
    except ValueError:
        raise wrong(stored.path, "body") from None
    if hashlib.sha256(body).hexdigest() != stored.sha256:
        raise wrong(stored.path, "sha256")
    return body


def read_config(document: Document) -> bytes | None:
    """Return the protobuf body of a config, ``None`` if it has expired."""
    fields = read_fields(_Config, document)
    return None if fields.has_expired(document) else fields.body


class _Document(DocumentFields):
    ttl_s: Annotated[int, Field(ge=1, le=MAX_TTL_S)] | None = None
    expire_at: datetime | None = None

    @property
    def expiry(self) -> Expiry | None:
        """When it ends; ``None`` if it stays forever."""
        if self.ttl_s is None or self.expire_at is None:
            return None
        return Expiry(ttl_s=self.ttl_s, at=int(self.expire_at.timestamp()))

    def has_expired(self, document: Document) -> bool:
        """Return whether the *document* with these fields had ended when it was read."""
        return self.expiry is not None and self.expiry.has_passed(
            document.read_time, written_at=float(document.update_time)
        )


class _Task(_Document):
    id: str
    context_id: str
    state: int
    seconds: int | None = None
    nanos: Annotated[int, Field(ge=0, lt=1_000_000_000)] | None = None
    # A listing does not read these.
    save: str | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    pieces: Annotated[int, Field(ge=0, le=_MAX_PIECES)] = 0
    body: bytes | None = None


class _Piece(_Document):
    body: bytes


class _Config(_Document):
    body: bytes


def _ends(expiry: Expiry | None) -> dict[str, FieldValue]:
    if expiry is None:
        return {}
    return {"ttl_s": expiry.ttl_s, "expire_at": datetime.fromtimestamp(expiry.at, UTC)}


def _require_size(size: int, limit: int, how: str) -> None:
    if size > limit:
        raise InvalidInputError(
            f"the task takes {size} bytes{how}, the limit is {limit}; keep large artifacts in the artifact "
            "service, and put their URLs into the task"
        )
