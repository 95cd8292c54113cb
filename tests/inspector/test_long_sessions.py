"""The first page of a session costs the same, however long the session is."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.moving import copy
from tests.inspector.story import Read, client_of
from tests.support.lengths import at_length
from tests.support.loop_work import counted_work

EVENTS: Final = at_length(2_500, 10_000)
LIMITS: Final = SessionLimits(seal_tail_bytes=at_length(16, 64) * 1024)
"""As many segments in either form."""
EVENTS_OF_MANY: Final = at_length(30, 120)
"""Enough for a segment."""


def at(place: int) -> int:
    """Return the place that is as far in the session as *place* is in one of 10,000 events."""
    return place * EVENTS // 10_000


def said(number: int) -> Event:
    """Return an event of 600 bytes."""
    content = types.Content(role="model", parts=[types.Part(text=f"{number} {'x' * 400}")])
    return Event(
        id=f"e{number}",
        invocation_id=f"i{number // 4}",
        author="agent",
        timestamp=float(number),
        content=content,
        actions=EventActions(state_delta=delta_of(number)),
    )


def delta_of(number: int) -> dict[str, Any]:
    """Return what an event changes: one key often, others once, the last of them by the last event."""
    delta: dict[str, Any] = {"often": number} if number % 5 == 0 else {}
    return delta | ({f"once {number}": "x" * 1000} if number % at(1000) == at(1000) - 1 else {})


def state_after(count: int) -> dict[str, Any]:
    """Return the state after so many events."""
    state: dict[str, Any] = {"given": "at creation"}
    for number in range(count):
        state |= delta_of(number)
    return state


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one short and one long session, and of an app of many sessions with a segment each."""
    folder = tmp_path_factory.mktemp("long") / "store"

    async def fill() -> None:
        source = InMemorySessionService()
        many = [("many", f"s{number}", EVENTS_OF_MANY) for number in range(18)]
        for app, name, count in (("app", "short", 200), ("app", "long", EVENTS), *many):
            session = await source.create_session(
                app_name=app, user_id="ada", session_id=name, state={"given": "at creation"}
            )
            for number in range(count):
                await source.append_event(session, said(number))
        async with Store.local(folder, session_limits=LIMITS) as store:
            for app, count in (("app", 200 + EVENTS), ("many", 18 * EVENTS_OF_MANY)):
                assert count == (await copy(source, store.sessions, app_name=app)).events

    asyncio.run(fill())
    return folder


@pytest.fixture
async def store(folder: Path) -> AsyncIterator[Store]:
    """The store, in a process that remembers no segment."""
    async with Store.local(folder, session_limits=SessionLimits(segment_cache_bytes=0)) as store:
        yield store


async def test_the_first_page_of_a_long_session_costs_what_that_of_a_short_one_does(
    client: httpx.AsyncClient,
) -> None:
    """At most twice as many calls of functions, whichever end it shows."""

    async def cost(session: str, order: str) -> int:
        asked: dict[str, Any] = {"app": "app", "user": "ada", "session": session, "order": order}
        await client.get("/session", params=asked)
        with counted_work() as work:
            page = await client.get("/session", params=asked)
        assert 50 == page.text.count("<article")
        return work.calls

    for order in ("oldest", "newest"):
        assert 0 < await cost("long", order) < 2 * await cost("short", order)


