"""Compute the checksum that Cloud Storage keeps of each object."""

import base64
from typing import Final

import google_crc32c

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
