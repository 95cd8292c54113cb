"""Titles, labels and summaries of sessions, in both stores."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    SessionInfo,
    SessionLimits,
    SessionService,
    Store,
)
from gcp_adk_store.model.appends import Summary
from gcp_adk_store.testing.conformance.running import read
from tests.support.stores import STORES

APP, USER = "app", "user"
WHO: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": "s"}
Connect = Callable[..., SessionService]


both = pytest.mark.parametrize("connect", STORES, indirect=True)
"""What the database has a part in; all else is shown in a folder."""


@pytest.fixture
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connect]:
    """Make services, as of several processes, over the one store of the test."""
    opened: list[Store] = []
    project = request.getfixturevalue("project") if getattr(request, "param", "") == "emulators" else None

    def open_service(**options: Any) -> SessionService:
        if project is not None:
            opened.append(Store.connect(project=project, **options))
        else:
            opened.append(Store.local(tmp_path / "store", **options))
        return opened[-1].sessions

    yield open_service
    for store in opened:
        await store.close()


def said(text: str, turn: str = "t", author: str = "user", **more: Any) -> Event:
    """Return an event that says *text* in a turn."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author=author, invocation_id=turn, content=content, **more)


async def info_of(service: SessionService, session_id: str = "s") -> SessionInfo:
    """Return what is listed of a session, by itself and in a page alike."""
    info = await service.get_session_info(app_name=APP, user_id=USER, session_id=session_id)
    page = await service.list_sessions_page(app_name=APP, user_id=USER)
    assert info in page.infos
    assert info is not None
    return info


@both
async def test_turns_and_the_last_message_are_those_of_the_events(connect: Connect) -> None:
    """After every append, of handles with and without markers, over seals, whatever an event holds."""
    limits = SessionLimits(seal_tail_bytes=600, event_text_bytes=1000, inline_bytes=10)
    service = connect(session_limits=limits)
    held = await service.create_session(**WHO)
    call = types.Part(function_call=types.FunctionCall(name="look", args={}))
    events = [
        said("hi", "t1"),
        said("hello " + "x" * 300, "t1", "agent"),
        said("y" * 2000, "t2"),  # a payload as a whole
        Event(author="agent", invocation_id="t2", content=types.Content(role="model", parts=[call])),
        Event(author="system", actions=EventActions(state_delta={"k": 1})),
        said("again", "t2"),
        said("half \ud800", "t3"),
        said(" ", "t1"),
        said("no turn", ""),
    ]
    for number, event in enumerate(events, start=1):
        if number % 3 == 0:
            held._storage_update_marker = None  # as a handle of another service
        await service.append_event(held, event)
        found = await read(connect(), WHO)
        info = await info_of(service)
        expected = Summary.of(found.events)

        assert (number, expected.turns.count) == (info.events, info.turns)
        assert (expected.last_text, held.last_update_time) == (info.last_text, info.last_update_time)
    assert (4, "no turn") == (expected.turns.count, expected.last_text)


@both
async def test_titles_and_labels_are_set_and_removed(connect: Connect) -> None:
    """What is not named stays; None removes a label, all labels, or the title."""
    service = connect()
    await service.create_session(**WHO)
    seen = []
    for change in (
        {"title": "A trip"},
        {"labels": {"team": "x", "Büro.1_a-b": ""}},
        {"labels": {"team": "y z = 1"}, "title": "Another trip 🚆"},
        {},
        {"labels": {"team": None, "never": None}},
        {"labels": {"a": "b"}, "title": None},
        {"labels": None},
        {"labels": None, "title": None},
    ):
        answer = await service.update_session_info(**WHO, **change)
        assert answer == await info_of(connect())
        seen.append((answer.title, dict(answer.labels)))

    assert [
        ("A trip", {}),
        ("A trip", {"team": "x", "Büro.1_a-b": ""}),
        ("Another trip 🚆", {"team": "y z = 1", "Büro.1_a-b": ""}),
        ("Another trip 🚆", {"team": "y z = 1", "Büro.1_a-b": ""}),
        ("Another trip 🚆", {"Büro.1_a-b": ""}),
        (None, {"Büro.1_a-b": "", "a": "b"}),
        (None, {}),
        (None, {}),
    ] == seen


async def test_a_description_is_no_event(connect: Connect) -> None:
    """ADK's view of the session stays equal, its time included, and a handle from before goes on."""
    service, other = connect(), connect()
    held = await service.create_session(**WHO, state={"k": 1})
    await service.append_event(held, said("hi", "t1"))
    before = await service.list_sessions(app_name=APP)
    await other.update_session_info(**WHO, title="t", labels={"a": "b"})

    # Without the marker, which holds the update time.
    assert held.model_dump() == (await read(other, WHO)).model_dump()
    assert before.model_dump() == (await other.list_sessions(app_name=APP)).model_dump()
    await service.append_event(held, said("more", "t2"))
    assert held == await other.get_session(**WHO)
    info = await info_of(other)
    assert ("t", {"a": "b"}) == (info.title, info.labels)
    assert (2, 2, "more") == (info.events, info.turns, info.last_text)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"title": "x" * 257}, "title has 257 characters, the limit is 256"),
    ({"title": ""}, "title is blank; pass None to remove the title"),
    ({"title": "a\nb"}, "title has a control character, a line break or .* at 1"),
    ({"title": "\ud800"}, "title has .* a lone surrogate at 0"),
    ({"title": 5}, "title must be a string or None, not int"),
    ({"labels": {"": "x"}}, "the name '' of 0 characters is not a label's: 1 to 63 letters"),
    ({"labels": {"x" * 64: "x"}}, "the name 'x+' of 64 characters"),
    ({"labels": {"a=b": "x"}}, "the name 'a=b' of 3 characters"),
    ({"labels": {"_a": "x"}}, "the name '_a' of 2 characters"),
    ({"labels": {5: "x"}}, "the name of a label must be a string, not int"),
    ({"labels": {"a": "x" * 64}}, r"labels\['a'\] has 64 characters, the limit is 63: shorten it"),
    ({"labels": {"a": 5}}, r"labels\['a'\] must be a string, not int"),
    ({"labels": {"a": "\t"}}, r"labels\['a'\] has a control character"),
    ({"labels": "a=b"}, "labels must be a mapping or None, not str"),
    ({"labels": {f"a{n}": "" for n in range(64)}}, "would have 65 labels, the limit is 64; remove some"),
    ({"labels": {f"a{n}": "" for n in range(129)}}, "labels has 129 labels"),
]


