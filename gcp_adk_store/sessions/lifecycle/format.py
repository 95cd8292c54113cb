"""Encode histories, and encode and read notes of deletions and of forks that are not complete."""

from collections.abc import Sequence
from typing import Final

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT, Deletion, Layout, places
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.stored import PartFields, read_fields, wrong
from gcp_adk_store.codec.writes import FORMAT, Document, Must, Write
from gcp_adk_store.model.appends import digests_of
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import StoredSession

_NOTES: Final = (UNCHANGED_FORMAT, FORMAT)
"""Notes of deletions, and those of forks, which older releases must not take for one of a deletion."""


class _Note(PartFields):
    formats = _NOTES

    making: bool | None = None
    artifacts: bool = False


def read_deletions(documents: Sequence[Document]) -> list[Deletion]:
    """Return the unfinished deletions, and unfinished forks, that *documents* note."""
    deletions = []
    for document in documents:
        fields = read_fields(_Note, document)
        if fields.epoch != document.path.rpartition("/")[2]:
            # Of another life: a removal would hit the living session.
            raise wrong(document.path, "epoch")
        deletions.append(
            Deletion(
                epoch=fields.epoch,
                sealed=fields.sealed,
                spilled=fields.spilled,
                making=fields.making,
                artifacts=fields.artifacts,
                update_time=document.update_time if fields.making else "",
            )
        )
    return deletions


def note_write(layout: Layout, key: SessionKey, note: Deletion) -> Write:
    """Return the write of the *note* of a fork, which must be stored as of its update time, if it has any.

    Older releases refuse its format: they would remove the parts of a fork that is under way.
    """
    return Write(
        path=layout.note(key, note.epoch),
        fields={
            "format": FORMAT,
            "epoch": note.epoch,
            "sealed": note.sealed,
            "making": True,
            "artifacts": note.artifacts,
            **places(note.spilled),
        },
        must=note.update_time or Must.BE_ABSENT,
    )


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
