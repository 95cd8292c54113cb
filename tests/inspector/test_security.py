"""Nothing that is stored runs in a page; nobody sees or changes more than they may."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from starlette.requests import Request
from starlette.routing import Route

import gcp_adk_store.inspector
from gcp_adk_store import InvalidInputError, Point, Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.testing.conformance.running import read
from tests.inspector.story import CALM, CALM_PLACE, EVIL, HOST, PLACE, XSS, Read, client_of

ROOM = Path(gcp_adk_store.inspector.__file__).parent
ORIGIN = {"Origin": f"http://{HOST}"}
EVENT = f"event1{EVIL}"
WRITING = ("/fork", "/restore", "/redact", "/erase")
OF_EVENT = {**PLACE, "event": EVENT}
HOSTILE_PAGES: list[tuple[str, Mapping[str, Any]]] = [  # of each page, one that is found is the first
    ("", {}),
    ("users", {"app": PLACE["app"]}),
    ("usage", {"app": PLACE["app"]}),
    ("usage", {"app": PLACE["app"], "user": PLACE["user"], "cursor": EVIL}),
    ("find", {"app": PLACE["app"], "q": "onload", "tool": f"tool{EVIL}"}),
    (
        "find",
        {"app": PLACE["app"], "user": PLACE["user"], "labels": f"x={XSS[2]}", "author": f"author{EVIL}"},
    ),
    ("find", {"app": PLACE["app"], "labels": EVIL}),
    ("sessions", {"app": PLACE["app"], "user": PLACE["user"], "since": "2020-01-01"}),
    ("sessions", {"app": PLACE["app"], "labels": f"x={XSS[2]}"}),
    ("memories", {"app": PLACE["app"], "user": PLACE["user"]}),
    ("memories", {"app": PLACE["app"], "user": PLACE["user"], "q": f"remember {EVIL}"}),
    ("session", PLACE),
    ("session", {**PLACE, "order": "newest"}),
    ("events", PLACE),
    ("event", OF_EVENT),
    ("timeline", PLACE),
    ("search", {**PLACE, "q": "onload", "tool": f"tool{EVIL}"}),
    ("search", {**PLACE, "q": EVIL, "author": EVIL}),
    ("compare", {**PLACE, "other": PLACE["session"], "order": "oldest"}),
    ("compare", {**PLACE, "other": EVIL, "other_user": EVIL}),
    ("matrix", PLACE),
    ("change", {**OF_EVENT, "key": f"state{EVIL}"}),
    ("change", {**PLACE, "key": f"state{EVIL}", "back": EVIL}),
    ("state", OF_EVENT),
    ("state", PLACE),
    ("state", {**OF_EVENT, "near": EVIL, "number": EVIL}),
    ("difference", PLACE),
    ("difference", {**PLACE, "from": 1, "to": EVENT}),
    ("difference", {**PLACE, "from": EVIL, "from_place": EVIL}),
    ("vitals", PLACE),
    ("raw", PLACE),
    ("raw", {**PLACE, "document": "user"}),
    ("raw", {**PLACE, "document": EVIL}),
    ("session", {**PLACE, "cursor": EVIL}),
    ("session", {**PLACE, "session": EVIL * 3}),
    ("fork", OF_EVENT),
    ("restore", OF_EVENT),
    ("redact", OF_EVENT),
    ("erase", {"app": PLACE["app"], "user": PLACE["user"]}),
    ("artifacts", CALM_PLACE),
    *(
        ("artifact", {**CALM_PLACE, "name": name})
        for name in ("evil.svg", "evil.html", "evil.png", "evil.csv", "<script>window.hacked=1<script>.txt")
    ),
]
OWN_TAGS = {"a", "article", "audio", "bdi", "body", "button", "circle", "code", "dd", "details", "div", "dl"}
OWN_TAGS |= {"dt", "figcaption", "figure", "footer", "form", "h1", "h2", "head", "header", "html", "iframe"}
OWN_TAGS |= {"img", "input", "label", "li", "line", "link", "main", "meta", "nav", "ol", "option", "p", "pre"}
OWN_TAGS |= {"rect", "script", "select", "span", "strong", "summary", "svg", "table", "tbody", "td", "th"}
OWN_TAGS |= {"thead", "time", "title", "tr", "ul"}


def allow(request: Request, app: str | None, user: str | None) -> bool:
    """Let everybody see everything."""
    del request, app, user
    return True


@pytest.fixture
def writing(store: Store) -> FastAPI:
    """An inspector that shows content and lets readers write."""
    return create_app(store, authorize=allow, reveal="always", allow_writes=True)


@pytest.mark.usefixtures("hostile")
async def test_no_page_has_an_element_or_an_attribute_of_what_is_stored(writing: FastAPI) -> None:
    """Whatever the field: a browser makes text of it, as it is, and links that stay here."""
    for path, parameters in HOSTILE_PAGES:
        async with client_of(writing) as client:
            answer = await client.get(f"/{path}", params=dict(parameters))
        page = Read(answer.text)
        where = f"{path} {list(parameters)[3:]}"
        scripts = [each["src"] for each in page.all("script")]
        headings = [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        attributes = [(name, value) for _, given in page.elements for name, value in given.items()]
        addresses = [value for name, value in attributes if name in ("href", "src", "action", "hx-get")]

        assert answer.status_code in (200, 400, 404), where
        assert {tag for tag, _ in page.elements} <= OWN_TAGS, where
        assert path == "events" or ["h1", *["h2"] * (len(headings) - 1)] == headings, where
        assert scripts in ([], ["/static/htmx.min.js", "/static/keys.js"]), where
        assert set() == {
            name for name, _ in attributes if name.startswith("on") or name in ("style", "srcdoc")
        }
        assert all(address.startswith(("/", "#")) and address[:2] != "//" for address in addresses), where
        assert {each.get("http-equiv") for each in page.all("meta")} <= {None}, where
        assert "\x00" not in answer.text, where
        if (path, parameters) == ("session", PLACE):  # readers see what a stranger wrote
            assert [] == [each for each in XSS[:-1] if " ".join(each.split()) not in page.text]


@pytest.mark.usefixtures("hostile")
async def test_html_and_svg_are_saved_and_never_shown(writing: FastAPI) -> None:
    """Whatever type they claim; even a browser that opens the address runs nothing."""
    for name in ("evil.svg", "evil.html", "evil.png"):
        async with client_of(writing) as client:
            answer = await client.get("/content", params={**CALM_PLACE, "name": name, "version": 0})
            page = Read((await client.get("/artifact", params={**CALM_PLACE, "name": name})).text)

        assert "application/octet-stream" == answer.headers["content-type"], name
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "default-src 'none'; sandbox" == answer.headers["content-security-policy"]
        assert [] == page.all("img") + page.all("iframe"), name

    # The picture of the hostile event is SVG, and its other part HTML.
    async with client_of(writing) as client:
        page = Read((await client.get("/event", params=OF_EVENT)).text)
        links = page.links("/part?")
        answers = [await client.get(link) for link in links]

    assert [] == page.all("img")
    assert [200, 200] == [each.status_code for each in answers]
    assert {"application/octet-stream"} == {each.headers["content-type"] for each in answers}
    assert all("\n" not in each.headers["content-disposition"] for each in answers)


@pytest.mark.usefixtures("hostile", "calm")
async def test_masked_content_does_not_leave_the_server(masked: FastAPI) -> None:
    """No page and no address has any text, argument, value, memory or byte of it."""
    secrets = (
        "Where is",
        "Oslo",
        "parcel?",
        "The model is busy",
        "It may be",
        "window.hacked=1<script>.txt\n",
    )
    of_ada = {"app": "support", "user": "ada"}
    pages: list[tuple[str, Mapping[str, Any]]] = [
        ("sessions", of_ada),
        ("session", CALM_PLACE),
        ("timeline", CALM_PLACE),
        ("search", {**CALM_PLACE, "q": "It is in"}),
        ("search", {**CALM_PLACE, "errors": 1}),
        ("compare", {**CALM_PLACE, "other": "s1"}),
        ("compare", {**CALM_PLACE, "other": "no such"}),
        ("", {}),
        ("usage", of_ada),
        ("find", {**of_ada, "tool": "find_parcel"}),
        ("find", {**of_ada, "q": "It is in"}),
        ("difference", CALM_PLACE),
        ("difference", {**CALM_PLACE, "from": 2, "to": 9}),
        ("matrix", CALM_PLACE),
        ("state", CALM_PLACE),
        ("vitals", CALM_PLACE),
        ("raw", CALM_PLACE),
        ("raw", {**CALM_PLACE, "document": "user"}),
        ("memories", of_ada),
        ("memories", {**of_ada, "q": "parcel"}),
        ("artifact", {**CALM_PLACE, "name": "notes.txt", "against": 0}),
        ("artifact", {**CALM_PLACE, "name": "rows.csv"}),
        ("content", {**CALM_PLACE, "name": "rows.csv"}),
    ]
    async with client_of(masked) as client:
        conversation = Read((await client.get("/session", params=CALM_PLACE)).text)
        event = conversation.links("/event?")[0]
        change = conversation.links("/change?")[0]
        answers = [await client.get(f"/{path}", params=dict(given)) for path, given in pages]
        answers += [await client.get(event), await client.get(change)]
        part = await client.get(event.replace("/event?", "/part?") + "&index=0")

    for answer in answers:
        assert [] == [secret for secret in secrets if secret in answer.text], answer.request.url.path
    assert "masked, 18 characters" in conversation.text
    assert (403, 403) == (answers[-3].status_code, part.status_code)


async def test_names_that_people_gave_are_content(store: Store, calm: Session) -> None:
    """Who a memory is of, and how a user called a file: masked pages have neither."""
    parts = [
        types.Part(inline_data=types.Blob(mime_type="text/plain", data=b"x", display_name="diagnosis.pdf")),
        types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="a/b", display_name="will.doc")),
    ]
    await store.sessions.append_event(calm, Event(author="user", content=types.Content(parts=parts)))
    entry = MemoryEntry(author="Grandma Ada", content=types.Content(parts=[types.Part(text="pie")]))
    await store.memory.add_memory(app_name="support", user_id="ada", memories=[entry])
    names = ("Grandma", "diagnosis", "will.doc")
    pages: list[tuple[str, Mapping[str, Any]]] = [
        ("session", {**CALM_PLACE, "order": "newest"}),
        ("memories", {"app": "support", "user": "ada"}),
        ("memories", {"app": "support", "user": "ada", "q": "pie"}),
    ]
    found = {}
    for reveal in ("never", "always"):
        async with client_of(create_app(store, authorize=allow, reveal=reveal)) as client:
            answers = [await client.get(f"/{path}", params=dict(given)) for path, given in pages]
        text = " ".join(answer.text for answer in answers)
        found[reveal] = [name for name in names if name in text]

    assert {"never": [], "always": [*names]} == found


@pytest.mark.usefixtures("calm")
async def test_a_reader_reveals_content_where_that_is_allowed(store: Store, masked: FastAPI) -> None:
    """By the button, and masks it again; an app that never reveals has no button, and knows no cookie."""
    never = create_app(store, authorize=allow, reveal="never")
    async with client_of(masked) as client:
        first = Read((await client.get("/session", params=CALM_PLACE)).text)
        form = {each["name"]: each["value"] for each in first.all("input")}
        answer = await client.post("/reveal", data={**form, "to": "show"}, headers=ORIGIN)
        shown = await client.get(answer.headers["location"])
        cookies = dict(client.cookies)
        await client.post("/reveal", data={**form, "to": "mask"}, headers=ORIGIN)
        again = await client.get("/session", params=CALM_PLACE)
    async with client_of(never) as client:
        client.cookies.update(cookies)
        hidden = await client.get("/session", params=CALM_PLACE)
        refused = await client.post("/reveal", data={**form, "to": "show"}, headers=ORIGIN)

    assert 303 == answer.status_code
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert "Where is parcel 0?" in shown.text
    assert "Where is parcel 0?" not in again.text + hidden.text
    assert "Show content" not in hidden.text
    assert 403 == refused.status_code


async def test_no_form_leads_a_browser_away(masked: FastAPI) -> None:
    """Whatever address it names."""
    addresses = ("https://evil.example/", "//evil.example", "/\\evil.example", "/a\n/b", "")
    async with client_of(masked) as client:
        await client.get("/")
        form = {"csrf": client.cookies["adk_inspector_csrf"], "to": "show"}
        answers = [
            await client.post("/reveal", data={**form, "back": back}, headers=ORIGIN) for back in addresses
        ]

    assert [(303, "/")] * len(addresses) == [(each.status_code, each.headers["location"]) for each in answers]


async def test_a_reader_of_a_page_with_a_long_address_comes_back_to_it(masked: FastAPI) -> None:
    """As of ids that are not ASCII, each byte of which takes three characters."""
    async with client_of(masked) as client:
        page = Read((await client.get("/sessions", params={"app": "a", "user": "\u3042" * 500})).text)
        form = {each["name"]: each["value"] for each in page.all("input") if each.get("type") == "hidden"}
        answer = await client.post("/reveal", data={**form, "to": "show"}, headers=ORIGIN)

    assert (303, form["back"]) == (answer.status_code, answer.headers["location"])


async def test_every_route_asks_whether_it_may_answer(store: Store, hostile: Session) -> None:
    """With the app and the user of its address; one that is refused shows nothing of the store."""
    assert hostile.id
    asked: list[tuple[str | None, str | None]] = []

    async def refuse(request: Request, app: str | None, user: str | None) -> bool:
        assert request.url.path
        asked.append((app, user))
        return False

    app = create_app(store, authorize=refuse, reveal="always", allow_writes=True)
    routes = [route for route in app.routes if isinstance(route, Route)]
    answers = []
    async with client_of(app) as client:
        for route in routes:
            if route.path == "/static/{name}":
                continue
            for method in sorted((route.methods or set()) - {"HEAD"}):
                given = {"params": PLACE} if method == "GET" else {"data": PLACE}
                answers.append(await client.request(method, route.path, headers=ORIGIN, **given))  # type: ignore[arg-type]  # one of both
        nothing = await client.get("/users")

    forms = [route for route in routes if {"GET", "POST"} <= (route.methods or set())]
    assert 4 == len(forms)
    assert len(app.routes) == len(routes) == len(answers) + 1 - len(forms)
    assert {(403, "You may not see this.")} == {(each.status_code, each.text) for each in answers}
    assert [(PLACE["app"], PLACE["user"])] * len(answers) == asked[:-1]
    assert (403, (None, None)) == (nothing.status_code, asked[-1])


@pytest.mark.usefixtures("calm")
async def test_who_may_see_one_user_sees_no_other(store: Store) -> None:
    """Nor the pages of all users, and forks into no other user's sessions."""

    def only_ada(request: Request, app: str | None, user: str | None) -> bool:
        del request
        return (app, user) == ("support", "ada")

    app = create_app(store, authorize=only_ada, reveal="always", allow_writes=True)
    async with client_of(app) as client:
        own = await client.get("/sessions", params={"app": "support", "user": "ada"})
        refused = [
            await client.get("/"),
            await client.get("/users", params={"app": "support"}),
            await client.get("/sessions", params={"app": "support"}),
            await client.get("/sessions", params={"app": "support", "user": "bob"}),
        ]
        form = {
            **CALM_PLACE,
            "csrf": client.cookies["adk_inspector_csrf"],
            "to_user": "bob",
            "confirmed": "yes",
        }
        fork = await client.post("/fork", data=form, headers=ORIGIN)

    assert 200 == own.status_code
    assert {403} == {each.status_code for each in (*refused, fork)}
    assert [] == (await store.sessions.list_sessions(app_name="support", user_id="bob")).sessions


