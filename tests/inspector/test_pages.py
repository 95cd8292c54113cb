"""Each page shows what the store has."""

import asyncio
import html
import re
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import KmsEnvelope, LocalKeyWrapper, Point, Store
from gcp_adk_store.codec.cursors import encode_place_in
from gcp_adk_store.inspector import create_app
from tests.inspector.story import CALM, CALM_PLACE, PDF, PNG, Read, client_of, followed, opened, seen
from tests.support.small_pieces import set_numbers
from tests.support.stored import change, put, session_path

TIME: Final = "20[0-9: -]{17}Z"


@pytest.mark.usefixtures("calm")
async def test_apps_and_users_lead_to_sessions(store: Store, app: FastAPI) -> None:
    """Names of any form are links that lead back to them."""
    for user in ("", "a/b", "ada", "ünï", "%"):
        await store.sessions.create_session(app_name="an/app", user_id=user)
    apps = await seen(app, "", {})
    users = await seen(app, "users", {"app": "an/app"})
    named = [parse_qs(urlsplit(each["href"]).query, keep_blank_values=True) for each in users.all("a")]

    assert "an/app all sessions of an/app" in apps.text
    assert {"", "a/b", "ada", "ünï", "%"} == {each["user"][0] for each in named if "user" in each}


async def listed(app: FastAPI, address: str, to: str, kind: str) -> list[list[str]]:
    """Return the names of a *kind* that each page of a list has links *to*; it leads to the next page."""
    found = list[list[str]]()
    async for page in followed(app, address, "after="):
        queries = [parse_qs(urlsplit(link).query) for link in page.links(to)]
        found.append([query[kind][0] for query in queries if kind in query])
    return found


async def test_names_are_listed_in_pages(store: Store, app: FastAPI) -> None:
    """Each once, however many sessions a user has; the last page says that it is the last."""
    wanted = [f"user {number:03}" for number in range(50)]
    for number, user in enumerate(wanted):
        for _ in range(2 if number % 10 == 0 else 1):
            await store.sessions.create_session(app_name="app", user_id=user)

    assert [wanted[:48], wanted[48:]] == await listed(app, "/users?app=app", "/sessions?", "user")


async def test_apps_behind_documents_of_another_program_are_listed(store: Store, app: FastAPI) -> None:
    """However many collections of this name it has: they take pages, which lead to the apps after them."""
    for name in ("aaa", "zzz"):
        await store.sessions.create_session(app_name=name, user_id="u")
    layout = store.sessions.storage.layout
    others = [
        f"{layout.app('mmm')}/foreign/{number}/{layout.sessions_collection}/{document}"
        for number in range(25)
        for document in range(2)
    ]
    for path in others:
        await put(store, path, {"a": 1})

    assert ["aaa", "zzz"] == [name for names in await listed(app, "/", "/users?", "app") for name in names]


async def test_the_size_of_a_large_file_is_the_same_on_each_page(
    store: Store, app: FastAPI, masked: FastAPI
) -> None:
    """Also where a page does not read its bytes, which are a payload."""
    session = await store.sessions.create_session(**CALM)
    parts = [types.Part.from_bytes(data=PNG + bytes(count), mime_type="image/png") for count in (100_000, 1)]
    for event_id, text in (("e1", "short"), ("e2", "x" * 500_000)):  # the second is a payload as a whole, too
        event = Event(id=event_id, author="user", actions=EventActions(state_delta={"n": event_id}))
        event.content = types.UserContent([*parts, types.Part(text=text)])
        await store.sessions.append_event(session, event)
    size = f"image/png , {len(PNG) + 100_000:,} bytes"
    small = f"image/png , {len(PNG) + 1} bytes"

    for of in (app, masked):
        for page, asked in (
            ("session", {}),
            ("event", {"event": "e1"}),
            ("find", {"author": "user"}),
            ("change", {"key": "n", "event": "e1"}),
            ("change", {"key": "n", "event": "e2"}),
        ):
            text = (await seen(of, page, {**CALM_PLACE, **asked})).text
            assert text.count(size) == text.count(small) > 0, (page, asked)
            assert " 0 bytes" not in text, page


