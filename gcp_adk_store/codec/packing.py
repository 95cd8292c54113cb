"""Unpack compressed bytes up to a bound: what is small in storage must not fill the memory."""

import zlib


def unpack(data: bytes, *, limit: int) -> bytes:
    """Return what ``zlib.compress`` packed as *data*, in little more memory than *limit* whatever it is.

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