@pytest.mark.usefixtures("calm")
async def test_the_first_page_names_an_app_that_is_refused_and_says_no_more_of_it(store: Store) -> None:
    """No user, session, number or link of it, while those of another app are there."""
    for user in ("ada", "bob"):
        session = await store.sessions.create_session(
            app_name="secret", user_id=f"{user}-of-secret", session_id=f"case-{user}"
        )
        await store.sessions.append_event(session, Event(author="user", invocation_id="i", timestamp=0.0))

    def not_secret(request: Request, app: str | None, user: str | None) -> bool:
        del request, user
        return app != "secret"

    app = create_app(store, authorize=not_secret, reveal="always")
    async with client_of(app) as client:
        page = Read((await client.get("/")).text)
        refused = await client.get("/usage", params={"app": "secret"})
    links = page.links()

    assert 403 == refused.status_code
    assert "secret You may not see this app." in page.text
    assert not [word for word in ("of-secret", "case-", "1970-01-01") if word in page.text]
    assert not [link for link in links if "secret" in link]
    assert "2023-11-14 1 6 25" in page.text


async def test_this_machine_is_served_and_other_hosts_are_refused(masked: FastAPI) -> None:
    """By each of its names, at any port; not a page of another site whose name was made to lead to it."""
    others = ("evil.example", "127.0.0.1.evil.example", "evil.example:8780", "localhost.", "")
    wanted = dict.fromkeys(others, 421)
    wanted |= dict.fromkeys(("127.0.0.1", "localhost:8780", "LOCALHOST", "[::1]:99", "[::1]"), 200)
    async with client_of(masked) as client:
        found = {host: (await client.get("/", headers={"Host": host})).status_code for host in wanted}

    assert wanted == found


