"""Remember which events the tails of sessions hold, so that no append counts one of them again."""

from dataclasses import dataclass
from typing import Final

from gcp_adk_store.kernel.concurrency import Lru
from gcp_adk_store.model.history import DIGEST_BYTES
from gcp_adk_store.model.sessions import Append, Marker, StoredSession

_CAPACITY_BYTES: Final = 8 * 1024 * 1024
_ENTRY_BYTES: Final = 400
"""About what Python takes for an entry without digests: with them, 8 MiB are the tails of 9,000 sessions."""


@dataclass(frozen=True, slots=True)
class _Tail:
    restores: int
    revision: int
    digests: bytes
    """The digests of all events that the tail may hold, one after another."""

    @property
    def age(self) -> tuple[int, int]:
        return self.restores, self.revision

    def has(self, digest: bytes) -> bool:
        place = self.digests.find(digest)
        while place % DIGEST_BYTES and place >= 0:
            place = self.digests.find(digest, place + 1)
        return place >= 0


class KnownTails:
    """The newest tails that this process has seen or written, by the epochs of their sessions.

    Restores and revision determine the events of a session, and so its tail. A tail that was sealed meanwhile
    holds fewer.
    """

    def __init__(self) -> None:
        """Know no tail."""
        self._known = Lru[str, _Tail](_CAPACITY_BYTES, size_of=lambda tail: _ENTRY_BYTES + len(tail.digests))

    def saw(self, stored: StoredSession) -> None:
        """Take note of a session that was read with its tail, or with the digests of its whole tail."""
        self._put(stored.marker, b"".join(stored.digests))

    def appended(self, base: Marker, append: Append) -> None:
        """Take note of a commit that required *base*."""
        known = self._of(base)
        if known is not None and known.age == (base.restores, base.revision):
            new = b"".join(hashed[:DIGEST_BYTES] for hashed in append.hashes)
            after = _Tail(base.restores, base.revision + len(append.texts), known.digests + new)
            self._known.put(base.epoch, after)

    def sealed(self, marker: Marker) -> None:
        """Take note of a commit that moved the tail of the session of *marker* into a segment."""
        self._put(marker, b"")

    def may_hold(self, base: Marker, append: Append) -> bool:
        """Return whether the tail that a commit requires by *base* may hold one of the events already.

        It may if it is unknown. The commit of a handle that others have overtaken is refused anyway.
        """
        known = self._of(base)
        if known is None or known.age < (base.restores, base.revision):
            return True
        if known.age > (base.restores, base.revision):
            return False
        return any(known.has(hashed[:DIGEST_BYTES]) for hashed in append.hashes)

    def _of(self, base: Marker) -> _Tail | None:
        return _Tail(base.restores, 0, b"") if base.revision == 0 else self._known.get(base.epoch)

    def _put(self, marker: Marker, digests: bytes) -> None:
        now = _Tail(marker.restores, marker.revision, digests)
        known = self._known.get(marker.epoch)
        if known is None or known.age <= now.age:
            self._known.put(marker.epoch, now)
