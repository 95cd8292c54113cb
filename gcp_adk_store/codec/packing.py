"""Unpack compressed bytes up to a limit: a small stored value must not fill the memory."""

import zlib


def unpack(data: bytes, *, limit: int) -> bytes:
    """Unpack *data* of ``zlib.compress`` in little more memory than *limit*, even if it is hostile.

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