async def test_every_answer_has_the_headers(masked: FastAPI) -> None:
    """Pages, errors, refusals and static files; none lets a script or a style stand in a page."""
    async with client_of(masked) as client:
        answers = [
            await client.get("/"),
            await client.get("/users"),
            await client.get("/nowhere"),
            await client.get("/static/inspector.css"),
            await client.get("/static/../app.py"),
            await client.get("/", headers={"Host": "evil.example"}),
        ]

    assert [200, 400, 404, 200, 404, 421] == [each.status_code for each in answers]
    (policy,) = {answer.headers["content-security-policy"] for answer in answers}
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    assert {"nosniff"} == {answer.headers["x-content-type-options"] for answer in answers}


def test_templates_trust_nothing() -> None:
    """No filter says that a text is safe, and none has a script, a style or an event handler of its own."""
    for template in (ROOM / "templates").iterdir():
        text = template.read_text()
        assert not re.search(r"\|\s*safe|autoescape|Markup|<style|\sstyle=|\son\w+=|hx-on", text), template
        assert not re.search(r"<script(?! src)", text), template


async def test_forms_of_other_sites_change_nothing(store: Store, calm: Session, writing: FastAPI) -> None:
    """Without the token, with another origin, or without the cookie."""
    async with client_of(writing) as client:
        await client.get("/")
        form = {**CALM_PLACE, "csrf": client.cookies["adk_inspector_csrf"], "event": calm.events[0].id}
        form["confirmed"] = "yes"
        origins = ("http://evil.example", "null", "", "http://127.0.0.1:9999", "http://[")
        asked = [(form | {"csrf": token}, ORIGIN) for token in ("x" * 43, "")]
        asked += [(form, {"Origin": origin}) for origin in origins]
        answers = [
            await client.post(path, data=data, headers=headers) for data, headers in asked for path in WRITING
        ]
        client.cookies.clear()
        answers += [await client.post(path, data=form, headers=ORIGIN) for path in WRITING]

    assert [403] * 8 * len(WRITING) == [each.status_code for each in answers]
    assert 1 == len((await store.sessions.list_sessions(app_name="support")).sessions)
    found = await read(store.sessions, CALM)
    assert len(calm.events) == len(found.events)


