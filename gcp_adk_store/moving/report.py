"""Report what a copy did, and what could not be carried exactly, line by line."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

MAX_NOTES: Final = 10_000
"""The most notes that a report keeps; further ones are counted."""

WRONG: Final = frozenset({"conflict", "failed", "differs"})
"""Kinds of notes after which a copy is not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a copy could not carry exactly, or did not carry."""

    kind: str
    """``order``, ``types``, ``initial``, ``state``, ``times``, ``titles``, ``inbox``, ``ids``, ``lost``,
    ``versions`` or ``skipped``; or ``conflict``, ``failed`` or ``differs``, after which the target lacks
    something."""
    says: str
    user_id: str | None = None
    session_id: str | None = None

    def __str__(self) -> str:
        ids = [f"user {self.user_id!r}"] if self.user_id is not None else []
        ids += [f"session {self.session_id!r}"] if self.session_id is not None else []
        return f"{self.kind}: {', '.join(ids) + ': ' if ids else ''}{self.says}"


@dataclass(slots=True, kw_only=True)
class Report:
    """What a copy did; the numbers are sessions unless they say otherwise."""

    listed: int = 0
    """In the source, of the app and user that were asked for."""
    copied: int = 0
    """Made in the target."""
    continued: int = 0
    """Were in the target, and got the events that they lacked."""
    replaced: int = 0
    """Were made in the target by this copy, changed otherwise than by appends since, and were made anew."""
    removed: int = 0
    """Were made in the target by this copy, and deleted in the source and then in the target."""
    unchanged: int = 0
    """Were in the target as in the source."""
    verified: int = 0
    """Were read again in the target, and have the digest of the source."""
    events: int = 0
    """Events that were written."""
    artifact_versions: int = 0
    """Versions of artifacts that were written."""
    memories: int = 0
    """Memories that were written."""
    passes: int = 0
    """How often the source was listed."""
    wrong: int = 0
    """Notes of conflicts, failures and differences."""
    notes: list[Note] = field(default_factory=list)
    notes_left_out: int = 0
    """Notes beyond the 10,000 that are kept."""

    @property
    def is_complete(self) -> bool:
        """Whether the target has everything: no conflict, failure or difference."""
        return not self.wrong

    def add(self, kind: str, says: str, *, user: str | None = None, session: str | None = None) -> None:
        """Keep a note, once."""
        note = Note(kind=kind, says=says, user_id=user, session_id=session)
        self.wrong += kind in WRONG
        if len(self.notes) >= MAX_NOTES:
            self.notes_left_out += 1
        elif note not in self.notes[-100:]:
            self.notes.append(note)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {**asdict(self), "is_complete": self.is_complete}
