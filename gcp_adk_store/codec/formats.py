"""Number the stored layout, and bring older documents up to it as they are read.

Reading only: writes touch single fields and leave a document's number alone. A format that changes what such
fields mean has to rewrite a document before it writes to it.
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
"""Format -> what makes a document of it one of the next: one entry for each number below ``FORMAT``."""


def current_fields(
    document: Document, *, upcasts: Mapping[int, Callable[[Fields], Fields]] = UPCASTS
) -> Fields:
    """Return the fields of *document* as ``FORMAT`` has them; what is stored stays as it is.

    Raises:
        StoredDataError: it is of a newer format, or of none.
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
