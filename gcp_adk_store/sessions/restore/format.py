"""Lay out what a restore writes: the session as it was at the point, and a note of what remains to do.

::

    .../{prefix}_sessions/{session}/{prefix}_restores/{restore id}
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT, Layout, places, summary_fields, times
from gcp_adk_store.codec.encode import FieldValue, encode_state
from gcp_adk_store.codec.packing import MAX_SEGMENTS, unpack
from gcp_adk_store.codec.segments import archived_fields, initial_fields
from gcp_adk_store.codec.stored import DocumentFields, Epoch, RunFields, read_fields, wrong
from gcp_adk_store.codec.turns import ended
from gcp_adk_store.codec.writes import FORMAT, Delete, Document, Write, update
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.appends import Summary
from gcp_adk_store.model.artifacts import ArtifactsAt
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import Cut, are_runs
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.lifecycle.format import history_fields

_MAX_ARTIFACTS_BYTES: Final = 900 * 1024
"""Names of artifacts in one note, compressed: far below the 1 MiB of a document."""
_MAX_UNPACKED_BYTES: Final = 16 * 1024 * 1024
"""The same as JSON, so that a damaged note takes little memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """A restore of which something may remain to do after its commit."""

    epoch: str
    restore_id: str
    segments: Cut
    """Numbers of the segments to remove."""
    artifacts: ArtifactsAt | None
    """Which versions of artifacts were the latest at the point; ``None`` to leave them alone."""
    restored_at: float
    """Unix time of the restore's commit by Firestore's clock, in seconds."""

    @property
    def numbers(self) -> list[int]:
        """The same, one by one."""
        return [number for run in self.segments for number in run]

    @property
    def is_done(self) -> bool:
        """Whether its commit did all of it; then it has no note."""
        return not self.segments and self.artifacts is None


def restores_collection(layout: Layout) -> str:
    """Id of the collection of a session's unfinished restores."""
    return f"{layout.prefix}_restores"


def restore(layout: Layout, back: StoredSession, left: Restore, summary: Summary) -> list[Write]:
    """Return the writes that make a session what *back* is, and note what is *left* to do if anything may be.

    Raises:
        InvalidInputError: the session's events name too many artifacts, or it has had 100,000 segments and
            restores.
    """
    if back.sealed > MAX_SEGMENTS:
        raise InvalidInputError(
            f"a session has at most {MAX_SEGMENTS} numbers of segments, and each restore takes one: "
            f"{back.key}"
        )
    header: dict[str, FieldValue] = {
        "format": FORMAT,
        "rev": back.revision,
        "last_update_time": back.last_update_time,
        "state": encode_state(back.state),
        **initial_fields(back.initial),
        **history_fields(back),
        "restores": back.restores + 1,
        "restore_id": left.restore_id,
        "cut": _runs(back.cut),
        **summary_fields(summary),
        **places(back.spilled),
        **ended(back.turn),
    }
    if back.expiry is not None:
        header |= times(back.expiry)
    path = layout.session(back.key)
    header |= archived_fields(back.archived)
    without = () if back.archived.events else ("archived",)
    writes = [update(path, header, must=back.update_time, without=without, life=back.epoch)]
    if not left.is_done:
        note: dict[str, FieldValue] = {
            "format": UNCHANGED_FORMAT,
            "epoch": left.epoch,
            "restore_id": left.restore_id,
            "segments": _runs(left.segments),
        }
        if left.artifacts is not None:
            note["artifacts"] = pack_artifacts(left.artifacts)
        writes.append(Write(path=_note(layout, back.key, left.restore_id), fields=note))
    return writes


def finish_restore(layout: Layout, key: SessionKey, restore: Restore) -> list[Delete]:
    """Return the deletes that complete *restore*; its note comes last."""
    segments = layout.segments(key, restore.epoch, restore.numbers)
    return [Delete(path=path) for path in (*segments, _note(layout, key, restore.restore_id))]


def pack_artifacts(artifacts: ArtifactsAt) -> bytes:
    """Return *artifacts* as a field of a note.

    Raises:
        InvalidInputError: they are too many.
    """
    values = [dict(artifacts.kept), dict(artifacts.later), artifacts.until]
    text = json.dumps(values, separators=(",", ":")).encode()
    packed = zlib.compress(text)
    if len(packed) > _MAX_ARTIFACTS_BYTES or len(text) > _MAX_UNPACKED_BYTES:
        count = len(artifacts.kept.keys() | artifacts.later.keys())
        raise InvalidInputError(
            f"the session's events name {count} artifacts in {len(text)} bytes, compressed {len(packed)}; "
            f"the limits are {_MAX_UNPACKED_BYTES} and {_MAX_ARTIFACTS_BYTES}; restore it without them: "
            "Store.sessions.restore_session"
        )
    return packed


def unpack_artifacts(data: bytes) -> ArtifactsAt:
    """Return what :func:`pack_artifacts` packed.

    Raises:
        StoredDataError: *data* is damaged.
    """
    try:
        kept, later, until = json.loads(unpack(data, limit=_MAX_UNPACKED_BYTES))
        return ArtifactsAt(
            kept={str(name): int(version) for name, version in kept.items()},
            later={str(name): int(version) for name, version in later.items()},
            until=None if until is None else float(until),
        )
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as exc:
        raise StoredDataError("artifacts of a restore are damaged") from exc


def _runs(cut: Cut) -> list[dict[str, int]]:
    return [{"from": run.start, "to": run.stop - 1} for run in cut]


def _note(layout: Layout, key: SessionKey, restore_id: str) -> str:
    return f"{layout.session(key)}/{restores_collection(layout)}/{restore_id}"


class _Restore(DocumentFields):
    epoch: Epoch
    restore_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    segments: list[RunFields]
    artifacts: bytes | None = None


def read_restores(documents: Sequence[Document]) -> list[Restore]:
    """Return the unfinished restores among *documents*."""
    restores = []
    for document in documents:
        fields = read_fields(_Restore, document)
        if fields.restore_id != document.path.rpartition("/")[2]:
            raise wrong(document.path, "restore_id")
        segments = tuple(range(run.start, run.to + 1) for run in fields.segments)
        if not are_runs(segments, sealed=MAX_SEGMENTS + 1):  # a number twice is of no restore
            raise wrong(document.path, "segments")
        try:
            artifacts = None if fields.artifacts is None else unpack_artifacts(fields.artifacts)
        except StoredDataError as exc:
            raise StoredDataError(f"{document.path}: {exc}") from exc.__cause__
        restores.append(
            Restore(
                epoch=fields.epoch,
                restore_id=fields.restore_id,
                segments=segments,
                artifacts=artifacts,
                restored_at=float(document.update_time),
            )
        )
    return restores
