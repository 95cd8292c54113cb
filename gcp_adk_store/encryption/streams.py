"""Encrypt bytes of any size in frames, any of which can be read alone. Pure, but for random numbers.

A stream is a line; 8 bytes, the id of the data key; 16 random bytes, the salt; and then frames of 1 MiB, of
which the last has what is left. AES-256-GCM encrypts each frame, which gets 16 bytes longer. The key is
derived from the data key, the salt and what the stream was made for. A frame's nonce is its number and
whether it is the last one, as in the construction STREAM. So no frame can be left out, added, moved or taken
from another stream.
"""

from typing import Final, Self

from cryptography.exceptions import InvalidTag

from gcp_adk_store import machine
from gcp_adk_store.encryption.sealing import (
    KEY_ID_BYTES,
    NONCE_BYTES,
    DataKey,
    NotForHereError,
    OtherKeyError,
)

MAGIC: Final = b"adk-sealed/2\n"
FRAME_BYTES: Final = 1024 * 1024
"""Content of one frame."""
_TAG_BYTES: Final = 16
STORED_FRAME_BYTES: Final = FRAME_BYTES + _TAG_BYTES
_SALT_BYTES: Final = 16
HEADER_BYTES: Final = len(MAGIC) + KEY_ID_BYTES + _SALT_BYTES


def frames_of(size: int) -> int:
    """Return the number of frames of *size* bytes of content: one at least."""
    return max(1, -(-size // FRAME_BYTES))


def stored_size(size: int) -> int:
    """Return the size of a stream with *size* bytes of content."""
    return HEADER_BYTES + size + frames_of(size) * _TAG_BYTES


def content_size(stored: int) -> int:
    """Return the bytes of content of a stream of *stored* bytes.

    Raises:
        NotForHereError: no stream has this size.
    """
    body = stored - HEADER_BYTES
    size = body + -(-body // STORED_FRAME_BYTES) * -_TAG_BYTES
    if body < _TAG_BYTES or stored_size(size) != stored:
        raise NotForHereError
    return size


def content_before(stored: int) -> int:
    """Return the bytes of content within the first *stored* bytes of a stream."""
    frames, rest = divmod(max(0, stored - HEADER_BYTES), STORED_FRAME_BYTES)
    return frames * FRAME_BYTES + max(0, rest - _TAG_BYTES)


class Stream:
    """Encrypts and decrypts the frames of one stream; safe from any thread."""

    def __init__(self, key: DataKey, header: bytes, made_for: bytes) -> None:
        """Take the stream that begins with *header*.

        Raises:
            OtherKeyError: another key made it.
            NotForHereError: no stream begins so.
        """
        if len(header) != HEADER_BYTES or not header.startswith(MAGIC):
            raise NotForHereError
        if header[len(MAGIC) : -_SALT_BYTES] != key.id:
            raise OtherKeyError
        self.header = header
        self._cipher = key.of_stream(header[-_SALT_BYTES:], made_for)

    @classmethod
    def begin(cls, key: DataKey, made_for: bytes) -> Self:
        """Return a new stream. Each of its frames may be sealed with one content only."""
        return cls(key, MAGIC + key.id + machine.random_bytes(_SALT_BYTES), made_for)

    def seal(self, data: bytes, *, first: int, ends: bool) -> bytes:
        """Return the frames with *data*, from frame *first* on; *ends* if the stream does.

        *data* fill their frames, except for the last one of the stream.
        """
        count = frames_of(len(data))
        return b"".join(
            self._cipher.encrypt(
                _nonce(first + number, is_last=ends and number == count - 1),
                data[number * FRAME_BYTES : (number + 1) * FRAME_BYTES],
                None,
            )
            for number in range(count)
        )

    def open(self, sealed: bytes, *, first: int, ends: bool) -> bytes:
        """Return the data of :meth:`seal`.

        Raises:
            NotForHereError: a frame was changed, moved, or made for another place, or one is missing.
        """
        count = max(1, -(-len(sealed) // STORED_FRAME_BYTES))
        try:
            return b"".join(
                self._cipher.decrypt(
                    _nonce(first + number, is_last=ends and number == count - 1),
                    sealed[number * STORED_FRAME_BYTES : (number + 1) * STORED_FRAME_BYTES],
                    None,
                )
                for number in range(count)
            )
        except (InvalidTag, ValueError) as exc:
            raise NotForHereError from exc


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(NONCE_BYTES - 1) + (b"\x01" if is_last else b"\x00")
