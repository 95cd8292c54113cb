"""Mask content, and preview what is large."""

import csv
import io
import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from gcp_adk_store.model.keys import whole_text

MAX_SHOWN: Final = 20_000
"""Characters of one text on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A piece of content as a page shows it."""

    text: str | None
    """The content, or its start; ``None`` while it is masked."""
    characters: int
    """Its whole length."""
    is_cut: bool
    """Whether the text is only the start."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Covers content, unless it is *lifted*."""

    lifted: bool

    def over(self, text: str, *, most: int = MAX_SHOWN) -> Shown:
        """Return *text* as a page shows it: at most the first *most* characters."""
        return Shown(
            text=whole_text(text[:most]) if self.lifted else None,
            characters=len(text),
            is_cut=self.lifted and len(text) > most,
        )

    def over_json(self, value: Any, *, most: int = MAX_SHOWN) -> Shown:
        """Return a JSON value as indented text."""
        return self.over(json_text(value), most=most)


def json_text(value: Any, *, sort_keys: bool = False) -> str:
    """Return *value* as indented JSON; what JSON cannot hold stands there as text.

    Equal values have equal texts with *sort_keys*: events keep the order of keys, and documents do not.
    """
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str, sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError):
        return str(value)


MAX_TEXT_BYTES: Final = 64 * 1024
"""Bytes of a text that a page shows."""

MAX_ROWS: Final = 100
MAX_COLUMNS: Final = 30
MAX_CELL: Final = 200

Preview = Literal["image", "audio", "pdf", "text", "csv", "none"]


_SERVED: Final[tuple[tuple[str, Preview, re.Pattern[bytes]], ...]] = (
    ("image/png", "image", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", "image", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", "image", re.compile(rb"GIF8[79]a")),
    ("image/webp", "image", re.compile(rb"(?s)RIFF....WEBP")),
    ("application/pdf", "pdf", re.compile(rb"%PDF-")),
    ("audio/wav", "audio", re.compile(rb"(?s)RIFF....WAVE")),
    ("audio/mpeg", "audio", re.compile(rb"ID3|\xff[\xfb\xf3\xf2]")),
    ("audio/ogg", "audio", re.compile(rb"OggS")),
    ("audio/flac", "audio", re.compile(rb"fLaC")),
)
"""Types that a browser shows without running anything, by how their bytes begin."""

PICTURES: Final = frozenset(name for name, preview, _ in _SERVED if preview == "image")
"""The types of pictures among them."""

_TEXTS: Final = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


def served_as(start: bytes) -> str | None:
    """Return the type under which a page shows bytes that begin with *start*: what they are, not claim to be.

    ``None`` for those that the browser only saves.
    """
    return next((name for name, _, begins in _SERVED if begins.match(start)), None)


def preview_of(mime_type: str, start: bytes) -> Preview:
    """Return how a page shows content of a type whose bytes begin with *start*.

    Only the bytes decide about what the browser draws; the type decides which of the rest is read as text.
    """
    for _, kind, begins in _SERVED:
        if begins.match(start):
            return kind
    plain = mime_type.partition(";")[0].strip().lower()
    if plain in ("text/csv", "application/csv"):
        return "csv"
    is_text = plain.startswith("text/") or plain in _TEXTS or plain.endswith(("+xml", "+json"))
    return "text" if is_text else "none"


def text_of(data: bytes) -> str:
    """Return bytes as text; those that are not UTF-8 become U+FFFD."""
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


def table_of(text: str) -> list[list[str]]:
    """Return the first rows and columns of CSV; of malformed text what can be read."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline="")):
            rows.append([cell[:MAX_CELL] for cell in row[:MAX_COLUMNS]])
            if len(rows) == MAX_ROWS:
                break
    except csv.Error:
        pass
    return rows
