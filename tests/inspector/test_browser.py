"""Chromium shows the pages: what is visible, nothing that runs, nothing that people cannot use."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from google.adk.events import Event

from gcp_adk_store import Store
from tests.adk_server.conftest import chromium
from tests.inspector.browser import Browser, browser
from tests.inspector.process import inspected
from tests.inspector.story import CALM_PLACE, LIMITS, PLACE, fill_calm, fill_hostile
from tests.inspector.test_security import HOSTILE_PAGES
from tests.support.documents import ROOT
from tests.support.lengths import at_length

__all__ = ["chromium"]

PICTURES: Final = ROOT / "tests/artifacts"
OF_ADA: Final = {"app": "support", "user": "ada"}
AXE: Final = files("axe_core_python").joinpath("axe.min.js").read_text()
SERIOUS: Final = """
axe.run(document, {resultTypes: ["violations"], iframes: false}).then(found => JSON.stringify(
  found.violations.filter(each => ["serious", "critical"].includes(each.impact)).map(
    each => [each.id, each.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])))
"""
SPLIT: Final = """
(() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("code, bdi, pre, .content")) continue;
    for (const number of text.data.matchAll(/[$]?\\d[\\d.,:TZ-]*/g)) {
      const range = document.createRange();
      range.setStart(text, number.index);
      range.setEnd(text, number.index + number[0].length);
      if (new Set([...range.getClientRects()].map(each => each.top)).size > 1) found.push(number[0]);
    }
  }
  return found;
})()
"""
"""Numbers and times that are on two lines; ids and what people said may be."""

BEYOND: Final = """
(() => {
  const right = document.documentElement.clientWidth;
  const cells = [...document.querySelectorAll("td, circle")];
  const hidden = [...document.querySelectorAll("svg.span")].filter(each => !each.clientWidth);
  const beyond = cells.filter(each => each.getBoundingClientRect().right > right);
  return [...beyond, ...hidden].map(each => each.outerHTML);
})()
"""
"""Cells that are not whole in the window, and bars that are not drawn."""

CALM_PAGES: Final[list[tuple[str, dict[str, Any], str]]] = [
    ("", {}, "support"),
    ("users", {"app": "support"}, "ada"),
    ("usage", {"app": "support"}, "2023-11-14"),
    ("find", {**OF_ADA, "q": "oslo"}, "12 events have it"),
    ("sessions", OF_ADA, "Where is my parcel?"),
    ("search", {**CALM_PLACE, "q": "oslo"}, "12 of 25 events have it"),
    ("session", CALM_PLACE, "It is in Oslo. 5"),
    ("raw", CALM_PLACE, '"rev": 25'),
    ("timeline", CALM_PLACE, "105 in, 20 out"),
    ("state", CALM_PLACE, '"parcel", 5'),
    ("matrix", CALM_PLACE, "13 changes of 2 keys in 25 events"),
    ("vitals", CALM_PLACE, "Lease free"),
    ("artifact", {**CALM_PLACE, "name": "notes.txt", "against": 0}, "+ four"),
    ("difference", {**CALM_PLACE, "from": 4, "to": 9}, "2 keys differ"),
    ("artifacts", CALM_PLACE, "image/png"),
    ("artifact", {**CALM_PLACE, "name": "plot.png"}, "image/png"),
    ("restore", CALM_PLACE, "To the event"),
    ("compare", {**CALM_PLACE, "other": "s1"}, "25 events are the same"),
    ("artifact", {**CALM_PLACE, "name": "call.wav"}, "audio/"),
    ("artifact", {**CALM_PLACE, "name": "rows.csv"}, "Oslo"),
    ("memories", {**OF_ADA, "q": "parcel"}, "score 0."),
    ("artifact", {**CALM_PLACE, "name": "letter.pdf"}, "application/pdf"),
]
"""In the short form every other one, in this order: tests of requests look at the content of all."""
FIGURES: Final = ("timeline", "usage", "sessions", "artifacts", "artifact", "matrix")
"""Pages with bars, times and totals, which are in the window of a phone: nobody scrolls to see them."""
LAYOUTS: Final = ("sessions", "session", "matrix", "restore")
"""One page of each kind: a form with a table, a conversation, a drawing, and what is confirmed."""
HOSTILE: Final = [
    (path, asked)
    for path, asked in {path: asked for path, asked in reversed(HOSTILE_PAGES) if path != "events"}.items()
    if at_length(path in ("find", "session", "event", "matrix", "change", "state", "redact"), long=True)
] + [("artifact", {**CALM_PLACE, "name": f"evil.{ending}"}) for ending in ("svg", "html", "png", "csv")]
"""Each page once, and each kind of file. In the short form one of each template with texts of people:
``test_no_page_has_an_element_or_an_attribute_of_what_is_stored`` looks at all."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the store of both stories."""
    return tmp_path_factory.mktemp("inspected")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """The address of an inspector of both stories."""

    async def fill() -> None:
        async with Store.local(folder / "support-store", session_limits=LIMITS) as store:
            await fill_hostile(store)
            await fill_calm(store)
            long: dict[str, Any] = {"app_name": "long", "user_id": "u", "session_id": "s"}
            session = await store.sessions.create_session(**long)
            for event in [one for _ in range(5) for one in (await _calm_events(store))]:
                await store.sessions.append_event(session, event)

    asyncio.run(fill())
    line = "gcp-adk-store inspect --local support-store --allow-writes"
    with inspected(line, at=folder) as address:
        yield address


