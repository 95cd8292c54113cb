"""Summarise the events of a session as listings show them: the number of turns, and the last message."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from google.adk.events import Event

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


def turns_of(event: Event) -> tuple[str, ...]:
    """Return 16 hex digits of the SHA-256 of a user event's invocation id; nothing for any other event."""
    if event.author != "user" or not event.invocation_id:
        return ()
    name = event.invocation_id.encode("utf-8", "surrogatepass")
    return (hashlib.sha256(name).hexdigest()[:_DIGEST_CHARACTERS],)


def text_of(event: Event) -> str | None:
    """Return the first 200 characters of an event's texts, joined; ``None`` if they are empty or blank.

    These are the texts of its content's parts, without thoughts. A half of a surrogate pair, which storage
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
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