async def test_a_form_has_a_bound(masked: FastAPI) -> None:
    """It is refused before it is read, and so is one that hides its size."""

    async def endless() -> AsyncIterator[bytes]:
        yield b"to=show"

    plain = {**ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}
    async with client_of(masked) as client:
        large = await client.post("/reveal", content=b"a" * 70_000, headers=plain)
        hidden = await client.post("/reveal", content=endless(), headers=plain)

    assert [413, 413] == [large.status_code, hidden.status_code]


async def test_a_fork_is_confirmed_first(store: Store, calm: Session, writing: FastAPI) -> None:
    """The first form says what it would have, and writes nothing."""
    at = calm.events[3].id
    async with client_of(writing) as client:
        asked = Read((await client.get("/fork", params={**CALM_PLACE, "event": at})).text)
        form = {each["name"]: each["value"] for each in asked.all("input") if "value" in each}
        planned = Read((await client.post("/fork", data={**form, "to_session": "copy"}, headers=ORIGIN)).text)
        before = len((await store.sessions.list_sessions(app_name="support")).sessions)
        form = {each["name"]: each["value"] for each in planned.all("input")}
        done = await client.post("/fork", data={**form, "confirmed": "yes"}, headers=ORIGIN)
    copy = await store.sessions.get_session(app_name="support", user_id="ada", session_id="copy")

    assert "would have 4 events. Nothing is written yet. State keys that differ: cart seen" in planned.text
    assert 1 == before
    assert (303, "/session?app=support&user=ada&session=copy") == (done.status_code, done.headers["location"])
    assert copy is not None
    assert [each.id for each in calm.events[:4]] == [each.id for each in copy.events]


