"""Describe erasures: what was erased, what can still be recovered, and the receipt of both."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from gcp_adk_store.errors import InvalidInputError

KINDS: Final = (
    "sessions",
    "events",
    "segments",
    "state_keys",
    "payloads",
    "memories",
    "artifacts",
    "versions",
    "uploads",
    "tasks",
    "push_configs",
    "keys",
    "notes",
    "files",
    "others",
)
"""What an erasure counts, in the order of a receipt.

``versions`` are those of artifacts, ``keys`` those of encryption, ``notes`` those of unfinished deletions,
forks and restores, and of push configs; ``files`` are those that no object had in a folder: a killed process
left them, and nothing says whose they were; ``others`` are documents that this release does not know.
"""

NOT_COVERED: Final = (
    "state of the app (keys that begin with app:)",
    "logs, traces, exports and copies outside of the store",
    "sessions of other users that were forked from the user's, which keep the user's id as their origin",
    "other apps of the store",
)
"""What an erasure leaves alone."""

MAX_QUIET_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Erased:
    """How much of one kind of data an erasure removed."""

    count: int = 0
    bytes: int = 0
    """Bytes by Firestore's formula for documents, and as stored for objects; 0 for what others contain."""

    def __add__(self, other: "Erased") -> "Erased":
        return Erased(self.count + other.count, self.bytes + other.bytes)


Tally: TypeAlias = Mapping[str, Erased]
"""What was erased, by kind."""


def total(tally: Tally, more: Tally) -> dict[str, Erased]:
    """Return the sum of both."""
    nothing = Erased()
    kinds = (*KINDS, *sorted(tally.keys() - set(KINDS)))
    sums = {kind: tally.get(kind, nothing) + more.get(kind, nothing) for kind in kinds}
    return {kind: erased for kind, erased in sums.items() if erased != nothing}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Until when erased data can still be read back, as Unix times in seconds.

    ``None``: it cannot be read back in this way, or ``unknown`` says why that is unknown.
    """

    firestore_history_until: float | None = None
    """By reads of the database at an older time: an hour, or 7 days with point-in-time recovery."""
    backups_until: float | None = None
    """From backups of the database."""
    soft_delete_until: float | None = None
    """From deleted objects that the bucket keeps."""
    unknown: tuple[str, ...] = ()
    """What is unknown, and why: ids, never content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureProgress:
    """How far an erasure is."""

    stage: str
    """``keys``, ``documents``, ``payloads``, ``artifacts``, ``uploads``, ``files``; ``waiting`` before a last
    look."""
    passes: int
    """Number of the pass, from 1."""
    found: Tally
    """What was found so far in all passes; it is erased unless it is a dry run."""


@dataclass(frozen=True, kw_only=True)
class ErasureReceipt:
    """What an erasure removed. It names the user only by a keyed hash, so it can be kept."""

    app_name: str
    subject: str
    """HMAC-SHA256 of the app and the user in hex digits; empty after a dry run."""
    is_dry_run: bool
    erased: Tally
    """After a dry run, what would be erased."""
    begun_at: float
    """Unix time by the database's clock, in seconds, as all times here; of the first call, if several."""
    ended_at: float
    empty_at: float | None
    """The begin of the last pass, which found nothing: all that was stored before is gone."""
    passes: int
    recovery: Recovery = field(default_factory=Recovery)
    unreadable_from: float | None = None
    """From then on nothing that was encrypted for the user can be read, wherever a copy of it is: their key
    is gone from every process, and from every history and backup of the keys' database that is known.
    ``None`` if no key was destroyed."""
    not_covered: tuple[str, ...] = NOT_COVERED

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as JSON values, with its digest."""
        return {**self._content(), "digest": self.digest}

    def to_json(self) -> str:
        """Return :meth:`to_dict` as one line of JSON, in ASCII."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the receipt without its digest, as canonical JSON: sorted keys, no spaces, UTF-8."""
        return digest_of(self._content())

    def _content(self) -> dict[str, Any]:
        recovery = asdict(self.recovery)
        return {
            "format": 1,
            "app_name": self.app_name,
            "subject": self.subject,
            "is_dry_run": self.is_dry_run,
            "erased": {kind: asdict(self.erased.get(kind, Erased())) for kind in KINDS},
            "begun_at": self.begun_at,
            "ended_at": self.ended_at,
            "empty_at": self.empty_at,
            "passes": self.passes,
            "recovery": {**recovery, "unknown": list(self.recovery.unknown)},
            "unreadable_from": self.unreadable_from,
            "not_covered": list(self.not_covered),
        }


class Erasure(AsyncIterator[ErasureProgress | ErasureReceipt]):
    """An erasure: await it for its receipt, or iterate over its progress, of which the receipt is the last.

    It begins with the first step and goes on only while it is awaited or iterated over.
    """

    def __init__(self, steps: AsyncGenerator[ErasureProgress | ErasureReceipt, None]) -> None:
        """Take the steps, the last of which is the receipt."""
        self._steps = steps
        self._receipt: ErasureReceipt | None = None

    async def __anext__(self) -> ErasureProgress | ErasureReceipt:
        """Go on to the next step."""
        step = await anext(self._steps)
        if isinstance(step, ErasureReceipt):
            self._receipt = step
        return step

    def __await__(self) -> Generator[Any, None, ErasureReceipt]:
        """Take all steps that are left, and return the receipt.

        Raises:
            InvalidInputError: it ended before, by an error or by :meth:`aclose`.
        """
        return self._whole().__await__()

    async def aclose(self) -> None:
        """End it after the step that it takes; the next erasure of the user goes on."""
        await self._steps.aclose()

    async def _whole(self) -> ErasureReceipt:
        async with aclosing(self):
            async for _ in self:
                pass
        if self._receipt is None:
            raise InvalidInputError("this erasure ended without a receipt; call erase_user again")
        return self._receipt


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of a receipt's JSON values, without its ``digest``."""
    fields = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def require_quiet(quiet_s: float) -> None:
    """Check the time before the last look.

    Raises:
        InvalidInputError: it is negative, over an hour, or no number.
    """
    if not 0 <= quiet_s <= MAX_QUIET_S:
        raise InvalidInputError(f"quiet_s is {quiet_s}, it must be from 0 to {MAX_QUIET_S:.0f}")
