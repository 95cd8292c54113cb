"""Describe an append: its events, which a chain links, its turns, and what its handle knows.

What is in the place of a redacted event is a marker. A :class:`Marker` is something else: what a handle
knows of its session.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Final, Self

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.model.keys import whole_text
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.model.state import ScopedState, overlay

REDACTED_KEY: Final = "adk_store_redacted"
"""The last key of a marker's JSON, and the key of what a marker says in its event's ``custom_metadata``."""

_END: Final = re.compile(rf',"{REDACTED_KEY}":\{{"sha256":"([0-9a-f]{{64}})"\}}\}}')

_END_LENGTH: Final = len(f',"{REDACTED_KEY}":{{"sha256":""}}}}') + 64

DIGEST_BYTES: Final = 8
"""Bytes of a digest that distinguishes events of one document; the chain proves what was appended."""


def as_marker(text: str, replaced: bytes) -> str:
    """Return the JSON object *text* as the marker of the event whose hash is *replaced*."""
    return f'{text[:-1]},"{REDACTED_KEY}":{{"sha256":"{replaced.hex()}"}}}}'


def replaced_by(text: str) -> bytes | None:
    """Return the hash of the event that the marker *text* replaced; ``None`` for an event.

    Only the store writes this key at the top of an event's JSON: two closing braces at its end prove that it
    is there, and not in what an event says.
    """
    found = _END.fullmatch(text[-_END_LENGTH:]) if len(text) > _END_LENGTH else None
    return None if found is None else bytes.fromhex(found[1])


def hash_of(text: str) -> bytes:
    """Return the SHA-256 of the event that was appended as *text*, or that a marker in its place replaced."""
    return replaced_by(text) or hashlib.sha256(text.encode()).digest()


def holds(stored: Collection[str], text: str) -> bool:
    """Return whether *text* is among the *stored* texts, perhaps as a marker."""
    if text in stored:
        return True
    markers = {replaced for one in stored if (replaced := replaced_by(one)) is not None}
    return bool(markers) and hash_of(text) in markers


def digests_of(texts: Iterable[str]) -> list[bytes]:
    """Return the first 8 bytes of the hash of each of *texts*."""
    return [hash_of(text)[:DIGEST_BYTES] for text in texts]


_START: Final = b"gcp-adk-store/2\0"


def genesis(epoch: str) -> bytes:
    """Return the head of the chain of a session without events, which *epoch* identifies."""
    return hashlib.sha256(_START + epoch.encode()).digest()


def link(head: bytes, hashed: bytes) -> bytes:
    """Return the head of a chain after one more event, by the hash of its text."""
    return hashlib.sha256(head + hashed).digest()


def step(head: bytes, text: str) -> bytes:
    """Return the head of a chain after one more event, *text* as it is stored.

    A marker leads to the same head as the event that it replaced.
    """
    return link(head, hash_of(text))


def fold(head: bytes, texts: Iterable[str]) -> bytes:
    """Return the head of a chain after the events of *texts*, in append order."""
    for text in texts:
        head = step(head, text)
    return head


MAX_TEXT: Final = 200
"""The most characters of the last message."""

_DIGEST_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How many turns a session has.

    An event opens a turn if its author is ``user`` and it has another invocation id than the last event that
    opened one. An event without an invocation id opens none.
    """

    count: int = 0
    last: str = ""
    """:func:`turns_of` the last event that opened a turn; empty before the first one."""

    def after(self, turns: Iterable[str]) -> "Turns":
        """Return the turns after more events; *turns* is :func:`turns_of` them, in order."""
        count, last = self.count, self.last
        for turn in turns:
            count += turn != last
            last = turn
        return Turns(count=count, last=last)


def turns_of(event: Event) -> tuple[str, ...]:
    """Return 16 hex digits of the SHA-256 of a user event's invocation id; nothing for any other event."""
    if event.author != "user" or not event.invocation_id:
        return ()
    name = event.invocation_id.encode("utf-8", "surrogatepass")
    return (hashlib.sha256(name).hexdigest()[:_DIGEST_CHARACTERS],)


