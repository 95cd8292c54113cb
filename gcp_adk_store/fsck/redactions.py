"""Compare the markers of a history with the events that tell of redactions."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass

from gcp_adk_store.codec.events import decode_event
from gcp_adk_store.codec.markers import hash_of_marker
from gcp_adk_store.codec.redactions import told_by
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.redactions import replaced_by


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMarker:
    """A text that ends as a marker."""

    position: int
    """Number of the event, from 0."""
    event_id: str
    """Empty if it cannot be read."""
    path: str
    """The document that holds it."""
    sha256: str
    """Hash of the event that stood there, as the marker says it, in hex digits."""
    is_fixed: bool
    """Whether it contains nothing but what a marker may."""
    sha256_of_marker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a history proves of one marker."""

    says: str
    """What is wrong; empty if the chain holds its redaction."""
    audits: tuple[int, ...]
    """The numbers of the events that tell of its redaction."""
    is_bound: bool
    """Whether they have the hash of the marker."""


class Redactions:
    """The markers of a history, and what its events tell of redactions."""

    def __init__(self) -> None:
        """Begin with an empty history."""
        self.markers: list[FoundMarker] = []
        self._told: dict[tuple[int, str], list[tuple[int, str | None]]] = defaultdict(list)

    def add(self, position: int, text: str, path: str) -> None:
        """Take note of the event number *position* in the document at *path*; those before it were added."""
        replaced = replaced_by(text)
        if replaced is not None:
            event_id, is_fixed = "", False
            with suppress(StoredDataError):
                event_id, is_fixed = decode_event(text).event.id, True
            self.markers.append(
                FoundMarker(
                    position=position,
                    event_id=event_id,
                    path=path,
                    sha256=replaced.hex(),
                    is_fixed=is_fixed,
                    sha256_of_marker=hash_of_marker(text),
                )
            )
            return
        told = told_by(text)
        for one in told.events if told is not None else ():
            if one.position < position:
                self._told[one.position, one.sha256].append((position, one.marker))

    def judge(self, marker: FoundMarker) -> Judged:
        """Judge *marker*, once all events were added."""
        told = self._told[marker.position, marker.sha256]
        bound = {sha256 for _, sha256 in told if sha256 is not None}
        says = ""
        if not marker.is_fixed:
            says = "a marker stands here with content that no redaction writes"
        elif not told:
            says = "a marker stands here, and no later event of the chain tells of a redaction"
        elif bound - {marker.sha256_of_marker}:
            says = "the marker that stands here is not the one that the redaction wrote"
        audits = tuple(position for position, sha256 in told if sha256 is not None or not bound)
        return Judged(says=says, audits=audits, is_bound=bool(bound))
