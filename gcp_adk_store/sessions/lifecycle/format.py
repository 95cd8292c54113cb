"""Encode histories, and encode and read notes of deletions and of forks that are not complete."""

from collections.abc import Sequence
from typing import Final

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT, Deletion, Layout
from gcp_adk_store.codec.stored import DocumentFields, PartFields, read_fields, wrong
from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import FORMAT, Delete, Document, Must, Write, places
from gcp_adk_store.model.history import digests_of
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.sessions import StoredSession

_NOTES: Final = (UNCHANGED_FORMAT, FORMAT)
"""Notes of deletions, and those of forks, which older releases must not take for one of a deletion."""


class _Parts(PartFields):
    formats = _NOTES


class _ForkNote(DocumentFields):
    formats = _NOTES

    making: bool | None = None
    artifacts: bool = False


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


def note_write(
    layout: Layout,
    key: SessionKey,
    epoch: str,
    *,
    sealed: int,
    spilled: frozenset[PayloadPlace],
    artifacts: bool,
    before: str | None,
) -> Write:
    """Return the write of the note of a fork that has *sealed* segments so far.

    Older releases refuse its format: they would remove the parts of a fork that is under way.

    Args:
        layout: The paths.
        key: The fork.
        epoch: Of the fork.
        sealed: The number of its segments that are written with the note or before.
        spilled: Places of its payloads.
        artifacts: Whether artifacts are copied.
        before: The required update time of the note; ``None`` for the first note.
    """
    return Write(
        path=layout.note(key, epoch),
        fields={
            "format": FORMAT,
            "epoch": epoch,
            "sealed": sealed,
            "making": True,
            "artifacts": artifacts,
            **places(spilled),
        },
        must=Must.BE_ABSENT if before is None else before,
    )


def note_removal(layout: Layout, key: SessionKey, epoch: str, *, before: str) -> Delete:
    """Return the removal of the note of a fork, in the commit that completes it."""
    return Delete(path=layout.note(key, epoch), must=before)


def claim(layout: Layout, key: SessionKey, epoch: str, *, before: str) -> Write:
    """Return the write after which a fork can no longer be completed, so that its parts can be removed."""
    return Write(path=layout.note(key, epoch), fields={"making": False}, mask=[("making",)], must=before)


def history_fields(session: StoredSession) -> dict[str, FieldValue]:
    """Return the fields of a session document that say where its events are, and what they lead to."""
    return {
        "chain": session.chain,
        "chain_sealed": session.chain_sealed,
        "tail": list(session.tail),
        "digests": digests_of(session.tail),
        "tail_bytes": sum(len(text.encode()) for text in session.tail),
        "sealed": session.sealed,
        "sealed_max": session.sealed_max,
    }