@pytest.mark.parametrize("archived", [0, 8])
async def test_a_restore_is_confirmed_first(
    store: Store, calm: Session, writing: FastAPI, archived: int
) -> None:
    """And keeps what it cuts off in a fork, if one is named; archived events are counted."""
    await store.sessions.archive_session(**CALM, before=Point.position(archived))
    at = calm.events[3].id
    form = {**CALM_PLACE, "event": at, "keep_as": "kept"}
    async with client_of(writing) as client:
        asked = await client.get("/restore", params=CALM_PLACE)
        form["csrf"] = client.cookies["adk_inspector_csrf"]
        planned = Read((await client.post("/restore", data=form, headers=ORIGIN)).text)
        between = await read(store.sessions, CALM)
        done = await client.post("/restore", data={**form, "confirmed": "yes"}, headers=ORIGIN)
        again = await client.post("/restore", data={**form, "confirmed": "yes"}, headers=ORIGIN)
    after = await read(store.sessions, CALM)
    kept = await store.sessions.get_session(app_name="support", user_id="ada", session_id="kept")

    assert "To the event" in asked.text
    assert (
        "keep 4 events and cut off 21; the fork kept would keep them. Nothing is written yet." in planned.text
    )
    assert kept is not None
    assert [25 - archived, 4, 25] == [len(each.events) for each in (between, after, kept)]
    assert (303, 409) == (done.status_code, again.status_code)


