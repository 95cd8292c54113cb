"""Read notes of what is left to do: of deletions, of forks that are not complete, and of restores."""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT, Deletion
from gcp_adk_store.codec.fields import FORMAT
from gcp_adk_store.codec.kinds import DocumentFields, Epoch, read_fields, wrong
from gcp_adk_store.codec.restores import Restore, unpack_artifacts
from gcp_adk_store.codec.stored import PartFields, RunFields
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError

_NOTES: Final = (UNCHANGED_FORMAT, FORMAT)
"""Notes of deletions, and those of forks, which older releases must not take for one of a deletion."""


class _Parts(PartFields):
    formats = _NOTES


class _ForkNote(DocumentFields):
    formats = _NOTES

    making: bool | None = None
    artifacts: bool = False


class _Restore(DocumentFields):
    epoch: Epoch
    restore_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    segments: list[RunFields]
    artifacts: bytes | None = None


def read_deletions(documents: Sequence[Document]) -> list[Deletion]:
    """Return the unfinished deletions, and unfinished forks, that *documents* note."""
    deletions = []
    for document in documents:
        fields = read_fields(_Parts, document)
        if fields.epoch != document.path.rpartition("/")[2]:
            # Of another life: a removal would hit the living session.
            raise wrong(document, "epoch")
        fork = read_fields(_ForkNote, document)
        deletions.append(
            Deletion(
                epoch=fields.epoch,
                sealed=fields.sealed,
                spilled=fields.spilled,
                making=fork.making,
                artifacts=fork.artifacts,
                update_time=document.update_time if fork.making else "",
            )
        )
    return deletions


def read_restores(documents: Sequence[Document]) -> list[Restore]:
    """Return the unfinished restores among *documents*."""
    restores = []
    for document in documents:
        fields = read_fields(_Restore, document)
        if fields.restore_id != document.path.rpartition("/")[2]:
            raise wrong(document, "restore_id")
        try:
            artifacts = None if fields.artifacts is None else unpack_artifacts(fields.artifacts)
        except StoredDataError as exc:
            raise StoredDataError(f"{document.path}: {exc}") from exc.__cause__
        restores.append(
            Restore(
                epoch=fields.epoch,
                restore_id=fields.restore_id,
                segments=tuple(range(run.start, run.to + 1) for run in fields.segments),
                artifacts=artifacts,
                restored_at=float(document.update_time),
            )
        )
    return restores
