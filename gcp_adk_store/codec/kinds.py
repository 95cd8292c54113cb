"""Read the fields of a document by their kinds, and migrate those of older formats.

``StoredDataError`` names the document's path, and the field with its kind, never the content.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT
from gcp_adk_store.codec.fields import FORMAT
from gcp_adk_store.codec.values import error_of, kind_of, kind_of_content
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError

MAX_COUNT: Final = 10**18 - 1
"""The highest count that fits the marker of a handle."""

Fields = Mapping[str, Any]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Head = Annotated[bytes, Field(min_length=32, max_length=32)]
Epoch = Annotated[str, Field(pattern=r"^[^%/`\\\x00-\x1f\x7f]{1,200}$")]
"""Documents' ids contain it unchanged."""

_WITHOUT_CHAIN: Final = 1
"""The format of sessions and segments that have no chain, and do not say their initial state."""

UPCASTS: Final[Mapping[int, Callable[[Fields], Fields]]] = {_WITHOUT_CHAIN: lambda fields: fields}
"""Format -> migration to the next format: one entry for each number below ``FORMAT``."""


class DocumentFields(BaseModel):
    """Fields of a document; a value of another kind is damage."""

    model_config = ConfigDict(strict=True)

    newest: ClassVar[int] = UNCHANGED_FORMAT
    """The newest number of such a document that this release reads."""


Kind = TypeVar("Kind", bound=DocumentFields)


def current_fields(
    document: Document,
    *,
    newest: int = FORMAT,
    upcasts: Mapping[int, Callable[[Fields], Fields]] = UPCASTS,
) -> Fields:
    """Return the fields of *document* in the format *newest*; the stored document stays as it is."""
    fields: Fields = document.fields
    while type(found := fields.get("format")) is int and found in upcasts and found != newest:
        fields = {**upcasts[found](fields), "format": found + 1}
    if type(found) is int and found == newest:
        return fields
    shown = found if found is None or type(found) is int else kind_of(found)
    raise StoredDataError(
        f"{document.path} has format {shown}, this release reads {newest}; upgrade gcp-adk-store"
    )


def read_fields(kind: type[Kind], document: Document) -> Kind:
    """Return some fields of *document*; each has the required kind and value."""
    try:
        return kind.model_validate(current_fields(document, newest=kind.newest))
    except ValidationError as exc:
        problem = exc.errors(include_url=False, include_context=False)[0]
    # Outside of the block: pydantic's error quotes the content.
    name, *indexes = problem["loc"]
    where = "".join([str(name), *(f"[{index}]" for index in indexes)])
    if problem["type"] == "missing":
        raise StoredDataError(f"{document.path} lacks {where}")
    if problem["type"].endswith("_type"):
        found, error = problem["input"], error_of(problem["input"])
        raise error(f"{document.path} has a field of a wrong kind: {where} is {kind_of_content(found)}")
    raise wrong(document, where)


def wrong(document: Document, name: str) -> StoredDataError:
    """Return the error for a field of *document* whose value contradicts others."""
    return StoredDataError(f"{document.path} has a field that cannot be right: {name}")


def has_chain(document: Document) -> bool:
    """Return whether a session or segment has the fields that came with format 2."""
    return document.fields["format"] != _WITHOUT_CHAIN