async def _calm_events(store: Store) -> list[Any]:
    session = await store.sessions.get_session(app_name="support", user_id="ada", session_id="s1")
    assert session is not None
    return [event.model_copy(update={"id": uuid.uuid4().hex}) for event in session.events]


@pytest.fixture(scope="module")
def page(chromium: str, site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this file, whose reader has pressed the button that reveals content."""
    with browser(chromium, profile=tmp_path_factory.mktemp("profile")) as page:
        page.look_as()
        page.open(address(site, "session", CALM_PLACE))
        page.click(".reveal button")
        yield page


def address(site: str, path: str, parameters: Mapping[str, Any]) -> str:
    """Return the address of a page."""
    return f"{site}{path}?{urlencode(parameters)}"


def unusable(page: Browser) -> list[Any]:
    """Return what axe-core finds to be serious on the page."""
    page.run(AXE)
    found: list[Any] = json.loads(page.run(SERIOUS))
    return found


def test_each_page_shows_its_content_to_everybody(page: Browser, site: str) -> None:
    """In light and dark; without an error in the console, and without a serious finding of axe-core.

    Nothing but tables is wider than a narrow window, and these scroll by themselves; no number has two
    lines there. In the short form
    light and dark take turns, as the colours of all pages are those of one sheet; and axe-core looks at
    one page of each layout.
    """
    for number, (path, parameters, says) in enumerate(CALM_PAGES[:: at_length(2, 1)]):
        name = f"{path or 'apps'}-{str(parameters.get('name', '')).rpartition('.')[2]}".rstrip("-")
        for dark in at_length((number % 2 == 1,), (True, False)):
            page.look_as(dark=dark)
            page.open(address(site, path, parameters))
            assert says in page.text, (path, page.text)
            assert [] == page.wrong, (path, parameters)
            if at_length(path in LAYOUTS, long=True):
                assert [] == unusable(page), (path, dark)
        page.look_as(width=360)
        assert 360 >= page.run("document.documentElement.scrollWidth"), path
        assert [] == page.run(SPLIT), path
        if path in FIGURES:
            assert [] == page.run(BEYOND), path
        if at_length(short=False, long=True):
            page.keep(PICTURES / f"inspector-narrow-{name}.png")
            page.look_as()
            page.keep(PICTURES / f"inspector-{name}.png")
    page.look_as()
    assert page.run("innerWidth") == 1200


def test_pictures_are_drawn_and_audio_can_be_played(page: Browser, site: str) -> None:
    """From the addresses of their bytes."""
    page.open(address(site, "session", CALM_PLACE))
    page.run("document.querySelectorAll('img').forEach(each => each.loading = 'eager')")
    page.appear("[...document.images].every(each => each.complete)")
    widths = page.run("[...document.images].map(each => each.naturalWidth)")
    page.open(address(site, "artifact", {**CALM_PLACE, "name": "call.wav"}))
    controls = page.run("document.querySelector('audio').controls")

    assert [40] * 6 == widths
    assert controls


def test_nothing_that_is_stored_runs(page: Browser, site: str) -> None:
    """On no page of the hostile session, folded parts included; nor does it ask for anything elsewhere."""
    for path, parameters in HOSTILE:
        page.open(address(site, path, parameters))
        page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.appear("document.readyState === 'complete'")

        assert page.run("typeof window.hacked") == "undefined", path
        assert page.run("location.origin") == site.rstrip("/"), path
        assert [] == page.wrong, (path, parameters)
        assert all(each.startswith((site, "data:")) for each in page.asked), (path, page.asked)
        assert not page.run("document.querySelector('[onerror], [onload], [style], iframe[srcdoc], base')")
    page.open(address(site, "session", PLACE))
    page.keep(PICTURES / "inspector-hostile.png")


def test_keys_go_from_event_to_event_and_to_the_search(page: Browser, site: str) -> None:
    """Not while one writes into a field."""
    page.open(address(site, "session", CALM_PLACE))
    at = "[...document.querySelectorAll('article')].indexOf(document.activeElement)"
    places = []
    for key in "jjk":
        page.press(key, ord(key.upper()))
        places.append(page.run(at))
    page.press("/", 191)
    page.appear("location.pathname === '/search' && document.readyState === 'complete'")
    page.press("/", 191)
    page.press("j", 74)

    assert [0, 1, 0] == places
    assert "q" == page.run("document.activeElement.name")
    assert [] == page.wrong


def test_more_events_come_as_one_scrolls(page: Browser, site: str) -> None:
    """Until the last; the address works without a script, too."""
    page.open(address(site, "session", {"app": "long", "user": "u", "session": "s"}))
    first = page.run("document.querySelectorAll('article').length")
    for number in (100, 125):
        down = "document.querySelector('.more')?.scrollIntoView()"  # pictures that are loaded move it
        page.appear(f"({down}, document.querySelectorAll('article').length >= {number})")

    assert 50 == first
    assert 125 == page.run("new Set([...document.querySelectorAll('.permanent')].map(e => e.href)).size")
    assert "Look for newer events" in page.text
    assert [] == page.wrong


def test_a_timeline_shows_events_as_they_are_stored(page: Browser, site: str, folder: Path) -> None:
    """Each with a span of the store, by a page that follows and is usable on a phone, until one stops it."""
    place = {**CALM_PLACE, "session": "followed"}
    who: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "followed"}

    async def say(*authors: str) -> None:
        async with Store.local(folder / "support-store", session_limits=LIMITS) as store:
            session = await store.sessions.get_session(**who) or await store.sessions.create_session(**who)
            for author in authors:
                await store.sessions.append_event(session, Event(author=author, invocation_id="e-1"))

    asyncio.run(say("user"))
    page.look_as(width=360)
    page.open(address(site, "timeline", {**place, "follow": 1}))
    asyncio.run(say("agent"))
    page.appear("document.body.innerText.includes('store 1 event by')")
    asyncio.run(say("agent"))
    page.appear("document.querySelectorAll('rect.store').length === 2")
    width = page.run("document.documentElement.scrollWidth")
    split, found, text = page.run(SPLIT), unusable(page), page.text
    page.keep(PICTURES / "inspector-followed.png")
    page.click(".more a")
    page.look_as()

    assert "Waits for newer events. Stop" in text
    assert "This page has events 1 to 3." in text
    assert (True, [], []) == (width <= 360, split, found)
    assert "Follow" in page.text
    assert [] == page.wrong


def test_a_keyboard_suffices(page: Browser, site: str) -> None:
    """The first key leads past the header; tools unfold; each mark of the matrix has a name."""
    page.open(address(site, "session", CALM_PLACE))
    page.press("Tab", 9)
    skipping = page.run("document.activeElement.textContent")
    page.run("document.querySelector('details').querySelector('summary').focus()")
    page.run("document.activeElement.click()")
    unfolded = page.run("document.querySelector('details').open")
    page.open(address(site, "matrix", CALM_PLACE))
    names = page.run("[...document.querySelectorAll('svg a')].map(each => each.getAttribute('aria-label'))")

    assert "Skip to the content" == skipping
    assert unfolded
    assert 13 == len(names)
    assert names[0].startswith("Creation, creation")
    assert names[1].startswith("Event 4, agent 2023-11-14")


def test_a_reader_masks_and_reveals_content_by_the_button(page: Browser, site: str) -> None:
    """The browser sends the token and the origin, and comes back to the same page."""
    page.open(address(site, "session", CALM_PLACE))
    page.click(".reveal button")
    masked = page.text
    page.keep(PICTURES / "inspector-masked.png")
    page.click(".reveal button")

    assert "masked, 18 characters" in masked
    assert "Where is parcel 0?" not in masked
    assert "Where is parcel 0?" in page.text
    assert page.run("location.href") == address(site, "session", CALM_PLACE)
    assert [] == page.wrong
