"""Let Google's Sensitive Data Protection replace personal data in texts."""

import asyncio
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from gcp_adk_store.codec.packing import in_batches
from gcp_adk_store.errors import InvalidInputError, RedactorError
from gcp_adk_store.imports import how_to_install

_REQUEST_BYTES: Final = 400_000
"""UTF-8 bytes of one request; the API takes 0.5 MB, with what it says about them."""
_REQUEST_TEXTS: Final = 10_000
"""Texts of one request, each a row; the API takes 50,000 values of a table."""


class DlpRedactor:
    """Replaces each finding by the name of its kind, such as ``[EMAIL_ADDRESS]``; for ``redactors=``.

    It sends all texts of an event to Google, in requests of 400 kB, one after another; a text over that is
    refused. Each call costs what Google bills for the bytes. The identity needs ``roles/dlp.user``.
    """

    def __init__(
        self,
        project: str,
        *,
        info_types: Sequence[str] = (),
        location: str = "global",
        inspect_template: str | None = None,
        deidentify_template: str | None = None,
        client: Any = None,
    ) -> None:
        """Prepare; nothing is contacted before the first call.

        Args:
            project: Google Cloud project that pays.
            info_types: Kinds to find, such as ``"EMAIL_ADDRESS"``; by default those of *inspect_template*.
            location: Where the texts are processed, such as ``"europe-west1"``.
            inspect_template: Full name of a template that says what to find.
            deidentify_template: Full name of a template that says what to replace it by.
            client: A ``google.cloud.dlp_v2.DlpServiceAsyncClient``; by default one for each event loop.

        Raises:
            InvalidInputError: neither *info_types* nor *inspect_template* is given, or the extra ``dlp`` is
                not installed.
        """
        if not info_types and inspect_template is None:
            raise InvalidInputError("DlpRedactor needs info_types or inspect_template: it finds nothing else")
        self._request: dict[str, Any] = {"parent": f"projects/{project}/locations/{location}"}
        if info_types:
            self._request["inspect_config"] = {"info_types": [{"name": name} for name in info_types]}
        if inspect_template is not None:
            self._request["inspect_template_name"] = inspect_template
        if deidentify_template is not None:
            self._request["deidentify_template_name"] = deidentify_template
        else:
            replace: dict[str, Any] = {"primitive_transformation": {"replace_with_info_type_config": {}}}
            self._request["deidentify_config"] = {"info_type_transformations": {"transformations": [replace]}}
        self._connect: Callable[[], Any] = _client_class() if client is None else lambda: client
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    async def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return *texts* with findings replaced.

        Raises:
            RedactorError: a text is over 400 kB, or the answer has another number of texts.
        """
        found: list[str] = []
        for some in in_batches(texts, _length, size=_REQUEST_BYTES, most=_REQUEST_TEXTS):
            rows = [{"values": [{"string_value": text}]} for text in some]
            table = {"headers": [{"name": "text"}], "rows": rows}
            answer = await self._here().deidentify_content(
                request={**self._request, "item": {"table": table}}
            )
            found += [row.values[0].string_value for row in answer.item.table.rows]
        if len(found) != len(texts):
            raise RedactorError(f"DLP returned {len(found)} of {len(texts)} texts; nothing was written")
        return found

    def _here(self) -> Any:
        """Return the client of this event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._connect()
        return self._clients[loop]


def _client_class() -> Any:
    try:
        from google.cloud import dlp_v2  # noqa: PLC0415  # of an extra
    except ImportError as exc:
        raise InvalidInputError(f"DlpRedactor needs the extra dlp: {how_to_install('dlp')}") from exc
    return dlp_v2.DlpServiceAsyncClient


def _length(text: str) -> int:
    length = len(text.encode("utf-8", "surrogatepass"))
    if length > _REQUEST_BYTES:
        raise RedactorError(f"a text takes {length} bytes, DLP takes {_REQUEST_BYTES}; nothing was written")
    return length