async def test_a_restore_names_a_key_whose_value_changes_its_type(
    store: Store, calm: Session, writing: FastAPI
) -> None:
    """Also from True to 1, which are equal in Python."""
    for id_, flag in (("before", 1), ("after", True)):
        change = EventActions(state_delta={"flag": flag})
        await store.sessions.append_event(calm, Event(id=id_, author="user", actions=change))
    async with client_of(writing) as client:
        await client.get("/restore", params=CALM_PLACE)
        form = {**CALM_PLACE, "event": "before", "csrf": client.cookies["adk_inspector_csrf"]}
        planned = Read((await client.post("/restore", data=form, headers=ORIGIN)).text)

    assert "State keys that differ: flag" in planned.text


async def test_a_redaction_is_confirmed_first(store: Store, calm: Session, writing: FastAPI) -> None:
    """The first form shows what goes; the second answer shows what went."""
    form = {**CALM_PLACE, "event": calm.events[3].id}
    async with client_of(writing) as client:
        asked = await client.get("/redact", params=form)
        form |= {"csrf": client.cookies["adk_inspector_csrf"], "reason": "ticket <7>"}
        planned = Read((await client.post("/redact", data=form, headers=ORIGIN)).text)
        between = await read(store.sessions, CALM)
        done = Read((await client.post("/redact", data={**form, "confirmed": "yes"}, headers=ORIGIN)).text)
        missing = await client.post("/redact", data={**form, "event": "nothing"}, headers=ORIGIN)
    after = await read(store.sessions, CALM)

    assert "replaces the content of an event" in asked.text
    assert "Nothing is removed yet." in planned.text
    assert [25, 26] == [len(each.events) for each in (between, after)]
    assert "The event is redacted" in done.text
    assert "[this event was redacted]" == (after.events[3].content.parts or [])[0].text  # type: ignore[union-attr]
    assert 404 == missing.status_code


