"""What a page shows is decided by pure functions, each with its bounds."""

import string
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.values import Foreign
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.inspector.conversation import (
    MAX_LINES,
    MAX_PARTS,
    difference,
    event_view,
    moment,
    timeline,
)
from gcp_adk_store.inspector.documents import Links, Place, document_tree
from gcp_adk_store.inspector.masking import (
    MAX_COLUMNS,
    MAX_ROWS,
    Mask,
    preview_of,
    served_as,
    table_of,
    text_of,
)
from gcp_adk_store.inspector.matrix import MAX_CHANGES, MAX_KEYS, MatrixCollector
from gcp_adk_store.sessions.listing.usage import UsageCounter
from tests.inspector.story import PDF, PNG, SVG, WAV

LIFTED, MASKED = Mask(lifted=True), Mask(lifted=False)


@given(st.text(alphabet=string.ascii_letters + "\ud800\udfff\x00é", max_size=50))
def test_a_mask_covers_and_cuts(text: str) -> None:
    """It tells the length alone; half characters never reach a page."""
    shown, covered = LIFTED.over(text, most=10), MASKED.over(text, most=10)

    assert (None, len(text)) == (covered.text, covered.characters)
    assert shown.text is not None
    assert len(shown.text.encode()) >= min(1, len(text))
    assert ((len(text) > 10), False) == (shown.is_cut, covered.is_cut)


@pytest.mark.parametrize(
    ("mime_type", "data", "preview", "content_type"),
    [
        ("image/png", PNG, "image", "image/png"),
        ("text/html", PNG, "image", "image/png"),
        ("image/png", SVG, "none", None),
        ("image/svg+xml", SVG, "text", None),
        ("text/html", b"<html>", "text", None),
        ("image/png", b"<html>", "none", None),
        ("application/pdf", PDF, "pdf", "application/pdf"),
        ("audio/wav", WAV, "audio", "audio/wav"),
        ("text/csv; charset=utf-8", b"a,b", "csv", None),
        ("application/problem+json", b"{}", "text", None),
        ("application/zip", b"PK", "none", None),
        ("", b"", "none", None),
    ],
)
def test_bytes_decide_what_a_browser_draws(
    mime_type: str, data: bytes, preview: str, content_type: str | None
) -> None:
    """Not the type that their writer claimed."""
    served = served_as(data)

    assert preview == preview_of(mime_type, data)
    assert (content_type or "application/octet-stream") == served.content_type
    assert (content_type is not None) is served.is_inline


@given(st.binary(max_size=40), st.text(max_size=20))
def test_nothing_but_an_allowed_type_is_shown(data: bytes, mime_type: str) -> None:
    """Whatever the bytes: each inline type runs nothing."""
    served = served_as(data)

    assert served.is_inline == (served.content_type != "application/octet-stream")
    assert served.content_type.split("/")[0] in ("image", "audio", "application")
    assert "svg" not in served.content_type
    assert preview_of(mime_type, data) in ("image", "audio", "pdf", "text", "csv", "none")


@given(st.text(max_size=200))
def test_csv_is_read_as_far_as_it_can_be(text: str) -> None:
    """Without an error, and within its bounds."""
    rows = table_of(text)

    assert len(rows) <= MAX_ROWS
    assert all(len(row) <= MAX_COLUMNS for row in rows)
    assert ["a", "b,c"] == table_of('a,"b,c"\n')[0]
    assert "\ufffd\ufffd" == text_of(b"\x00\xff")


def test_differences_are_bounded_and_masked() -> None:
    """Only the first lines are compared."""
    short = difference("a\nb", "a\nc", LIFTED)
    long = difference("", "x\n" * (MAX_LINES + 1), LIFTED)

    assert short.lines is not None
    assert long.lines is not None
    assert ["skipped", "same", "removed", "added"] == [each.sign for each in short.lines]
    assert (MAX_LINES + 1, True) == (len(long.lines), long.is_cut)
    assert difference("a", "b", MASKED).lines is None
    assert difference("a", "a", LIFTED).is_empty


def test_a_matrix_is_bounded() -> None:
    """More keys and more changes are left out, and it says so."""
    of_keys, of_changes = MatrixCollector({}), MatrixCollector({"first": 1})
    of_keys.add(_changing(dict.fromkeys(map(str, range(MAX_KEYS + 1)))), None)
    for _ in range(MAX_CHANGES + 1):
        of_changes.add(_changing({"first": 1}), None)
    keys, changes = of_keys.matrix(), of_changes.matrix()

    assert (MAX_KEYS, True) == (len(keys.rows), keys.is_cut)
    assert (MAX_CHANGES, True) == (changes.changes, changes.is_cut)
    assert 0 == changes.rows[0].changes[0].position
    assert MatrixCollector({}).matrix().rows == ()


def test_an_event_shows_a_bounded_number_of_parts() -> None:
    """And how many are left out."""
    parts = [types.Part(text="x") for _ in range(MAX_PARTS + 2)]
    view = event_view(Event(author="a", content=types.Content(parts=parts)), LIFTED)

    assert (MAX_PARTS, 2) == (len(view.parts), view.parts_left)


def test_a_timeline_without_turns_or_time_is_drawn() -> None:
    """Of a session that has no events, and of one whose events have equal times."""
    counter = UsageCounter()
    empty = timeline(counter.usage(), page=-5)
    counter.add(Event(author="user", timestamp=5.0))
    one = timeline(counter.usage())

    assert (0, 1, 1) == (empty.total, empty.page, empty.pages)
    assert (0, 1, 0) == (one.turns[0].start, one.turns[0].length, one.turns[0].duration_bar)
    assert ("", "1e+300") == (moment(None), moment(1e300))


def test_documents_tell_kinds_and_sizes_under_a_mask() -> None:
    """Ids and counts are in the clear; state, texts and unknown fields are not."""
    fields: dict[str, Any] = {
        "rev": 3,
        "chain": b"x" * 60,
        "expire_at": datetime(2026, 1, 1, tzinfo=UTC),
        "state": {"key": "secret", "list": ["secret", 5, None], "bytes": b"secret"},
        "strange": Foreign("geo_point_value"),
        "tail": ["secret"],
    }
    document = Document(path="p", fields=fields, update_time="1.0", read_time=1.0)
    masked, shown = document_tree(document, MASKED), document_tree(document, LIFTED)

    assert "secret" not in str(masked)
    assert (3, 60, "2026-01-01T00:00:00+00:00") == (
        masked["rev"],
        masked["chain"]["bytes"],
        masked["expire_at"],
    )
    assert {"key", "list", "bytes"} == set(masked["state"])
    assert "masked: text of 6 characters" == masked["state"]["key"]
    assert {"foreign": "geo_point_value"} == shown["strange"]
    assert {"bytes": 6, "base64": "c2VjcmV0"} == shown["state"]["bytes"]


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_links_hold_any_ids(app: str, user: str, session: str) -> None:
    """They are plain ASCII, and lead to the inspector alone."""
    place = Place(app=app, user=user, session=session)
    address = Links("/in").to("session", place, cursor=None, page=1)

    assert Links("/in").is_own(address)
    assert not Links("").is_own(f"/{address}")
    assert "cursor" not in address.partition("?")[2].partition("app=")[0]
    assert place == Place.of(place.parameters)


def _changing(delta: dict[str, Any]) -> Event:
    return Event(author="agent", actions=EventActions(state_delta=delta))
