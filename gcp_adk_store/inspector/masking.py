"""Mask content, and preview what is large."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from gcp_adk_store.model.json_values import whole_text

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


def _starts(*starts: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(starts)


def _riff(kind: bytes) -> Callable[[bytes], bool]:
    return lambda data: data[:4] == b"RIFF" and data[8:12] == kind


_SERVED: Final[tuple[tuple[str, Preview, Callable[[bytes], bool]], ...]] = (
    ("image/png", "image", _starts(b"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", "image", _starts(b"\xff\xd8\xff")),
    ("image/gif", "image", _starts(b"GIF87a", b"GIF89a")),
    ("image/webp", "image", _riff(b"WEBP")),
    ("application/pdf", "pdf", _starts(b"%PDF-")),
    ("audio/wav", "audio", _riff(b"WAVE")),
    ("audio/mpeg", "audio", _starts(b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")),
    ("audio/ogg", "audio", _starts(b"OggS")),
    ("audio/flac", "audio", _starts(b"fLaC")),
)
"""Types that a browser shows without running anything, by how their bytes begin."""

PICTURES: Final = frozenset(name for name, preview, _ in _SERVED if preview == "image")
"""The types of pictures among them."""

_TEXTS: Final = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How the bytes of an artifact are answered."""

    content_type: str
    is_inline: bool
    """Whether a page may show it; otherwise the browser saves it."""
    is_pdf: bool = False


def served_as(start: bytes) -> Served:
    """Return how bytes that begin with *start* are answered: by what they are, not by what they claim."""
    for content_type, kind, fits in _SERVED:
        if fits(start):
            return Served(content_type=content_type, is_inline=True, is_pdf=kind == "pdf")
    return Served(content_type="application/octet-stream", is_inline=False)


def preview_of(mime_type: str, start: bytes) -> Preview:
    """Return how a page shows content of a type whose bytes begin with *start*.

    Only the bytes decide about what the browser draws; the type decides which of the rest is read as text.
    """
    for _, kind, fits in _SERVED:
        if fits(start):
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
