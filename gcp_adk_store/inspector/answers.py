"""Answer stored bytes so that a browser shows what is harmless and saves the rest."""

import re
from collections.abc import AsyncIterable
from typing import Final
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from gcp_adk_store.inspector.previews import Served, served_as

_SHUT: Final = "default-src 'none'; sandbox"
_SHUT_PDF: Final = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
"""Of a PDF: Chromium's viewer does not start in a sandbox, and shows the file within a page."""


def answer_bytes(data: bytes, *, name: str) -> Response:
    """Return *data* as the file *name*, shown only if its bytes are of a type that runs nothing."""
    served = served_as(data[:64])
    return Response(data, headers=_headers(served, name), media_type=served.content_type)


def answer_stream(start: bytes, rest: AsyncIterable[bytes], *, name: str, size: int) -> Response:
    """Return *size* bytes that begin with *start* as :func:`answer_bytes` does, in pieces."""
    served = served_as(start[:64])

    async def pieces() -> AsyncIterable[bytes]:
        yield start
        async for piece in rest:
            yield piece

    headers = {**_headers(served, name), "Content-Length": str(size)}
    return StreamingResponse(pieces(), headers=headers, media_type=served.content_type)


def _headers(served: Served, name: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[-100:] or "content"
    exact = quote(name[-200:], safe="", errors="replace")
    kind = "inline" if served.is_inline else "attachment"
    return {
        "Content-Disposition": f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{exact}",
        "Content-Security-Policy": _SHUT_PDF if served.is_pdf else _SHUT,
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
