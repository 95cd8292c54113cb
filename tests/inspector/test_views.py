"""What a page shows is decided by pure functions, each with its bounds."""

import string
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.inspector.conversation import MAX_LINES, MAX_PARTS, difference, event_view
from gcp_adk_store.inspector.documents import document_tree
from gcp_adk_store.inspector.masking import (
    MAX_COLUMNS,
    MAX_ROWS,
    Mask,
    preview_of,
    served_as,
    table_of,
    text_of,
)
from gcp_adk_store.inspector.matrix import MAX_CHANGES, MAX_KEYS, Matrix
from gcp_adk_store.inspector.pages import update_days_of
from gcp_adk_store.inspector.reading import Placed
from gcp_adk_store.inspector.waterfall import Commit, SeenVersions, waterfalls
from gcp_adk_store.model.keys import SessionKey, moment
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.describe.decide import SessionInfo
from tests.inspector.story import PDF, PNG, SVG, WAV
from tests.support.stored import as_read

LIFTED, MASKED = Mask(lifted=True), Mask(lifted=False)


@given(st.text(alphabet=string.ascii_letters + "\ud800\udfff\x00é", max_size=50))
def test_a_mask_covers_and_cuts(text: str) -> None:
    """It shows the length alone; half characters never reach a page."""
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
    assert preview == preview_of(mime_type, data)
    assert content_type == served_as(data)


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
    keys, changes = Matrix(), Matrix()
    changes.begin({"first": 1})
    keys.add(_changing(dict.fromkeys(map(str, range(MAX_KEYS + 1)))), None)
    for _ in range(MAX_CHANGES + 1):
        changes.add(_changing({"first": 1}), None)

    assert (MAX_KEYS, True) == (len(keys.rows), keys.is_cut)
    assert (MAX_CHANGES, True) == (changes.changes, changes.is_cut)
    assert [0, 1] == [each.position for each in changes.rows["first"]][:2]
    assert [0.0, 0.6] == [changes.x_of(each) for each in changes.rows["first"]][:2]


def test_an_event_shows_a_bounded_number_of_parts() -> None:
    """And how many are left out."""
    parts = [types.Part(text="x") for _ in range(MAX_PARTS + 2)]
    view = event_view(Event(author="a", content=types.Content(parts=parts)), LIFTED)

    assert (MAX_PARTS, 2) == (len(view.parts), view.parts_left)


def test_sessions_of_a_page_are_counted_by_day() -> None:
    """With the largest of each; an unknown number of turns counts as none."""
    day = 86_400.0
    infos = [
        SessionInfo(
            app_name="a",
            user_id="u",
            session_id=f"s{number}",
            events=events,
            turns=turns,
            create_time=0.0,
            last_update_time=at,
            last_text=None,
        )
        for number, (events, turns, at) in enumerate([(5, 2, 3 * day), (9, None, 2 * day), (7, 3, 2 * day)])
    ]

    assert [("1970-01-04", 1, 2, 5, "s0"), ("1970-01-03", 2, 3, 16, "s1")] == [
        (each.date, each.sessions, each.turns, each.events, each.largest and each.largest.session_id)
        for each in update_days_of(infos)
    ]


def spoken(author: str, timestamp: float, *parts: types.Part, **fields: Any) -> Placed:
    """Return an event of the turn ``t``."""
    content = types.Content(parts=[*parts])
    given: dict[str, Any] = {"invocation_id": "t", **fields}
    return Placed(Event(author=author, timestamp=timestamp, content=content, **given), "")


def called(name: str) -> types.Part:
    """Return a call of a tool, whose id is its name."""
    return types.Part(function_call=types.FunctionCall(id=name, name=name))


def answered(name: str) -> types.Part:
    """Return the response to it."""
    return types.Part(function_response=types.FunctionResponse(id=name, name=name, response={}))


def test_a_waterfall_says_how_long_each_model_and_tool_took() -> None:
    """A model from the event before it, a tool from its own call, also if others answered before."""
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=2)
    (turn,) = waterfalls(
        [
            spoken("user", 100.0, types.Part(text="?")),
            spoken("agent", 102.0, called("slow"), called("quick"), usage_metadata=usage),
            spoken("agent", 103.0, answered("quick")),
            spoken("agent", 108.0, answered("slow")),
            spoken("agent", 110.0, types.Part(text="!"), model_version="m1", error_code="STOPPED"),
        ]
    )

    assert (10.0, 5, 7, 2) == (turn.seconds, turn.events, turn.tokens.input_tokens, turn.tokens.output_tokens)
    assert [
        ("user", "user", 0.0, 0.0, ""),
        ("model", "agent", 0.0, 2.0, ""),
        ("tool", "quick", 2.0, 1.0, ""),
        ("tool", "slow", 2.0, 6.0, ""),
        ("model", "agent, m1", 8.0, 2.0, "STOPPED"),
    ] == [(each.kind, each.name, each.after, each.seconds, each.failed) for each in turn.spans]
    assert [(0, 1), (0, 120), (120, 60), (120, 360), (480, 120)] == [
        (each.start, each.length) for each in turn.spans
    ]