def text_of(event: Event) -> str | None:
    """Return the first 200 characters of an event's texts, joined; ``None`` if they are empty or blank.

    These are the texts of its content's parts, without thoughts. A lone surrogate, which storage
    cannot hold as text, becomes U+FFFD.
    """
    text = ""
    for part in (event.content and event.content.parts) or ():
        if part.text and not part.thought:
            text += part.text[: MAX_TEXT - len(text)]
            if len(text) == MAX_TEXT:
                break
    if not text or text.isspace():
        return None
    return whole_text(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is kept of a session's events for listings."""

    turns: Turns = Turns()
    last_text: str = ""
    """:func:`text_of` the newest event that has a text; empty without one."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """Return the summary of all *events* of a session, in append order and with their payloads."""
        last_text = ""
        turns: list[str] = []
        for event in events:
            turns += turns_of(event)
            last_text = text_of(event) or last_text
        return cls(turns=Turns().after(turns), last_text=last_text)


_MARKER: Final = re.compile(
    r"([^/]+)/([0-9]{1,18})/((?:[0-9]{1,18}\.[0-9]{9})?)(?:/([0-9]{1,12})/([0-9]{1,12})/([0-9]{1,12})?)?"
    r"#([0-9a-f]{64})(?::([0-9]{1,18}))?(?:!([0-9]{1,18})/((?:[0-9a-f]{16})?))?(?:@([0-9]{1,18}))?"
    r"(?:~([0-9]{1,18}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a handle remembers of the stored session; ADK carries it as an opaque string."""

    epoch: str
    """A random text from the session's creation: distinguishes sessions with the same id."""
    revision: int
    """The number of appends."""
    update_time: str
    """The document's update time, ``seconds.nanoseconds``; empty if unknown."""
    chain: bytes
    """The head of the session's chain, from which the next append goes on."""
    expiry: Expiry | None = None
    """The session's expiry, ``None`` without a time to live."""
    fence: int = 0
    """The number of the session's newest turn, 0 without one."""
    restores: int = 0
    """How often the session was restored: a restore takes the revision back, too."""
    turns: Turns | None = None
    """The session's turns; ``None`` if they are unknown."""
    redactions: int = 0
    """How often events of the session were redacted."""

    def has_expired(self, now: float) -> bool:
        """Return whether the session has expired *now* by what the handle knows: others may have appended."""
        written_at = float(self.update_time or 0)
        return self.expiry is not None and self.expiry.has_passed(now, written_at=written_at)

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Parse the text of :meth:`__str__`; ``None`` for a handle of another service."""
        match = _MARKER.fullmatch(text or "")
        if match is None:
            return None
        epoch, revision, update_time, ttl_s, at, parts_at, chain, restores, turns, last, fence, redactions = (
            match.groups()
        )
        expiry = None
        if ttl_s is not None:
            expiry = Expiry(ttl_s=int(ttl_s), at=int(at), parts_at=int(parts_at) if parts_at else None)
        return cls(
            epoch=epoch,
            revision=int(revision),
            update_time=update_time,
            expiry=expiry,
            chain=bytes.fromhex(chain),
            fence=int(fence or 0),
            restores=int(restores or 0),
            turns=None if turns is None else Turns(count=int(turns), last=last),
            redactions=int(redactions or 0),
        )

    def at(self, update_time: str) -> "Marker":
        """Return this marker after a write that appended nothing."""
        return replace(self, update_time=update_time)

    def advanced(self, append: "Append", update_time: str, expiry: Expiry | None) -> "Marker":
        """Return this marker after *append*, which set *expiry*."""
        return replace(
            self,
            revision=self.revision + len(append.texts),
            update_time=update_time,
            expiry=expiry,
            chain=append.head_after(self.chain),
            turns=self.turns and self.turns.after(append.turns),
        )

    def __str__(self) -> str:
        text = f"{self.epoch}/{self.revision}/{self.update_time}"
        if self.expiry is not None:
            text += f"/{self.expiry.ttl_s}/{self.expiry.at}/{self.expiry.parts_at or ''}"
        text += f"#{self.chain.hex()}"
        if self.restores:
            text += f":{self.restores}"
        if self.turns is not None:
            text += f"!{self.turns.count}/{self.turns.last}"
        if self.fence:
            text += f"@{self.fence}"
        return f"{text}~{self.redactions}" if self.redactions else text


def marker_of(session: Session) -> Marker | None:
    """Return what *session* knows of storage; ``None`` for one that came from elsewhere."""
    # ADK keeps here what a service knows of the stored session, and has no public access to it.
    return Marker.parse(session._storage_update_marker)  # noqa: SLF001


def mark(session: Session, marker: Marker | None) -> None:
    """Let *session* remember *marker*."""
    session._storage_update_marker = None if marker is None else str(marker)  # noqa: SLF001


@dataclass(frozen=True, kw_only=True)  # no slots, which leave nowhere to cache
class Append:
    """Events on their way into storage, in one commit."""

    texts: Sequence[str]
    """The events as JSON, in order; one at least, and no two are equal."""
    timestamp: float
    """That of the last event."""
    delta: ScopedState
    """Their state deltas, where later ones win; a :class:`PayloadRef` stands for a spilled value."""
    spilled: frozenset[PayloadPlace] = frozenset()
    """Places of the session's payloads that this append refers to."""
    turns: Sequence[str] = ()
    """:func:`turns_of` the events."""
    last_text: str | None = None
    """The start of the newest text; ``None`` for events without text."""

    @cached_property
    def hashes(self) -> Sequence[bytes]:
        """Hash of each of the events."""
        return [hash_of(text) for text in self.texts]

    def head_after(self, head: bytes) -> bytes:
        """Return the head of a session's chain after the events, from the *head* before them."""
        return reduce(link, self.hashes, head)

    def and_then(self, later: "Append") -> "Append":
        """Return the append of these events, and of those of *later* after them."""
        return Append(
            texts=(*self.texts, *later.texts),
            timestamp=later.timestamp,
            delta=overlay(self.delta, later.delta),
            spilled=self.spilled | later.spilled,
            turns=(*self.turns, *later.turns),
            last_text=self.last_text if later.last_text is None else later.last_text,
        )
