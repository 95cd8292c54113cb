"""Encrypt values and streams with the data key of a scope.

A ciphertext is one byte, the number of its form; 8 bytes, the id of the data key; then the output of AES-SIV,
or a nonce of 12 bytes and the output of AES-GCM. What it was made for is its associated data.

A stream is a line; 8 bytes, the id of the data key; 16 random bytes, the salt; and then frames of 1 MiB, of
which the last has what is left. AES-256-GCM encrypts each frame, which gets 16 bytes longer. The key is
derived from the data key, the salt and what the stream was made for. A frame's nonce is its number and
whether it is the last one, as in the construction STREAM. So no frame can be left out, added, moved or taken
from another stream.
"""

import json
from dataclasses import dataclass
from typing import Any, Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gcp_adk_store import machine

DATA_KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 8
NONCE_BYTES: Final = 12
_FORM: Final = b"\x01"
_HEADER: Final = len(_FORM) + KEY_ID_BYTES
_SIV_KEY_BYTES: Final = 64
_GCM_KEY_BYTES: Final = 32
_STREAMS_KEY_BYTES: Final = 32

_TEXT: Final = b"t"
_BYTES: Final = b"b"
_JSON: Final = b"j"


class NotForHereError(Exception):
    """A ciphertext was changed, or made for another place."""


class OtherKeyError(NotForHereError):
    """A ciphertext was made with another data key."""


@dataclass(frozen=True, slots=True)
class LostKey:
    """A data key that is there, and that cannot be unwrapped."""

    says: str
    """Why: it was changed, or what wrapped it is gone."""


class DataKey:
    """Encrypts and decrypts with the data key of one scope; safe from any thread."""

    __slots__ = ("_gcm", "_header", "_siv", "_streams", "id")

    def __init__(self, key_id: bytes, secret: bytes) -> None:
        """Derive the keys of both ciphers, and that of streams, from *secret*, 32 random bytes."""
        size = _SIV_KEY_BYTES + _GCM_KEY_BYTES + _STREAMS_KEY_BYTES
        derived = HKDF(SHA256(), size, salt=None, info=b"gcp-adk-store/1").derive(secret)
        self.id = key_id
        self._header = _FORM + key_id
        self._siv = AESSIV(derived[:_SIV_KEY_BYTES])
        self._gcm = AESGCM(derived[_SIV_KEY_BYTES:-_STREAMS_KEY_BYTES])
        self._streams = derived[-_STREAMS_KEY_BYTES:]

    def made(self, data: bytes) -> bool:
        """Return whether *data* begin as what this key encrypts."""
        return data.startswith(self._header)

    def seal(self, data: bytes, made_for: bytes) -> bytes:
        """Return *data* encrypted with a random nonce: at most 2**32 times with one key."""
        nonce = machine.random_bytes(NONCE_BYTES)
        return self._header + nonce + self._gcm.encrypt(nonce, data, made_for)

    def open(self, sealed: bytes, made_for: bytes) -> bytes:
        """Return the data of :meth:`seal`.

        Raises:
            OtherKeyError: another key made *sealed*.
            NotForHereError: it was changed, or made for another place.
        """
        self._require_mine(sealed)
        nonce = sealed[_HEADER : _HEADER + NONCE_BYTES]
        try:
            return self._gcm.decrypt(nonce, sealed[_HEADER + NONCE_BYTES :], made_for)
        except (InvalidTag, ValueError) as exc:
            raise NotForHereError from exc

    def seal_equally(self, data: bytes, made_for: bytes) -> bytes:
        """Return *data* encrypted; equal data for equal places are equal."""
        return self._header + self._siv.encrypt(data, [made_for])

    def open_equal(self, sealed: bytes, made_for: bytes) -> bytes:
        """Return the data of :meth:`seal_equally`.

        Raises:
            OtherKeyError, NotForHereError: as :meth:`open`.
        """
        self._require_mine(sealed)
        try:
            return self._siv.decrypt(sealed[_HEADER:], [made_for])
        except (InvalidTag, ValueError) as exc:
            raise NotForHereError from exc

    def of_stream(self, salt: bytes, made_for: bytes) -> AESGCM:
        """Return the cipher of one stream, with a key that no other *salt* or place has."""
        info = b"gcp-adk-store/stream/1\0" + made_for
        return AESGCM(HKDF(SHA256(), _GCM_KEY_BYTES, salt=salt, info=info).derive(self._streams))

    def _require_mine(self, sealed: bytes) -> None:
        if sealed[: len(_FORM)] != _FORM:
            raise NotForHereError
        if sealed[len(_FORM) : _HEADER] != self.id:
            raise OtherKeyError


def to_bytes(value: Any) -> bytes:
    """Return a field's *value* as bytes, with its type: text, bytes, or what JSON holds exactly."""
    if type(value) is str:
        return _TEXT + value.encode()
    if type(value) is bytes:
        return _BYTES + value
    return _JSON + json.dumps(value, separators=(",", ":")).encode()


def from_bytes(data: bytes) -> Any:
    """Return the value of :func:`to_bytes`.

    Raises:
        NotForHereError: *data* is nothing of it.
    """
    kind = data[:1]
    if kind == _TEXT:
        return data[1:].decode()
    if kind == _BYTES:
        return data[1:]
    if kind != _JSON:
        raise NotForHereError
    return json.loads(data[1:])


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