def test_a_model_took_until_its_answer_was_stored() -> None:
    """ADK stamps its event when it asks the model; without the commit, nobody knows when it answered."""
    events = [
        spoken("user", 100.0, types.Part(text="?")),
        spoken("agent", 100.0, called("look")),
        spoken("agent", 105.0, answered("look")),
        spoken("agent", 105.0, types.Part(text="!")),
    ]
    times = (100.0, 103.0, 105.0, 108.0)
    commits = [Commit(last=last, events=1, time=time, is_one=True) for last, time in enumerate(times, 1)]
    (known,), (unknown,) = waterfalls(events, commits), waterfalls(events)
    seen = [
        [(each.kind, each.with_model, each.after, each.seconds) for each in turn.spans if not each.commit]
        for turn in (known, unknown)
    ]

    assert [
        [("user", False, 0, 0), ("model", False, 0, 3), ("tool", False, 3, 2), ("model", False, 5, 3)],
        [("user", False, 0, 0), ("model", False, 0, 0), ("tool", True, 0, 5), ("model", False, 5, 0)],
    ] == seen
    assert (8, 5) == (known.seconds, unknown.seconds)


def test_a_waterfall_shows_commits_after_their_last_events() -> None:
    """Each takes from its last event until it was stored, and less than no time if a clock is behind."""
    events = [spoken("user", 100.0), spoken("agent", 104.0), spoken("agent", 110.0, error_code="STOPPED")]
    commits = [
        Commit(last=6, events=None, time=99.0),
        Commit(last=7, events=1, time=101.0),
        Commit(last=9, events=2, time=112.5),
    ]
    (turn,) = waterfalls(events, commits, first=7)
    stored = [each for each in turn.spans if each.commit]

    assert ["user", "store", "model", "model", "store"] == [each.kind for each in turn.spans]
    assert [(0.0, 1.0, 0, 60), (10.0, 2.5, 599, 1)] == [
        (each.after, each.seconds, each.start, each.length) for each in stored
    ]
    assert ["", "", "", "STOPPED", ""] == [each.failed for each in turn.spans]
    assert (10.0, 3) == (turn.seconds, turn.events)


def test_a_waterfall_without_time_or_with_clocks_behind_is_drawn() -> None:
    """Turns that run at once are apart; nothing takes less than no time, or begins outside of the drawing."""
    one, other = waterfalls(
        [
            spoken("user", 5.0),
            spoken("user", 9.0, invocation_id="other"),
            spoken("agent", 5.0),
            spoken("agent", 7.0, invocation_id="other"),
        ]
    )

    assert [(0, 1), (0, 1)] == [(each.start, each.length) for each in one.spans]
    assert [(599, 1), (0, 1)] == [(each.start, each.length) for each in other.spans]
    assert [] == waterfalls([])
    assert ("", "1e+300") == (moment(None), moment(1e300))


class Compared(int):
    """A number that counts how often it is compared with another one."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        Compared.comparisons += 1
        return super().__lt__(other)


def test_the_versions_of_a_session_are_remembered_and_sorted_once() -> None:
    """In any order: what a version takes does not grow with those before; of many, the newest are kept."""
    versions = SeenVersions()
    for revision in (2, 1, *range(3, 3_001)):
        version = StoredSession(
            key=SessionKey(app="a", user="u", session="s"),
            epoch="e",
            revision=Compared(revision),
            last_update_time=0.0,
            state={},
            tail=(),
            sealed=0,
            sealed_max=None,
            spilled=frozenset(),
            update_time=f"{revision}.0",
            read_time=0.0,
            chain=b"",
        )
        versions.follow(version)
    commits = versions.commits(version)

    assert [*range(3_001 - len(commits), 3_001)] == [each.last for each in commits]
    assert 1_000 <= len(commits) <= 2_000
    assert 30_000 > Compared.comparisons


def test_documents_show_kinds_and_sizes_under_a_mask() -> None:
    """Ids and counts are in the clear; state, texts and unknown fields are not."""
    fields: dict[str, Any] = {
        "rev": 3,
        "chain": b"x" * 60,
        "archived": {"events": 2, "segments": 1},
        "expire_at": datetime(2026, 1, 1, tzinfo=UTC),
        "state": {"key": "secret", "list": ["secret", 5, None], "bytes": b"secret"},
        "strange": Foreign("geo_point_value"),
        "tail": ["secret"],
    }
    document = as_read("p", fields)
    masked, shown = document_tree(document, MASKED), document_tree(document, LIFTED)

    assert "secret" not in str(masked)
    assert (3, 60, "2026-01-01T00:00:00Z") == (
        masked["rev"],
        masked["chain"]["bytes"],
        masked["expire_at"],
    )
    assert {"events": 2, "segments": 1} == masked["archived"]
    assert {"key", "list", "bytes"} == set(masked["state"])
    assert "masked: text of 6 characters" == masked["state"]["key"]
    assert {"foreign": "geo_point_value"} == shown["strange"]
    assert {"bytes": 6, "base64": "c2VjcmV0"} == shown["state"]["bytes"]


def _changing(delta: dict[str, Any]) -> Event:
    return Event(author="agent", actions=EventActions(state_delta=delta))
