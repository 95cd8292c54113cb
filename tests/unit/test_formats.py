"""Show which numbers of the stored layout are read, and how older documents become current ones."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.fields import FORMAT
from gcp_adk_store.codec.kinds import UPCASTS, Fields, current_fields
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError

PATH = "adk_apps/shop"


def titled(fields: Fields) -> Fields:
    """Bring a made-up format 0 up to 1: ``t`` gets a longer name."""
    return {"title": fields["t"]}


def counted(fields: Fields) -> Fields:
    """Bring a made-up format 1 up to 2: the title's length is stored too."""
    return {**fields, "length": len(fields["title"])}


STEPS: Mapping[int, Callable[[Fields], Fields]] = {0: titled, 1: counted}


def document(**fields: Any) -> Document:
    """Return *fields* as they are read."""
    return Document(path=PATH, fields=fields, update_time="100.000000001", read_time=100.0)


def refusal(found: object) -> str:
    """Return what is said of a document of format *found*: its kind, where it is no number."""
    shown = found if found is None or type(found) is int else type(found).__name__
    return f"{PATH} has format {shown}, this release reads 2; upgrade gcp-adk-store"


def test_each_older_format_can_be_read() -> None:
    """There is a step from every number that a release has written to the next."""
    assert set(range(1, FORMAT)) == set(UPCASTS)


@pytest.mark.parametrize("upcasts", [UPCASTS, STEPS, {2: titled}])
def test_a_current_document_is_read_as_it_is(upcasts: Mapping[int, Callable[[Fields], Fields]]) -> None:
    """No step is taken with it, and fields that nobody knows stay."""
    fields = current_fields(document(format=2, t="x", later=[1]), upcasts=upcasts)

    assert {"format": 2, "t": "x", "later": [1]} == fields


@pytest.mark.parametrize(
    "older", [document(format=0, t="abc"), document(format=1, title="abc")], ids=["two steps", "one step"]
)
def test_an_older_document_is_brought_up_step_by_step(older: Document) -> None:
    """Each step sees what the one before it made, and the result has the current number."""
    assert {"format": 2, "title": "abc", "length": 3} == current_fields(older, upcasts=STEPS)


def test_a_step_sees_the_number_that_it_is_for() -> None:
    """Fields come to it as if they had been stored in that format."""
    seen = []

    def noting(fields: Fields) -> Fields:
        seen.append(fields["format"])
        return fields

    current_fields(document(format=-1), upcasts=dict.fromkeys(range(-1, 2), noting))

    assert [-1, 0, 1] == seen


def test_what_is_stored_stays_as_it_is() -> None:
    """Reading an older document neither rewrites it nor changes what the caller holds of it."""
    older = document(format=0, t="abc")
    current_fields(older, upcasts=STEPS)

    assert document(format=0, t="abc") == older


def test_a_document_whose_layout_did_not_change_keeps_its_number() -> None:
    """No step is taken with it, and a newer number is refused there too."""
    assert {"format": 1, "t": "x"} == current_fields(document(format=1, t="x"), newest=1)
    with pytest.raises(StoredDataError, match="has format 2, this release reads 1"):
        current_fields(document(format=2, t="x"), newest=1)


@pytest.mark.parametrize("found", [3, 99])
@pytest.mark.parametrize("upcasts", [UPCASTS, STEPS])
def test_a_newer_format_is_refused(upcasts: Mapping[int, Callable[[Fields], Fields]], found: int) -> None:
    """The error names the document, its number and the one that this release reads, and what to do."""
    with pytest.raises(StoredDataError) as caught:
        current_fields(document(format=found), upcasts=upcasts)

    assert refusal(found) == str(caught.value)


@given(st.integers(-(2**63), 2**63 - 1).filter(lambda number: number != FORMAT and number not in UPCASTS))
def test_a_format_without_a_step_is_refused(found: int) -> None:
    """Whatever other number a document has, it is never guessed at."""
    with pytest.raises(StoredDataError) as caught:
        current_fields(document(format=found))

    assert refusal(found) == str(caught.value)


def test_a_document_that_stops_half_way_is_refused() -> None:
    """Where a later step is missing, the error names the number that there is no way on from."""
    with pytest.raises(StoredDataError) as caught:
        current_fields(document(format=0, t="abc"), upcasts={0: titled})

    assert refusal(1) == str(caught.value)


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
        current_fields(document(format=found, title="abc"), upcasts=STEPS)

    assert refusal(found) == str(caught.value)


def test_a_document_without_a_number_is_refused() -> None:
    """One that another program put there is not read as the oldest format."""
    with pytest.raises(StoredDataError) as caught:
        current_fields(document(title="abc"), upcasts=STEPS)

    assert refusal(None) == str(caught.value)
