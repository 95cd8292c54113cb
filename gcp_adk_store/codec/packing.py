"""Pack texts into bytes, and items into batches, and compute checksums of bytes."""

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import google_crc32c
from pydantic_core import from_json

from gcp_adk_store.errors import InvalidInputError, StoredDataError

T = TypeVar("T")

MAX_SEGMENTS: Final = 100_000
"""Segments of one session at most: 6 GiB of events at the default size of a segment."""

MAX_UNPACKED_BYTES: Final = 4 * 1024 * 1024
"""A segment was the tail of a document of at most 1 MiB; JSON of JSON texts is at most twice as long."""


_WINDOW_BYTES: Final = 64 * 1024
"""The largest window that a segment keeps; without one, a read takes more segments."""


def pack_segment(texts: Sequence[str]) -> bytes:
    """Return JSON texts of events as the compressed body of a segment.

    Raises:
        InvalidInputError: they are more than a reader unpacks, such as the markers of very large events.
    """
    joined = _joined(texts)
    if len(joined) > MAX_UNPACKED_BYTES:
        raise InvalidInputError(
            f"{len(texts)} events of one segment would take {len(joined)} bytes, the limit is "
            f"{MAX_UNPACKED_BYTES}: what the marker of a redacted event keeps is too long; delete the session"
        )
    return zlib.compress(joined)


def pack_window(texts: Sequence[str]) -> bytes:
    """Return what a segment keeps of the events before it.

    Empty if it takes over 64 KiB, or more than a reader unpacks.
    """
    joined = _joined(texts)
    packed = b"" if len(joined) > MAX_UNPACKED_BYTES else zlib.compress(joined)
    return packed if len(packed) <= _WINDOW_BYTES else b""


def _joined(texts: Sequence[str]) -> bytes:
    return json.dumps(list(texts), ensure_ascii=False, separators=(",", ":")).encode()


def unpack_segment(body: bytes) -> list[str]:
    """Return the texts that :func:`pack_segment` or :func:`pack_window` packed.

    Raises:
        StoredDataError: *body* is damaged or unpacks to over 4 MiB.
    """
    try:
        # Unlike Python's own parser it refuses lone surrogates and a depth that exhausts the stack.
        texts: Any = from_json(unpack(body, limit=MAX_UNPACKED_BYTES))
    except ValueError as exc:
        raise StoredDataError(f"{len(body)} bytes of packed events are damaged") from exc
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise StoredDataError(f"{len(body)} bytes of packed events are not a list of texts")
    return texts


def pack_archive(texts: Sequence[str]) -> bytes:
    """Return JSON texts of events as lines of JSON, which other tools read.

    Raises:
        StoredDataError: a text has a line break, which no release wrote.
    """
    if any("\n" in text for text in texts):
        raise StoredDataError("an event has a line break between the members of its JSON")
    return "".join(f"{text}\n" for text in texts).encode()


def unpack_archive(data: bytes) -> list[str]:
    """Return the texts that :func:`pack_archive` packed.

    Raises:
        StoredDataError: *data* is damaged.
    """
    try:
        *texts, end = data.decode().split("\n")
    except UnicodeDecodeError as exc:
        raise StoredDataError(f"{len(data)} bytes of archived events are damaged") from exc
    if end:
        raise StoredDataError(f"{len(data)} bytes of archived events do not end with a line")
    return texts


def unpack(data: bytes, *, limit: int) -> bytes:
    """Unpack *data* of ``zlib.compress`` in little more memory than *limit*: a small value must not fill it.

    Raises:
        ValueError: *data* is damaged, or unpacks to more than *limit* bytes.
    """
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, limit + 1)
    except zlib.error as exc:
        raise ValueError(str(exc)) from exc
    if len(unpacked) > limit:
        raise ValueError(f"over {limit} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("the end is not where it should be")
    return unpacked


def in_batches(items: Iterable[T], size_of: Callable[[T], int], *, size: int, most: int) -> list[list[T]]:
    """Return *items* in runs that have at most *size* together and *most* items, and one item at least."""
    batches: list[list[T]] = []
    room = 0
    for item in items:
        needed = size_of(item)
        if needed > room or not batches or len(batches[-1]) == most:
            batches.append([])
            room = size
        batches[-1].append(item)
        room -= needed
    return batches


CHANGED_BYTES: Final = (
    "the bytes do not match their CRC32C: something between changed them, or they are damaged; read them "
    "again, and restore them if they never match"
)
"""What a reader says at once. TLS ends a connection whose bytes change on the way, so another try hardly
helps; until a deadline it would only hide that the bytes are damaged."""


class RunningChecksum:
    """CRC32C of bytes that come in pieces."""

    def __init__(self) -> None:
        self._sum = google_crc32c.Checksum()

    def update(self, data: bytes) -> None:
        """Add *data*."""
        self._sum.update(data)

    @property
    def base64(self) -> str:
        """The checksum in Cloud Storage's base64 form."""
        return base64.b64encode(self._sum.digest()).decode()
