"""Read the fields of a document by their kinds, and refuse other formats.

``StoredDataError`` names the document's path, and the field with its kind, never the content.
"""

from typing import Annotated, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT
from gcp_adk_store.codec.values import error_of, kind_of, kind_of_content
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError

MAX_COUNT: Final = 10**18 - 1
"""The highest count that fits the marker of a handle."""

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Head = Annotated[bytes, Field(min_length=32, max_length=32)]
Epoch = Annotated[str, Field(pattern=r"^[^%/`\\\x00-\x1f\x7f]{1,200}$")]
"""Documents' ids contain it unchanged."""


class DocumentFields(BaseModel):
    """Fields of a document; a value of another kind is damage."""

    model_config = ConfigDict(strict=True)

    formats: ClassVar[tuple[int, ...]] = (UNCHANGED_FORMAT,)
    """The numbers of such documents that this release reads."""


Kind = TypeVar("Kind", bound=DocumentFields)


def require_format(document: Document, *formats: int) -> None:
    """Refuse *document* if it has none of the *formats*."""
    found = document.fields.get("format")
    if type(found) is int and found in formats:
        return
    shown = found if found is None or type(found) is int else kind_of(found)
    known = " and ".join(map(str, formats))
    is_newer = type(found) is int and found > max(formats)
    advice = "upgrade gcp-adk-store" if is_newer else "no release wrote it: restore the document"
    raise StoredDataError(f"{document.path} has format {shown}, this release reads {known}; {advice}")


def read_fields(kind: type[Kind], document: Document) -> Kind:
    """Return some fields of *document*; each has the required kind and value."""
    require_format(document, *kind.formats)
    try:
        return kind.model_validate(document.fields)
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
