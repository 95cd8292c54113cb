"""Compute the checksum that Cloud Storage keeps of each object."""

import base64

import google_crc32c


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