@pytest.mark.usefixtures("calm")
async def test_an_erasure_is_confirmed_first(store: Store, writing: FastAPI) -> None:
    """The first form counts; the second answer is the receipt."""
    form = {"app": "support", "user": "ada"}
    async with client_of(writing) as client:
        asked = await client.get("/erase", params=form)
        form["csrf"] = client.cookies["adk_inspector_csrf"]
        planned = Read((await client.post("/erase", data=form, headers=ORIGIN)).text)
        await read(store.sessions, CALM)
        done = Read((await client.post("/erase", data={**form, "confirmed": "yes"}, headers=ORIGIN)).text)

    assert "removes all sessions" in asked.text
    assert "Nothing is removed yet." in planned.text
    assert "sessions 1" in planned.text
    assert "The user is erased." in done.text
    assert await store.sessions.get_session(**CALM) is None


async def test_no_page_writes_unless_that_is_allowed(masked: FastAPI, calm: Session) -> None:
    """There are no such routes, and no links to them."""
    async with client_of(masked) as client:
        page = await client.get("/session", params=CALM_PLACE)
        event = await client.get("/event", params={**CALM_PLACE, "event": calm.events[0].id})
        answers = [await client.post(path, data=CALM_PLACE, headers=ORIGIN) for path in WRITING]

    assert "/fork" not in page.text + event.text
    assert "Reads only" in page.text
    assert [404] * len(WRITING) == [each.status_code for each in answers]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"authorize": None}, "authorize must be a function, not NoneType"),
        ({"hosts": "admin.example.com"}, "hosts is a text, it must be a list of hosts"),
        ({"hosts": [None]}, "hosts has a NoneType, it must be a list of hosts"),
        ({"reveal": "Always"}, "reveal is 'Always', it must be 'asked', 'always' or 'never'"),
        ({"allow_writes": "no"}, "allow_writes must be True or False, not str"),
    ],
)
def test_arguments_of_another_kind_are_refused(store: Store, given: dict[str, Any], says: str) -> None:
    """When the app is made, not at the first request."""
    with pytest.raises(InvalidInputError, match=says):
        create_app(store, **{"authorize": allow, **given})
    with pytest.raises(TypeError, match="authorize"):
        create_app(store)  # type: ignore[call-arg]  # as a caller may forget it
