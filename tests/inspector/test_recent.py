"""The newest sessions are counted and searched, and a page says what it did not look at."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import SessionConflictError, Store
from tests.inspector.story import LIMITS, followed, opened, seen
from tests.support.peak_memory import Peak
from tests.support.small_pieces import set_numbers
from tests.support.stored import change, session_path


async def remarked(store: Store, user: str, name: str, *texts: str, day: int = 1) -> None:
    """Make a session of a user with such answers, of one turn on a day of 1970."""
    ids: dict[str, Any] = {"app_name": "support", "user_id": user, "session_id": name}
    session = await store.sessions.create_session(**ids)
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=10, candidates_token_count=1)
    for number, text in enumerate(texts):
        event = Event(
            author="agent",
            invocation_id=name,
            timestamp=day * 86_400.0 + number,
            content=types.Content(parts=[types.Part(text=text)]),
            usage_metadata=usage,
            error_code="STOPPED" if text == "failed" else None,
        )
        await store.sessions.append_event(session, event)


async def test_the_first_page_counts_what_the_newest_sessions_used(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By day: sessions, turns, events, tokens, errors and writes; it says what is not counted."""
    await remarked(store, "ada", "small", "one", "failed", day=2)
    await remarked(store, "bob", "large", "one", "two", "three", "four", day=2)
    await remarked(store, "bob", "old", "one")
    all_of_them = await seen(app, "", {})
    set_numbers(monkeypatch, inspector_home_sessions=2, inspector_recent_sessions=2)
    two = await seen(app, "", {})
    of_bob = await seen(app, "usage", {"app": "support", "user": "bob"})
    first = await seen(app, "usage", {"app": "support"})
    (older,) = first.links(part="cursor=")
    last = await opened(app, older)

    second_day = "1970-01-03 2 2 6 60 in, 6 out 1 0 $0.000005"
    assert "Of the 3 sessions that were updated last, with the newest events of each. Day" in all_of_them.text
    assert f"{second_day} 1970-01-02 1 1 1 10 in, 1 out 0 0 $0.000001 All days 3 3 7" in all_of_them.text
    assert "All days 3 3 7 70 in, 7 out 1 0 $0.000006 The largest" in all_of_them.text
    assert "All days" not in last.text
    assert (
        "The largest of these sessions: large , 4 events ; small , 2 events ; old , 1 event"
        in all_of_them.text
    )
    assert (
        "Of the 2 sessions that were updated last, with the newest events of each. Older sessions" in two.text
    )
    assert second_day in two.text
    assert "1970-01-02" not in two.text
    assert "1970-01-03 1 1 4 40 in, 4 out 0 0 $0.000004" in of_bob.text
    assert "Of the 1 session of this page" in last.text
    assert "1970-01-02 1 1 1 10 in, 1 out" in last.text


