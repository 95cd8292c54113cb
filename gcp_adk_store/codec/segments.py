"""Pack runs of events into the bodies of segments."""

import json
import zlib
from collections.abc import Sequence

from gcp_adk_store.errors import StoredDataError


def pack_segment(texts: Sequence[str]) -> bytes:
    """Return JSON texts of events as the compressed body of a segment."""
    return zlib.compress(json.dumps(list(texts), ensure_ascii=False, separators=(",", ":")).encode())


def unpack_segment(body: bytes) -> list[str]:
    """Return the texts that :func:`pack_segment` packed.

    Raises:
        StoredDataError: *body* is damaged.
    """
    try:
        texts = json.loads(zlib.decompress(body))
    except (zlib.error, ValueError) as exc:
        raise StoredDataError(f"the body of a segment ({len(body)} bytes) is damaged") from exc
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise StoredDataError(f"the body of a segment ({len(body)} bytes) is no list of texts")
    return texts