@pytest.mark.usefixtures("calm")
async def test_sessions_are_listed_with_what_describes_them(store: Store, app: FastAPI) -> None:
    """Title, labels, numbers and the last message; filters leave out the others."""
    await store.sessions.create_session(app_name="support", user_id="ada", session_id="other")
    of_ada = {"app": "support", "user": "ada"}
    page = await seen(app, "sessions", of_ada)
    filtered = await seen(app, "sessions", {**of_ada, "labels": "team=x"})
    later = await seen(app, "sessions", {**of_ada, "since": "2099-01-01"})
    zoned = await seen(app, "sessions", {**of_ada, "since": "2023-11-14T23:00+01:00"})

    assert "s1 Where is my parcel? team=x 25 6 2023-11-14 22:18:24Z It is in Oslo. 5" in page.text
    assert "other" in page.text
    assert "other" not in filtered.text
    assert "This page has no sessions." in later.text
    assert "Where is my parcel?" in zoned.text


async def test_a_list_of_sessions_with_long_ids_goes_on(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link to the next page has a place with ids of 1,400 characters."""
    set_numbers(monkeypatch, inspector_sessions=1)
    for name in "ab":
        await store.sessions.create_session(app_name="app", user_id="u" * 1400, session_id=name * 1400)
    page = await seen(app, "sessions", {"app": "app"})
    (link,) = page.links(part="cursor=")
    last = await opened(app, link)

    assert "b" * 1400 in page.text
    assert "a" * 1400 in last.text


@pytest.mark.usefixtures("calm")
async def test_a_damaged_session_is_listed_with_what_looks_at_it(store: Store, masked: FastAPI) -> None:
    """The others are listed as ever; its documents are a link away."""
    broken: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "<broken>"}
    await store.sessions.create_session(**broken)
    await change(store, session_path(broken), {"rev": "secret"})
    page = await seen(masked, "sessions", {"app": "support", "user": "ada"})
    (link,) = page.links("/raw?")
    async with client_of(masked) as client:
        documents = await client.get(link)

    assert "s1" in page.text
    assert "Sessions that cannot be read <broken>" in page.text
    assert "has a field of a wrong kind: rev is str" in page.text
    assert "gcp-adk-store fsck --app support --user ada --session '<broken>'" in page.text
    assert "secret" not in page.text
    assert 200 == documents.status_code


async def test_a_conversation_shows_each_kind_of_part(calm: Session, app: FastAPI) -> None:
    """Text, folded tools with arguments and results, thinking, pictures by their own address, errors."""
    page = await seen(app, "session")
    pictures = page.all("img")
    async with client_of(app) as client:
        picture = await client.get(pictures[0]["src"])

    assert "Where is parcel 0?" in page.text
    assert 'Calls find_parcel call c0 { "number": 0 }' in page.text
    assert 'Result of find_parcel call c0 { "where": "Oslo" }' in page.text
    assert "Thinking It may be in Oslo." in page.text
    assert "Error 429 The model is busy." in page.text
    assert "100 in, 20 out tokens." in page.text
    assert len(calm.events) == len(page.all("article"))
    assert 6 == len(pictures)
    assert (PNG, "image/png") == (picture.content, picture.headers["content-type"])


async def test_a_long_conversation_goes_on_where_it_ended(store: Store, app: FastAPI) -> None:
    """Each event is on one page, in both orders; the last page has the place where a follower goes."""
    session = await store.sessions.create_session(**CALM)
    for number in range(105):
        content = types.Content(parts=[types.Part(text=f"word-{number}.")])
        await store.sessions.append_event(session, Event(author="user", content=content))
    wanted = [f"word-{number}." for number in range(105)]
    for order in ("oldest", "newest"):
        said: list[str] = []
        page = await seen(app, "session", {**CALM_PLACE, "order": order})
        for _ in range(3):
            said += [word for word in page.text.split() if word.startswith("word-")]
            following = page.all("p", lambda each: "hx-get" in each)
            if following:
                asked = {
                    key: value[0] for key, value in parse_qs(urlsplit(following[0]["hx-get"]).query).items()
                }
                page = await seen(app, "events", asked)
        assert (wanted if order == "oldest" else wanted[::-1]) == said
        assert (order == "oldest") is bool(page.all("p", lambda each: each.get("id") == "end"))


async def test_a_follower_is_shown_the_next_events(
    store: Store, calm: Session, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as there are any, and else the same element, which asks again."""
    page = await seen(app, "session", {**CALM_PLACE, "follow": "1"})
    (end,) = page.all("p", lambda each: each.get("id") == "end")
    place = {key: value[0] for key, value in parse_qs(urlsplit(end["hx-get"]).query).items()}
    asking = asyncio.create_task(seen(app, "news", place))
    content = types.Content(parts=[types.Part(text="the news")])
    await store.sessions.append_event(calm, Event(author="user", content=content))
    news = await asking
    set_numbers(monkeypatch, inspector_news_s=0.01)
    (again,) = news.all("p", lambda each: each.get("id") == "end")
    later = {key: value[0] for key, value in parse_qs(urlsplit(again["hx-get"]).query).items()}
    silent = await seen(app, "news", later)
    set_numbers(monkeypatch, inspector_waiting=0)
    async with client_of(app) as client:
        refused = await client.get("/news", params=later)

    assert "the news" in news.text
    assert ("26", "27") == (place["first"], later["first"])
    assert not silent.all("article")
    assert again["hx-get"] == silent.all("p", lambda each: each.get("id") == "end")[0]["hx-get"]
    assert 503 == refused.status_code


async def test_a_permanent_link_finds_its_event(calm: Session, store: Store, app: FastAPI) -> None:
    """After later appends, and after a restore took its place away; one that is gone is reported."""
    page = await seen(app, "session", {**CALM_PLACE, "order": "newest"})
    links = page.links("/event?")
    kept, cut = calm.events[2].id, calm.events[-1].id
    wanted = next(link for link in links if kept in link)
    await store.restore_session(**CALM, at=Point.after_event(calm.events[5].id))
    async with client_of(app) as client:
        found = await client.get(wanted)
        gone = await client.get(next(link for link in links if cut in link))

    assert (200, 404) == (found.status_code, gone.status_code)
    assert f"Event {kept}" in Read(found.text).text
    assert "a restore may have removed it" in gone.text


@pytest.mark.usefixtures("calm")
async def test_the_timeline_shows_turns_with_tokens(app: FastAPI) -> None:
    """A span for what the user said, for each model and each tool, with bars that lead to their events."""
    page = await seen(app, "timeline")
    links = page.links("/event?")

    assert "25 events" in page.text
    assert "This page has events 1 to 25." in page.text
    assert "2023-11-14 22:13:20Z , 3.00 s , 4 events, 100 in, 20 out tokens" in page.text
    assert "tool find_parcel 1.00 s 1.00 s" in page.text
    assert 25 == len(page.all("rect")) == len(links)
    assert re.search(
        "The events before are sealed, last written 20[0-9: -]{17}Z ; segment 1 begins.", page.text
    )
    assert re.search("All events before were stored by 20[0-9: -]{17}Z .", page.text)


async def test_the_timeline_shows_what_was_stored_between_the_versions_that_pages_saw(
    store: Store, calm: Session, app: FastAPI
) -> None:
    """One span for each, after its last event; a title adds none, and a restore begins anew."""
    stored_by = rf"store (\d+ events?) by {TIME}"
    await seen(app, "timeline")
    for author in ("user", "agent"):
        await store.sessions.append_event(calm, Event(author=author, invocation_id="e-6"))
    await seen(app, "timeline")
    await store.sessions.update_session_info(**CALM, title="Oslo")
    await seen(app, "timeline")
    await store.sessions.append_event(calm, Event(author="agent", invocation_id="e-6"))
    page = await seen(app, "timeline", {**CALM_PLACE, "newest": "1"})
    await store.restore_session(**CALM, at=Point.after_event(calm.events[26].id))
    restored = await seen(app, "timeline")

    assert ["2 events", "1 event"] == re.findall(stored_by, page.text)
    assert 1 == page.text.count("All events before were stored by")
    assert 28 + 2 == len(page.all("rect"))
    assert 2 == len(page.all("rect", lambda each: each["class"] == "store"))
    assert [] == re.findall(stored_by, restored.text)


async def test_the_timeline_says_what_a_fork_took_over(store: Store, calm: Session, app: FastAPI) -> None:
    """And counts what is stored after it from there on."""
    fork = await store.fork_session(**CALM, to_session_id="f", at=Point.after_event(calm.events[7].id))
    before = await seen(app, "timeline", {**CALM_PLACE, "session": "f"})
    await store.sessions.append_event(fork, Event(author="user", invocation_id="e-9"))
    after = await seen(app, "timeline", {**CALM_PLACE, "session": "f"})

    assert re.search(f"The fork stored the 8 events before, {TIME} .", before.text)
    assert "store 1 event by" not in before.text
    assert "store 1 event by" in after.text
    assert "All events before were stored by" not in after.text


async def test_a_timeline_follows_a_session(
    store: Store, calm: Session, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has each event as soon as it is stored, with a span of the store, and then waits again."""
    page = await seen(app, "timeline")
    (follow,) = page.links(part="follow=")
    async with client_of(app) as client:
        place = Read((await client.get(follow)).text).one("div", lambda each: "hx-get" in each)["hx-get"]
        asking = asyncio.create_task(client.get(place))
        await store.sessions.append_event(calm, Event(author="user", invocation_id="e-6"))
        news = Read((await asking).text)
        set_numbers(monkeypatch, inspector_news_s=0.01)
        again = news.one("div", lambda each: "hx-get" in each)["hx-get"]
        silent = Read((await client.get(again)).text)

    assert "store 1 event by" in news.text
    assert "Turn e-6" in news.text
    assert again != place
    assert again == silent.one("div", lambda each: "hx-get" in each)["hx-get"]
    assert "store 1 event by" in silent.text


async def test_a_conversation_that_is_followed_makes_no_model_slower(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first version that a page sees may be much later than the answer: it has its title since."""
    session = await store.sessions.create_session(**CALM)
    for author, timestamp in (("user", 1000.0), ("model", 1002.0)):
        await store.sessions.append_event(session, Event(author=author, timestamp=timestamp))
    set_numbers(monkeypatch, inspector_news_s=0.01)
    await seen(app, "news", CALM_PLACE)
    page = await seen(app, "timeline", CALM_PLACE)

    took = re.findall(r"(\d[\d,.]*) s", page.text)
    assert took == ["2.00", "0.00", "0.00", "0.00", "2.00"]


async def test_a_timeline_follows_a_session_without_events(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the first one, and knows that it is all that was stored."""
    session = await store.sessions.create_session(**CALM)
    page = await seen(app, "timeline", {**CALM_PLACE, "follow": "1"})
    place = page.one("div", lambda each: "hx-get" in each)["hx-get"]
    set_numbers(monkeypatch, inspector_waiting=0)
    async with client_of(app) as client:
        refused = await client.get(place)
        monkeypatch.undo()
        asking = asyncio.create_task(client.get(place))
        await store.sessions.append_event(session, Event(author="user", invocation_id="e-1"))
        news = Read((await asking).text)

    assert 503 == refused.status_code
    assert "The session has no events." in page.text
    assert "store 1 event by" in news.text
    assert "All events before were stored by" not in news.text


async def test_a_timeline_of_many_turns_has_pages(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event is on one, and so is each seal, also one between two pages."""
    set_numbers(monkeypatch, inspector_timeline_events=20)
    session = await store.sessions.create_session(**CALM)
    for number in range(43):
        event = Event(author="user", invocation_id=f"turn-{number}.", content=types.UserContent("x" * 100))
        await store.sessions.append_event(session, event)
    first = "/timeline?app=support&user=ada&session=s1"
    shown = [page async for page in followed(app, first, "first=", but="follow=")]
    documents = await seen(app, "vitals")
    turns = [word for page in shown for word in page.text.split() if word.startswith("turn-")]
    marks = [word for page in shown for word in page.text.split("segment ")[1:]]

    assert [f"turn-{number}." for number in range(43)] == turns
    assert "This page has events 41 to 43." in shown[-1].text
    assert "The first events" in shown[-1].text
    assert f"Segments {len(marks)};" in documents.text
    assert len(marks) > 2


async def test_a_search_shows_the_events_that_have_what_is_asked_for(
    store: Store, calm: Session, app: FastAPI
) -> None:
    """Texts without regard to case, arguments and results of tools and messages of errors too."""
    arguments = {"text": 'a "quoted"\nword'}
    call = types.Part(function_call=types.FunctionCall(name="note", args=arguments))
    await store.sessions.append_event(calm, Event(author="agent", content=types.ModelContent([call])))
    searches: list[tuple[dict[str, Any], int]] = [
        ({"q": 'A "Quoted"\nWord'}, 1),
        ({"q": "OSLO"}, 12),
        ({"q": "oslo", "author": "user"}, 0),
        ({"tool": "find_parcel"}, 12),
        ({"errors": 1}, 1),
        ({"q": "busy"}, 1),
        ({"q": "never said"}, 0),
    ]
    for asked, found in searches:
        page = await seen(app, "search", {**CALM_PLACE, **asked})

        assert f"{found} of 26 events {'has' if found == 1 else 'have'} it." in page.text, asked
        assert found == len(page.all("article")), asked


@pytest.mark.usefixtures("calm")
async def test_no_text_is_searched_under_the_mask(masked: FastAPI) -> None:
    """Whoever may not see a text may not ask for it either; a tool has a name that is never masked."""
    for page, at, found in (("search", CALM_PLACE, 12), ("find", {"app": "support"}, 2)):
        by_text = await seen(masked, page, {**at, "q": "oslo"})
        by_tool = await seen(masked, page, {**at, "tool": "find_parcel"})

        assert "Text is masked, so it is not searched." in by_text.text
        assert not by_text.all("article")
        assert found == len(by_tool.all("article"))


async def test_a_search_of_a_long_session_goes_on(
    store: Store, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 50 events that it shows, and after as many as it looks at; each is on one page."""
    set_numbers(monkeypatch, inspector_searched_events=(searched := 100))
    session = await store.sessions.create_session(**CALM)
    for number in range(searched + 60):
        author = "rare" if number in (searched - 1, searched, searched + 40) else "agent"
        await store.sessions.append_event(session, Event(id=f"e{number}", author=author))
    found = []
    for author in ("rare", "agent"):
        first = f"/search?app=support&user=ada&session=s1&author={author}"
        found += [len(page.all("article")) async for page in followed(app, first, "cursor=")]

    assert [1, 2] == found[:2]
    assert searched + 57 == sum(found[2:])
    assert 50 == max(found)


async def test_a_fork_stands_beside_its_source(calm: Session, store: Store, app: FastAPI) -> None:
    """What both have is counted; what each has alone is shown, also of another user who may be seen."""
    at = Point.after_event(calm.events[19].id)
    await store.sessions.fork_session(**CALM, at=at, to_session_id="fork", to_user_id="bob")
    fork = await store.sessions.get_session(app_name="support", user_id="bob", session_id="fork")
    assert fork is not None
    said = types.UserContent("Cancel it \ud800")  # a lone surrogate
    odd = Event(author="user", content=said, actions=EventActions(state_delta={"map": {"half \ud83d": 1}}))
    await store.sessions.append_event(fork, odd)
    page = await seen(app, "compare", {**CALM_PLACE, "other": "fork", "other_user": "bob"})
    of_fork = {"app": "support", "user": "bob", "session": "fork"}
    shown = await seen(app, "session", of_fork)
    alone = await seen(app, "event", {**of_fork, "event": odd.id})
    await store.sessions.create_session(app_name="support", user_id="", session_id="of nobody")
    of_nobody = await seen(app, "compare", {**CALM_PLACE, "other": "of nobody", "other_user": ""})
    guarded = create_app(store, authorize=lambda request, app, user: user != "bob")  # noqa: ARG005
    async with client_of(guarded) as client:
        refused = await client.get("/compare", params={**CALM_PLACE, "other": "fork", "other_user": "bob"})

    assert "20 events are the same" in page.text
    assert "/session?app=support&user=&session=of+nobody" in of_nobody.links()
    assert "Cancel it" in page.text
    assert "half \ufffd" in alone.text
    assert 6 == len(page.all("article"))
    assert "/compare?app=support&user=bob&session=fork&other=s1&other_user=ada" in shown.links()
    assert 403 == refused.status_code


@pytest.mark.usefixtures("calm")
async def test_a_session_that_is_missing_beside_another_is_named(app: FastAPI) -> None:
    """The page is below the name of the one that exists."""
    for ids, named in (
        ({**CALM_PLACE, "other": "nope"}, "'nope' of the user 'ada'"),
        ({**CALM_PLACE, "session": "nope", "other": "s1", "other_user": "bob"}, "'nope' of the user 'ada'"),
        ({**CALM_PLACE, "other": "s1", "other_user": "bob"}, "'s1' of the user 'bob'"),
    ):
        async with client_of(app) as client:
            page = await client.get("/compare", params=ids)

        assert (404, True) == (page.status_code, named in html.unescape(page.text)), page.text


async def test_vitals_show_the_lease_the_inbox_and_the_size(
    store: Store, calm: Session, app: FastAPI
) -> None:
    """Of a turn that runs, with a message that waits."""
    assert calm.id == "s1"
    async with store.turns.hold(**CALM):
        message = types.Content(role="user", parts=[types.Part(text="wait")])
        await store.turns.enqueue(**CALM, new_message=message, message_id="m1")
        page = await seen(app, "vitals")
    after = await seen(app, "vitals")

    assert "Lease held by" in page.text
    assert '"id": "m1"' in page.text
    assert "Fence 1" in after.text
    assert "Lease free" in after.text
    assert "Events 25" in after.text
    assert "Writes $0.000023 at list price" in after.text


@pytest.mark.usefixtures("calm")
async def test_documents_are_shown_as_they_are_stored(app: FastAPI) -> None:
    """The session, its segments, and the state of its user; no document of another path."""
    page = await seen(app, "raw")
    segments = page.links(part="document=")
    user, segment, *_ = [(await opened(app, each)).text for each in segments]
    other = await seen(app, "raw", {**CALM_PLACE, "document": "../x"}, status=404)

    assert '"rev": 25' in page.text
    assert '"name": "Ada"' in user
    assert '"body": { "bytes":' in segment
    assert "the session has no such document" in other.text


@pytest.mark.usefixtures("calm")
async def test_memories_are_listed_and_searched_with_scores(app: FastAPI) -> None:
    """The best first."""
    of_ada = {"app": "support", "user": "ada"}
    listed = await seen(app, "memories", of_ada)
    found = await seen(app, "memories", {**of_ada, "q": "parcel 3"})
    nothing = await seen(app, "memories", {**of_ada, "q": "zebra"})

    assert "Where is parcel 5?" in listed.text
    assert "score 0." in found.text
    assert found.text.index("Where is parcel 3?") < found.text.index("Where is parcel 4?")
    assert "The search found nothing." in nothing.text


@pytest.mark.usefixtures("calm")
async def test_artifacts_are_previewed(app: FastAPI) -> None:
    """Each kind in its own way, beside its versions, of which texts are compared line by line.

    Bytes are answered whole, with their length; shown in the page only if their kind runs nothing.
    """
    compared = await seen(app, "artifact", {**CALM_PLACE, "name": "notes.txt", "version": 1, "against": 0})
    assert "Compared with version 0 @@ -1,3 +1,4 @@ one - two + 2 three + four" in compared.text
    for name, element, says in (
        ("plot.png", "img", "image/png"),
        ("call.wav", "audio", "audio/"),
        ("letter.pdf", "iframe", "application/pdf"),
        ("rows.csv", "td", "Oslo 700000"),
        ("notes.txt", "pre", "one 2 three four"),
    ):
        page = await seen(app, "artifact", {**CALM_PLACE, "name": name})

        assert page.all(element), name
        assert says in page.text
        assert "Save the file" in page.text
    async with client_of(app) as client:
        answer = await client.get("/content", params={**CALM_PLACE, "name": "letter.pdf", "version": 0})

    assert PDF == answer.content
    assert f"{len(PDF)}" == answer.headers["content-length"]
    assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["content-disposition"].startswith("inline")


@pytest.mark.usefixtures("calm")
async def test_artifacts_are_listed_with_their_newest_versions(
    store: Store, app: FastAPI, masked: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a picture where content is shown and it is small; the rest is on the next page."""
    page, covered = await seen(app, "artifacts"), await seen(masked, "artifacts")
    set_numbers(monkeypatch, inspector_artifacts=3, inspector_thumbnail_bytes=10)
    first = await seen(app, "artifacts")
    (following,) = first.links(part="first=3")
    last = await opened(app, following)

    assert "notes.txt text/plain 17 2 " in page.text
    assert {"plot.png", "notes.txt", "rows.csv"} <= set(page.text.split())
    assert (1, 0, 0) == tuple(len(each.all("img")) for each in (page, covered, last))
    assert 5 == len(await store.artifacts.list_artifact_keys(**CALM))
    assert (3, 2) == tuple(len(each.all("tr")) - 1 for each in (first, last))


async def test_a_session_that_can_have_no_artifacts_shows_those_of_its_user(
    store: Store, app: FastAPI
) -> None:
    """ADK has ids for sessions that it has not for artifacts."""
    of: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "c:1"}
    await store.sessions.create_session(**of)
    await store.artifacts.save_artifact(**of, filename="user:photo", artifact=types.Part(text="of Ada"))
    page = await seen(app, "artifacts", {"app": "support", "user": "ada", "session": "c:1"})

    assert "user:photo" in page.text


@pytest.mark.usefixtures("calm")
async def test_a_version_before_those_that_are_listed_has_a_page(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old event leads to it."""
    set_numbers(monkeypatch, inspector_versions=1)
    page = await seen(app, "artifact", {**CALM_PLACE, "name": "notes.txt", "version": 0})

    assert "three" in page.text
    assert "1 older version" in page.text


async def test_an_artifact_that_a_restore_removed_keeps_its_page(
    calm: Session, store: Store, app: FastAPI
) -> None:
    """Its newest version says so, and the older ones are a link away."""
    artifact = types.Part.from_bytes(data=b"mine", mime_type="text/plain")
    await store.artifacts.save_artifact(**CALM, filename="late.txt", artifact=artifact)
    delta = EventActions(artifact_delta={"late.txt": 0})
    await store.sessions.append_event(calm, Event(author="agent", actions=delta))
    await store.restore_session(**CALM, at=Point.position(3))

    asked: tuple[dict[str, int], ...] = ({}, {"version": 1, "against": 0}, {"version": 0, "against": 1})
    for parameters in asked:
        page = await seen(app, "artifact", {**CALM_PLACE, "name": "late.txt", **parameters})

        assert "removed its bytes" in page.text, parameters
        assert 2 == len(page.all("tr")) - 1


@pytest.mark.usefixtures("calm")
async def test_what_is_not_there_is_reported(app: FastAPI) -> None:
    """By a page with the reason, and the status for programs."""
    for page, parameters, status in (
        ("session", {**CALM_PLACE, "session": "another"}, 404),
        ("event", {**CALM_PLACE, "event": "another"}, 404),
        ("change", {**CALM_PLACE, "event": "another", "key": "cart"}, 404),
        ("state", {**CALM_PLACE, "event": "another"}, 404),
        ("artifact", {**CALM_PLACE, "name": "another"}, 404),
        ("session", {**CALM_PLACE, "cursor": "wrong"}, 400),
        ("sessions", {"app": "support", "labels": "team"}, 400),
        ("sessions", {"app": "support", "labels": "team=x,team=y"}, 400),
        ("sessions", {"app": "support", "since": "soon"}, 400),
        ("session", {"app": "support"}, 400),
    ):
        shown = await seen(app, page, parameters, status=status)

        assert shown.text, (page, parameters)


@pytest.mark.emulators
async def test_a_place_that_is_no_unicode_text_is_refused(adk_store: Store) -> None:
    """Google's client would end with an error of its own."""
    app = create_app(adk_store, authorize=lambda request, app, user: True)  # noqa: ARG005
    after = encode_place_in("names below adk_apps/support", "\ud800")

    assert "lone surrogate" in (await seen(app, "users", {"app": "support", "after": after}, 400)).text


async def test_it_can_be_mounted_in_another_app(store: Store, calm: Session) -> None:
    """Links, styles and pictures stay below its path."""
    assert calm.id == "s1"
    outer = FastAPI()
    outer.mount("/in/spect", create_app(store, authorize=lambda request, app, user: True, reveal="always"))  # noqa: ARG005
    page = await seen(outer, "in/spect/session")
    addresses = [each.get("href") or each.get("src") or each.get("action") for _, each in page.elements]
    own = [address for address in addresses if address and not address.startswith("#")]
    async with client_of(outer) as client:
        picture = await client.get(page.all("img")[0]["src"])

    assert all(address.startswith("/in/spect/") for address in own)
    assert PNG == picture.content


@pytest.mark.emulators
@pytest.mark.parametrize(
    "encryption", [None, KmsEnvelope(key=LocalKeyWrapper(bytes(32)))], ids=["plain", "encrypted"]
)
async def test_the_timeline_knows_each_commit_that_firestore_still_knows(
    project: str, encryption: KmsEnvelope | None
) -> None:
    """Also of a process that saw none of them, with the number of events that each stored."""
    async with Store.connect(project=project, encryption=encryption) as store:
        app = create_app(store, authorize=lambda *asked: True)  # noqa: ARG005
        session = await store.sessions.create_session(**CALM)

        async def say(*texts: str) -> None:
            events = [Event(author="user", content=types.UserContent(text)) for text in texts]
            await asyncio.gather(*(store.sessions.append_event(session, event) for event in events))

        await say("one")
        await say("these", "share", "a commit")
        await store.sessions.update_session_info(**CALM, title="Oslo")
        page = await seen(app, "timeline")
        for number in range(20):
            await say(f"{number}")
        again = await seen(app, "timeline")
        anew = await seen(create_app(store, authorize=lambda *asked: True), "timeline")  # noqa: ARG005

    in_one = rf"store (\d+ events?) in one commit, {TIME}"
    assert ["1 event", "3 events"] == re.findall(in_one, page.text)
    assert 2 + 16 == len(re.findall(in_one, again.text))
    assert ["store 4 events by"] == re.findall(r"store \d+ events? by", again.text)
    assert 16 == len(re.findall(in_one, anew.text))
    assert "All events before were stored by" in anew.text
    assert "All events before were stored by" not in again.text
