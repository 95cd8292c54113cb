"""Decide what is wrong with notes of what is left to do: of deletions, of forks and of restores."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.notes import read_deletions, read_restores
from gcp_adk_store.codec.writes import Delete, Document
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.fsck.faults import Fault

_FORK_FORMAT = 2
"""The format of a note that older releases must not take for one of a deletion."""


def deletion_faults(
    notes: Sequence[Document], *, living: object, before: float
) -> tuple[list[Fault], dict[str, Deletion]]:
    """Return what is wrong with notes of deletions and forks, and what they name by their epochs.

    *living* is the epoch of the session that has the id now. A note from *before* this Unix time is old.
    """
    found: list[Fault] = []
    named: dict[str, Deletion] = {}
    for note in notes:
        try:
            (deletion,) = read_deletions([note])
        except StoredDataError as exc:
            found.append(Fault(code="FSCK501", path=note.path, says=str(exc)))
            continue
        named[deletion.epoch] = deletion
        found += _kind_faults(note)
        if deletion.epoch == living:
            says = "its epoch is that of the living session"
            repair = Delete(path=note.path, must=note.update_time)
            found.append(Fault(code="FSCK502", path=note.path, says=says, repair=(repair,)))
        elif float(note.update_time) < before:
            what = "deletion" if deletion.making is None else "fork"
            found.append(Fault(code="FSCK503", path=note.path, says=f"the {what} was interrupted"))
    return found, named


def _kind_faults(note: Document) -> list[Fault]:
    """Return a fault if a note is half of a deletion, half of a fork."""
    is_fork = note.fields["format"] == _FORK_FORMAT
    kinds = {type(note.fields.get(name)) for name in ("making", "artifacts")}
    if kinds == {bool if is_fork else type(None)}:
        return []
    says = "its format is not that of a deletion, or making and artifacts are not those of a fork"
    return [Fault(code="FSCK501", path=note.path, item="making", says=says)]


def restore_faults(
    notes: Sequence[Document], *, living: object, cut: AbstractSet[int] | None, before: float
) -> tuple[list[Fault], frozenset[int]]:
    """Return what is wrong with notes of restores, and the segments of the *living* session that they name.

    *cut* has the numbers that restores cut off; ``None`` if they are unknown.
    """
    found: list[Fault] = []
    named: set[int] = set()
    for note in notes:
        try:
            (restore,) = read_restores([note])
        except StoredDataError as exc:
            found.append(Fault(code="FSCK504", path=note.path, says=str(exc)))
            continue
        numbers = {number for run in restore.segments for number in run}
        if restore.artifacts is None and not numbers:
            says = "names neither segments nor artifacts"
            found.append(Fault(code="FSCK504", path=note.path, item="segments", says=says))
        if restore.epoch == living:
            named |= numbers
            if cut is not None and numbers - cut:
                says = f"names {len(numbers - cut)} segments that no restore cut off"
                found.append(Fault(code="FSCK505", path=note.path, item="segments", says=says))
        if float(note.update_time) < before:
            found.append(Fault(code="FSCK506", path=note.path, says="the restore was interrupted"))
    return found, frozenset(named)
