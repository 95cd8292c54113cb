"""Show which numbers of the stored layout are read: any other is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.stored import require_format
from gcp_adk_store.codec.writes import FORMAT, Document
from gcp_adk_store.errors import StoredDataError

PATH = "adk_apps/shop"


def document(**fields: Any) -> Document:
    """Return *fields* as they are read."""
    return Document(path=PATH, fields=fields, update_time="100.000000001", read_time=100.0)


def refusal(found: object) -> str:
    """Return what is said of a document of format *found*: its kind, where it is no number."""
    shown = found if found is None or type(found) is int else type(found).__name__
    is_newer = type(found) is int and found > FORMAT
    advice = "upgrade gcp-adk-store" if is_newer else "no release wrote it: restore the document"
    return f"{PATH} has format {shown}, this release reads 2; {advice}"


def test_a_current_document_is_read() -> None:
    """Fields that nobody knows do not matter."""
    require_format(document(format=2, t="x", later=[1]), FORMAT)


def test_a_document_whose_layout_did_not_change_keeps_its_number() -> None:
    """A newer number is refused there too."""
    require_format(document(format=1, t="x"), 1)
    with pytest.raises(StoredDataError, match="has format 2, this release reads 1"):
        require_format(document(format=2, t="x"), 1)


@given(st.integers(-(2**63), 2**63 - 1).filter(lambda number: number != FORMAT))
def test_another_format_is_refused(found: int) -> None:
    """Older or newer: the error names the document, its number and the one that this release reads."""
    with pytest.raises(StoredDataError) as caught:
        require_format(document(format=found), FORMAT)

    assert refusal(found) == str(caught.value)


@pytest.mark.parametrize(
    "found",
    [
        None,
        "1",
        "",
        b"1",
        [1],
        {"json": "1"},
        0.5,
        True,
        1.0,
        False,
        0.0,
    ],
)
def test_what_is_no_number_of_a_format_is_refused(found: Any) -> None:
    """A field of another kind, even one that Python holds for equal, was not written by this library."""
    with pytest.raises(StoredDataError) as caught:
        require_format(document(format=found, title="abc"), FORMAT)

    assert refusal(found) == str(caught.value)


def test_a_document_without_a_number_is_refused() -> None:
    """One that another program put there is not read as any format."""
    with pytest.raises(StoredDataError) as caught:
        require_format(document(title="abc"), FORMAT)

    assert refusal(None) == str(caught.value)