@pytest.mark.usefixtures("calm")
async def test_events_that_are_not_counted_are_reported(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of segments that the page did not read; with them, all events count."""
    whole = await seen(app, "usage", {"app": "support"})
    set_numbers(monkeypatch, inspector_segments=1)
    page = await seen(app, "usage", {"app": "support"})
    search = await seen(app, "find", {"app": "support", "tool": "find_parcel"})
    (link,) = search.links("/search?")[-1:]
    rest = await opened(app, link)
    counted = int(page.text.partition("older events of them")[0].split()[-1])

    assert "2023-11-14 1 6 25 615 in, 120 out 1 0 $0.000023" in whole.text
    assert "older events" not in whole.text
    assert 0 < counted < 25
    assert f"{counted} older events of these sessions were not looked at." in search.text
    assert f"{counted} older events: search all events of s1" in search.text
    assert "12 of 25 events have it." in rest.text


SEARCHES: list[tuple[dict[str, Any], set[str]]] = [
    ({"q": "PARCEL"}, {"one", "two"}),
    ({"q": "parcel", "user": "ada"}, {"one"}),
    ({"errors": 1}, {"three"}),
    ({"labels": "team=x"}, {"two"}),
    ({"labels": "team=x", "q": "parcel"}, {"two"}),
    ({"labels": "team=x", "errors": 1}, set()),
    ({"tool": "none"}, set()),
    ({"author": "agent"}, {"one", "two", "three"}),
]
"""What is asked for, and the sessions that have it."""


async def test_a_search_finds_events_in_sessions_of_a_user_or_an_app(store: Store, app: FastAPI) -> None:
    """By text, label, tool, author and error; each session with its newest such events."""
    await remarked(store, "ada", "one", "a parcel")
    await remarked(store, "bob", "two", "no", "Parcel 1", "Parcel 2", "Parcel 3")
    await remarked(store, "bob", "three", "failed")
    ids = {"app_name": "support", "user_id": "bob", "session_id": "two"}
    await store.sessions.update_session_info(**ids, labels={"team": "x"})
    pages = [await seen(app, "find", {"app": "support", **asked}) for asked, _ in SEARCHES]
    first = pages[0].text
    for page, (asked, found) in zip(pages, SEARCHES, strict=True):
        links = page.links("/session?")
        assert found == {parse_qs(urlsplit(link).query)["session"][0] for link in links}, asked

    assert "4 events have it, of the newest events of 3 sessions." in first
    assert "3 of its 4 newest events have it. The newest 2 are here." in first
    assert first.index("Parcel 3") < first.index("Parcel 2")
    assert "Parcel 1" not in first


async def test_a_search_by_labels_alone_looks_at_no_event(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the sessions, says nothing of events, and reads neither documents nor segments of them."""
    await remarked(store, "ada", "one", "a parcel", "another")
    ids = {"app_name": "support", "user_id": "ada", "session_id": "one"}
    await store.sessions.update_session_info(**ids, labels={"team": "x"})
    documents = type(store.sessions.storage.documents)
    get, read = documents.get, list[str]()

    async def counted(self: Any, paths: Sequence[str], **more: Any) -> Any:
        read.extend(paths)
        return await get(self, paths, **more)

    monkeypatch.setattr(documents, "get", counted)
    page = await seen(app, "find", {"app": "support", "labels": "team=x"})

    assert "1 session has these labels. one of ada 2 events team=x" in page.text
    assert "have it" not in page.text
    assert [] == read


async def test_labels_with_a_number_are_scores(store: Store, app: FastAPI) -> None:
    """Of each its mean and of how many sessions, beside two sessions their own; other labels are none."""
    labels = {
        "one": {"score": "4", "score.helpful": "0.5", "scored": "9"},
        "two": {"score": "-1.5", "score.helpful": "none", "score.kind": "1e3"},
        "three": {"team": "7"},
    }
    for name, given in labels.items():
        await remarked(store, "ada", name, "hello")
        ids = {"app_name": "support", "user_id": "ada", "session_id": name}
        await store.sessions.update_session_info(**ids, labels=given)
    usage = await seen(app, "usage", {"app": "support"})
    first = await seen(app, "", {})
    both = await seen(app, "compare", {"app": "support", "user": "ada", "session": "one", "other": "two"})

    scores = (
        "Mean scores of these sessions: score 1.25 of 2 sessions ; score.helpful 0.50 of 1 session Reads only"
    )
    assert scores in usage.text
    assert "score 1.25 of 2 sessions" in first.text
    assert "Labels of one : score=4 score.helpful=0.5 scored=9 Labels of two : score=-1.5" in both.text


async def test_conflicts_are_counted_by_day(store: Store, app: FastAPI) -> None:
    """Each on the day of the next append, in events that a segment holds and in newer ones."""
    ids: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "s"}
    session = await store.sessions.create_session(**ids)
    ids_of_pages = {"app": "support", "user": "ada", "session": "s"}
    large = types.Content(parts=[types.Part(text="a" * LIMITS.seal_tail_bytes)])
    for day, content in ((1, large), (1, large), (2, None), (2, None), (2, None)):
        late = session.model_copy(deep=True)
        event = Event(author="agent", timestamp=day * 86_400.0, content=content)
        await store.sessions.append_event(session, event)
        with pytest.raises(SessionConflictError):
            await store.sessions.append_event(late, Event(author="agent"))
    page = await seen(app, "usage", {"app": "support"})
    vitals = await seen(app, "vitals", ids_of_pages)

    assert "Conflicts 4 " in vitals.text
    assert "1970-01-03 1 0 3 0 in, 0 out 0 3 $" in page.text
    assert "1970-01-02 1 0 2 0 in, 0 out 0 1 $" in page.text


async def test_each_event_is_counted_on_its_own_day(store: Store, app: FastAPI) -> None:
    """With its error and its tokens, also in a turn that goes on after midnight."""
    midnight = 2 * 86_400.0
    session = await store.sessions.create_session(app_name="support", user_id="ada")
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=3)
    asked = Event(author="user", invocation_id="i", timestamp=midnight - 5)
    failed = Event(author="agent", invocation_id="i", timestamp=midnight + 5, error_code="X")
    failed.usage_metadata = usage
    for event in (asked, failed):
        await store.sessions.append_event(session, event)
    page = await seen(app, "usage", {"app": "support"})

    assert "1970-01-03 1 1 1 7 in, 3 out 1 0 $0.000001" in page.text
    assert "1970-01-02 1 1 1 0 in, 0 out 0 0 $0.000001" in page.text


async def test_a_page_holds_one_large_event_at_a_time(store: Store, app: FastAPI) -> None:
    """Its memory does not grow with the sessions that it looks at, each of which has a large event."""
    peaks: dict[str, list[int]] = {"usage": [], "find": []}
    for count in (2, 12):
        for number in range(count):
            await remarked(store, "ada", f"{count} {number}", chr(97 + number) * 300_000)
        for page, held in peaks.items():
            with Peak() as peak:
                shown = await seen(app, page, {"app": "support", "author": "agent"})
            held.append(peak.bytes)

    assert "14 events have it" in shown.text
    assert all(0 < many < 2 * few for few, many in peaks.values()), peaks


async def test_a_search_of_many_sessions_goes_on(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session is on one page; a page says that there are more."""
    for number in range(5):
        await remarked(store, "ada", f"s{number}", "a parcel", day=number)
    set_numbers(monkeypatch, inspector_recent_sessions=2)
    found, said = list[str](), list[bool]()
    async for page in followed(app, "/find?app=support&q=parcel", "cursor="):
        found += [parse_qs(urlsplit(link).query)["session"][0] for link in page.links("/session?")]
        said.append("Sessions that were updated earlier were not looked at." in page.text)

    assert ["s4", "s3", "s2", "s1", "s0"] == found
    assert [True, True, False] == said


async def test_a_damaged_session_is_not_counted(store: Store, app: FastAPI) -> None:
    """And the page says so; the others are counted."""
    await remarked(store, "ada", "good", "one")
    await remarked(store, "ada", "bad", "one")
    bad = session_path({"app_name": "support", "user_id": "ada", "session_id": "bad"})
    await change(store, bad, {"tail": ["{"]})
    page = await seen(app, "", {})

    assert "1 session cannot be read." in page.text
    assert "1970-01-02 1 1 1" in page.text
