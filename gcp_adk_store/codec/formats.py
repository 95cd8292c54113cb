"""Number the stored layout, and migrate older documents as they are read.

Only reads migrate: writes change single fields and keep a document's number. A format that changes the
meaning of such fields must rewrite a document before it writes to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from gcp_adk_store.codec.values import kind_of
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError

Fields = Mapping[str, Any]

FORMAT: Final = 1
"""Number of the layout that this release writes."""

UPCASTS: Final[Mapping[int, Callable[[Fields], Fields]]] = {}
"""Format -> migration to the next format: one entry for each number below ``FORMAT``."""


def current_fields(
    document: Document, *, upcasts: Mapping[int, Callable[[Fields], Fields]] = UPCASTS
) -> Fields:
    """Return the fields of *document* in ``FORMAT``; the stored document stays as it is.

    Raises:
        StoredDataError: its format is newer or missing.
    """
    found = document.fields.get("format")
    if not isinstance(found, int) or isinstance(found, bool) or (found != FORMAT and found not in upcasts):
        shown = found if found is None or type(found) is int else kind_of(found)
        raise StoredDataError(
            f"{document.path} has format {shown}, this release reads {FORMAT}; upgrade gcp-adk-store"
        )
    if found == FORMAT:
        return document.fields
    fields = {**upcasts[found](document.fields), "format": found + 1}
    newer = replace(document, fields=fields)
    return current_fields(newer, upcasts=upcasts)