async def test_a_description_over_a_limit_is_refused(connect: Connect) -> None:
    """With field, size, limit and way out, before anything is written."""
    service = connect()
    await service.create_session(**WHO)
    before = await service.update_session_info(**WHO, title="t", labels={"kept": "x"})
    for change, message in REFUSED:
        with pytest.raises(InvalidInputError, match=message):
            await service.update_session_info(**WHO, **change)

    assert before == await info_of(service)


@both
async def test_the_largest_description_is_stored(connect: Connect) -> None:
    """Of the longest characters, exchanged as a whole, and read in the order of the names."""
    service = connect()
    await service.create_session(**WHO)
    for first in "𝒜𝒞":
        names = [f"{first * 61}{number:02}" for number in range(64)]
        labels: dict[str, str | None] = dict.fromkeys(reversed(names), "🚆" * 63)
        info = await service.update_session_info(
            **WHO, title="🚆" * 256, labels={**labels, **dict.fromkeys((await info_of(service)).labels)}
        )

        assert labels == info.labels
        assert names == list((await info_of(service)).labels), "the database keeps no order"
        page = await service.list_sessions_page(app_name=APP, labels={f"{first * 61}63": "🚆" * 63})
        assert [info] == page.infos


@pytest.fixture
async def shop(connect: Connect) -> SessionService:
    """A service with sessions of two users, of which labels name the teams and the parity."""
    service = connect()
    for number in range(8):
        who: dict[str, Any] = {"app_name": APP, "user_id": f"u{number % 2}", "session_id": f"s{number}"}
        held = await service.create_session(**who)
        await service.append_event(held, said(f"{number}", timestamp=float(number)))
        if number != 7:
            labels = {"team": "x" if number < 5 else "y", "three": str(number % 3)}
            await service.update_session_info(**who, labels=labels)
    return service


async def listed(service: SessionService, **request: Any) -> list[str]:
    """Return the ids on all pages."""
    found: list[str] = []
    cursor = None
    while True:
        page = await service.list_sessions_page(app_name=APP, cursor=cursor, **request)
        assert [one.id for one in page.sessions] == [one.session_id for one in page.infos]
        found += [one.session_id for one in page.infos]
        cursor = page.next_cursor
        if cursor is None:
            return found


FILTERED: list[tuple[dict[str, Any], list[int]]] = [
    ({"labels": {"team": "x"}}, [0, 1, 2, 3, 4]),
    ({"labels": {"team": "x"}, "user_id": "u0"}, [0, 2, 4]),
    ({"labels": {"team": "x", "three": "1"}}, [1, 4]),
    ({"labels": {"three": "1", "team": "x"}, "user_id": "u1"}, [1]),
    ({"labels": {"team": "z"}}, []),
    ({"labels": {}}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ({"updated_after": 4}, [5, 6, 7]),
    ({"updated_after": 3.5, "user_id": "u0"}, [4, 6]),
    ({"updated_after": 2, "labels": {"team": "x"}}, [3, 4]),
    ({"updated_after": 2, "labels": {"team": "x", "three": "1"}, "user_id": "u0"}, [4]),
]


@both
async def test_pages_hold_sessions_with_all_labels_that_were_updated_later(shop: SessionService) -> None:
    """Of a user or an app, in both orders, on pages of any size."""
    for request, expected in FILTERED:
        for order in ("newest", "oldest"):
            names = [f"s{number}" for number in (expected if order == "oldest" else expected[::-1])]

            assert [names] * 3 == [
                await listed(shop, **request, order=order, page_size=size, include_state=size == 2)
                for size in (1, 2, 50)
            ]


async def test_a_cursor_of_another_filter_is_refused(shop: SessionService) -> None:
    """It would skip sessions in silence; the order of labels is none."""
    request: dict[str, Any] = {"app_name": APP, "labels": {"team": "x", "three": "0"}, "page_size": 1}
    page = await shop.list_sessions_page(**request)
    change: dict[str, Any]
    for change in (
        {"labels": {"team": "y"}},
        {"labels": None},
        {"updated_after": 1.0},
        {"user_id": "u0"},
        {"user_id": ""},
        {"app_name": "another"},
        {"order": "oldest"},
    ):
        with pytest.raises(InvalidInputError, match="another app, user, order or filter"):
            await shop.list_sessions_page(**{**request, **change}, cursor=page.next_cursor)
    turned = {**request, "labels": {"three": "0", "team": "x"}}

    assert await shop.list_sessions_page(**turned, cursor=page.next_cursor) is not None