@pytest.fixture
async def client(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    """A reader of an inspector that shows content."""
    app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
    async with client_of(app) as client:
        yield client


@pytest.fixture
def read(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The documents that were read, as Google bills them: of queries, too, and those that are missing."""
    documents = type(store.sessions.storage.documents)
    get, query, read = documents.get, documents.query, list[str]()

    async def counted_get(self: Any, paths: Sequence[str], **more: Any) -> Any:
        read.extend(paths)
        return await get(self, paths, **more)

    async def counted_query(self: Any, *where: str, **more: Any) -> Any:
        found = await query(self, *where, **more)
        read.extend([each.path for each in found] or ["nothing"])
        return found

    monkeypatch.setattr(documents, "get", counted_get)
    monkeypatch.setattr(documents, "query", counted_query)
    return read


LONG: Final = {"app": "app", "user": "ada", "session": "long"}
PAGES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("", {}),
    ("usage", {"app": "app"}),
    ("usage", {"app": "many"}),
    ("find", {"app": "many", "author": "agent"}),
    ("find", {"app": "app", "q": "x" * 400}),
    ("find", {"app": "app", "user": "ada", "author": "agent"}),
    ("session", LONG),
    ("timeline", LONG),
    ("timeline", {**LONG, "newest": "1"}),
    ("search", {**LONG, "q": "x" * 400}),
    ("compare", {**LONG, "other": "short"}),
    ("vitals", LONG),
    ("raw", LONG),
    ("sessions", {"app": "app"}),
    ("matrix", LONG),
    ("matrix", {**LONG, "order": "newest"}),
    ("event", {**LONG, "event": "e10"}),
    ("event", {**LONG, "event": f"e{EVENTS - 10}"}),
    ("change", {**LONG, "event": f"e{at(5000) - 5}", "key": "often"}),
    ("change", {**LONG, "key": "given"}),
    ("state", LONG),
    *(
        ("state", {**LONG, "event": point})
        for point in at_length(
            (at(5000), "e10"),
            (0, 10, at(2500), at(5000), at(7500), EVENTS - 10, EVENTS, "e10", f"e{EVENTS - 10}"),
        )
    ),
    ("state", {**LONG, "event": f"{datetime.fromtimestamp(at(5000), UTC):%FT%TZ}"}),
    ("difference", LONG),
    *(
        ("difference", {**LONG, "from": begin, "to": end})
        for begin, end in (
            (at(2500), at(7500)),
            ("e10", f"e{EVENTS - 10}"),
            *at_length((), ((10, 20), (EVENTS - 10, 20), (at(4000), at(6000)), (at(5000), at(5000) + 1))),
        )
    ),
]


async def test_a_page_of_a_long_session_reads_and_weighs_little(
    client: httpx.AsyncClient, read: list[str]
) -> None:
    """At most 50 documents, of a session of 10,000 events, and 1 MB, whatever it is asked for."""
    for page, asked in PAGES:
        read.clear()
        answer = await client.get(f"/{page}", params=asked)

        assert 200 == answer.status_code, (page, asked, answer.text)
        assert 1 <= len(read) <= 50, (page, asked)
        assert len(answer.content) < 1_000_000, (page, asked)


async def led(client: httpx.AsyncClient, address: str, says: str) -> Read:
    """Return the page that *address* shows, or that its links to look on lead to."""
    for _ in range(6):
        page = Read((await client.get(address)).text)
        links = page.links()
        on = page.text.partition("Look on from there")[1]
        if not on:
            return page
        (address,) = [link for link in links if "near=" in link or "back=" in link]
    raise AssertionError(f"{says} is not found")


@pytest.mark.sample(4)
@pytest.mark.parametrize("count", [0, 1, *map(at, (1000, 2345, 5000, 6100)), EVENTS - 1, EVENTS])
async def test_the_state_at_each_place_is_what_the_events_before_it_made(
    client: httpx.AsyncClient, count: int
) -> None:
    """Wherever it is; a value that a page does not read, or that was not given yet, is found by its link."""
    page = await led(client, f"/state?{urlencode({**LONG, 'event': count})}", f"place {count}")
    wanted = state_after(count)
    texts = page.text
    unread = page.links(part="back=")
    missing = {parse_qs(urlsplit(link).query)["key"][0] for link in unread}
    assert not missing & {"often"}
    assert not missing or at(2345) < count < EVENTS
    for key in set(wanted) - missing:
        assert f"{key} {json.dumps(wanted[key])}" in texts
    for key in set(state_after(EVENTS)) - set(wanted) - missing:
        assert f"{key} " not in texts
    for link in unread[:2]:
        key = parse_qs(urlsplit(link).query)["key"][0]
        found = await led(client, link, key)
        changed = [number for number in range(count) if key in delta_of(number)]
        if changed:
            assert f"By event e{changed[-1]}" in found.text
        elif key == "given":
            assert "At the creation of the session." in found.text
        else:
            assert "The session was created without this key" in found.text


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("begin", "end"),
    [(10, 20), (at(2400), at(2900)), (at(5000), at(5000) + 100), (at(6000), 10), (0, EVENTS)],
)
async def test_two_places_of_a_session_are_compared(client: httpx.AsyncClient, begin: int, end: int) -> None:
    """What events between them changed, in either direction; what a page does not read has a link."""
    asked = urlencode({**LONG, "from": begin, "to": end})
    page = await led(client, f"/difference?{asked}", f"{begin} to {end}")
    before, after = state_after(begin), state_after(end)
    unread = {
        parse_qs(urlsplit(each["href"]).query)["key"][0] for each in page.all("a") if "back=" in each["href"]
    }
    differing = {key for key in {*before, *after} if before.get(key) != after.get(key)}

    count = len(differing - unread)
    assert ("1 key differs" if count == 1 else f"{count} keys differ") in page.text
    for key in differing - unread:
        one, other = (json.dumps(each[key]) if key in each else "no value" for each in (before, after))
        assert f"{key} {one} {other}" in page.text
    if end - begin in (10, 100, at(500)):
        assert not unread & {"often", "given"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("end", [4050, 5001, 6789, 9990])
async def test_a_time_is_found_after_a_number_that_took_all_reads(
    client: httpx.AsyncClient, read: list[str], end: int
) -> None:
    """By links to look on, each of which reads as little as any other page."""
    begin, end = at(3960), at(end)
    time = datetime.fromtimestamp(end - 0.5, UTC).isoformat()
    address, on = f"/difference?{urlencode({**LONG, 'from': begin, 'to': time})}", 0
    while address:
        read.clear()
        page = Read((await client.get(address)).text)
        assert len(read) <= 50
        links = page.links(part="near=")
        address, on = next(iter(links), ""), on + len(links)

    assert on
    assert f"often {state_after(begin)['often']} {state_after(end)['often']}" in page.text


async def test_an_event_is_found_without_its_place(client: httpx.AsyncClient) -> None:
    """By some links, each of which says how far it came; a link of a page has the place."""
    first = Read((await client.get("/event", params={**LONG, "event": "e10"})).text)
    found = await led(client, f"/event?{urlencode({**LONG, 'event': 'e10'})}", "e10")
    change = await led(client, f"/change?{urlencode({**LONG, 'event': 'e10', 'key': 'often'})}", "e10")
    gone = await led(client, f"/event?{urlencode({**LONG, 'event': 'no'})}", "the end")
    matrix = Read((await client.get("/matrix", params=LONG)).text)
    links = [
        each["href"]
        for page in (found, change, matrix)
        for each in page.all("a")
        if each["href"].startswith(("/change?", "/state?event", "/event?"))
    ]

    assert "They led to event" in first.text
    assert "10 xxx" in found.text
    assert "- 5 + 10" in change.text
    assert "the session has no event of this id" in gone.text
    assert len(links) > at(500)
    assert all("at=" in link for link in links if "event=" in link)


async def test_the_matrix_of_a_long_session_has_pages(client: httpx.AsyncClient) -> None:
    """Each change is on one, with the number of its event; the newest page ends with the last event."""
    marks: list[str] = []
    asked = f"/matrix?{urlencode(LONG)}"
    newest = Read((await client.get("/matrix", params={**LONG, "order": "newest"})).text)
    while asked:
        page = Read((await client.get(asked)).text)
        marks += [each["aria-label"].split(",")[0] for each in page.all("a") if "aria-label" in each]
        links = page.links("/matrix?")
        asked = next((link for link in links if "cursor=" in link), "")
    wanted = [f"Event {number + 1}" for number in range(EVENTS) for _ in delta_of(number)]

    newest_time = f"{datetime.fromtimestamp(EVENTS - 1, UTC):%F %TZ}"

    assert sorted(["Creation", *wanted]) == sorted(marks)
    assert f"of {EVENTS:,}" in newest.text
    assert newest.all(
        "a", lambda each: each.get("aria-label", "").startswith(f"Event {EVENTS}, agent {newest_time}")
    )


async def test_all_segments_of_a_long_session_are_named(client: httpx.AsyncClient) -> None:
    """Some on each page of its documents."""
    names: set[str] = set()
    asked = f"/raw?{urlencode(LONG)}"
    while asked:
        page = Read((await client.get(asked)).text)
        links = page.links()
        names |= {parse_qs(urlsplit(link).query)["document"][0] for link in links if "document=" in link}
        asked = next((link for link in links if "after=" in link and "document=" not in link), "")
    vitals = Read((await client.get("/vitals", params=LONG)).text)

    assert f"Segments {len(names - {'user'})};" in vitals.text
