"""A damaged session never takes others with it: listings name it, and go on."""

import logging
import math
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from gcp_adk_store import SessionPage, Store, StoredDataError
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.testing.conformance.running import event
from tests.support.stored import change, fields_of, session_path

APP = "app"
DAMAGE: dict[str, dict[str, Any]] = {
    "create_time NaN": {"create_time": math.nan},
    "create_time a text": {"create_time": "yesterday"},
    "a title that is a number": {"title": 7},
    "a label that is a number": {"labels": {"a": 1}},
    "state a text": {"state": "k"},
    "rev a text": {"rev": "1"},
    "a newer format": {"format": 9},
    "another session's id": {"id": "s9"},
    "last update NaN": {"last_update_time": math.nan},
    "last update infinite": {"last_update_time": math.inf},
    "last update a text": {"last_update_time": "now"},
    "last update a map": {"last_update_time": {"a": 1}},
    "last update a time": {"last_update_time": datetime(2026, 1, 1, tzinfo=UTC)},
    "last update true": {"last_update_time": True},
    "last update nothing": {"last_update_time": None},
}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in memory with sessions of two users, each of which has one event."""
    async with Store.local(":memory:") as store:
        for user in ("ada", "bob"):
            for number in range(4):
                session = await store.sessions.create_session(
                    app_name=APP, user_id=user, session_id=f"s{number}", state={"user:k": "v" * 70_000}
                )
                await store.sessions.append_event(session, event(f"of {user}", at=1_000.0 + number))
        yield store


def path_of(user: str, session: str) -> str:
    """Return the path of a session."""
    return session_path({"app_name": APP, "user_id": user, "session_id": session})


async def pages_of(store: Store, size: int, **given: Any) -> list[SessionPage]:
    """Return all pages of a listing."""
    found: list[SessionPage] = []
    cursor = None
    while True:
        page = await store.sessions.list_sessions_page(app_name=APP, page_size=size, cursor=cursor, **given)
        found.append(page)
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", sorted(DAMAGE))
@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("user", ["ada", None])
async def test_pages_have_the_others_once_and_name_the_damaged_ones(
    store: Store, user: str | None, order: str, kind: str
) -> None:
    """In pages of any size, with the command that looks at them."""
    for name in ("s1", "s2"):
        await change(store, path_of("ada", name), DAMAGE[kind])
    wanted = {("ada", "s0"), ("ada", "s3")}
    if user is None:
        wanted |= {("bob", f"s{number}") for number in range(4)}
    for size in (1, 2, 3, 50):
        pages = await pages_of(store, size, user_id=user, order=order)
        listed = [(each.user_id, each.session_id) for page in pages for each in page.infos]
        unreadable = [each for page in pages for each in page.unreadable]

        assert wanted == {*listed}
        assert len(wanted) == len(listed)
        assert [("ada", "s1"), ("ada", "s2")] == sorted(
            (str(each.user_id), str(each.session_id)) for each in unreadable
        )
        assert {each.path for each in unreadable} == {
            path_of("ada", "s1"),
            path_of("ada", "s2"),
        }
        assert all(each.path in each.reason for each in unreadable)
        assert {
            "gcp-adk-store fsck --app app --user ada --session s1",
            "gcp-adk-store fsck --app app --user ada --session s2",
        } == {each.command for each in unreadable}


async def test_ids_of_a_damaged_session_steer_no_terminal_and_no_shell(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A user may have chosen them: the log is one line, and its command has the ids as bash reads them."""
    hostile = "a'; touch x\u2028\x9b2J\n$(y)\u202e"
    who: dict[str, Any] = {"app_name": APP, "user_id": hostile, "session_id": hostile}
    await store.sessions.create_session(**who)
    await store.sessions.create_session(**{**who, "session_id": "fine"})
    key = SessionKey(app=APP, user=hostile, session=hostile)
    await change(store, store.sessions.storage.layout.session(key), {"rev": "1"})
    await store.sessions.list_sessions(app_name=APP, user_id=hostile)
    (command,) = [each.command for each in (await pages_of(store, 5, user_id=hostile))[0].unreadable]
    (said,) = [each for each in caplog.messages if "cannot be read" in each]

    assert command in said
    assert (command + said).isprintable()
    script = command.replace("gcp-adk-store fsck", "printf '%s\\0'")
    run = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})  # noqa: S607, ASYNC221
    assert ["--app", APP, "--user", hostile, "--session", hostile, ""] == run.stdout.decode().split("\0")


async def test_adks_list_leaves_a_damaged_session_out_and_the_log_names_it(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """ADK's answer has no place for it."""
    path = path_of("ada", "s1")
    await change(store, path, {"rev": "secret"})
    with caplog.at_level(logging.WARNING):
        of_user = await store.sessions.list_sessions(app_name=APP, user_id="ada")
        of_app = await store.sessions.list_sessions(app_name=APP)

    assert ["s0", "s2", "s3"] == [one.id for one in of_user.sessions]
    assert 7 == len(of_app.sessions)
    warnings = [record.getMessage() for record in caplog.records]
    assert 2 == len(warnings)
    assert all(path in each and "fsck --app app --user ada --session s1" in each for each in warnings)
    assert not any("secret" in each for each in warnings)


async def test_many_damaged_sessions_are_one_bounded_warning(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Which counts those that it does not name."""
    for number in range(30):
        await store.sessions.create_session(app_name=APP, user_id="eve", session_id=f"x{number}")
        await change(store, path_of("eve", f"x{number}"), {"rev": "1"})
    with caplog.at_level(logging.WARNING):
        await store.sessions.list_sessions(app_name=APP)
    (said,) = [record.getMessage() for record in caplog.records]

    assert said.startswith("30 sessions cannot be read")
    assert said.endswith("; and 20 more")


async def test_where_no_session_can_be_read_adks_list_is_an_error(store: Store) -> None:
    """An empty answer would say that there are none, such as to a store that lacks the keys."""
    for number in range(4):
        await change(store, path_of("ada", f"s{number}"), {"rev": "1"})

    with pytest.raises(StoredDataError, match="s0 has a field of a wrong kind: rev is str"):
        await store.sessions.list_sessions(app_name=APP, user_id="ada")
    assert 4 == len((await store.sessions.list_sessions(app_name=APP)).sessions)


@pytest.mark.parametrize("what", ["a value", "its payload"])
async def test_damaged_state_of_a_user_takes_no_other_users_sessions_with_it(store: Store, what: str) -> None:
    """Nor does a value of it whose payload is gone."""
    user = store.sessions.storage.layout.user(UserKey(app=APP, user="ada"))
    if what == "a value":
        await change(store, user, {"state": {"k": {"unknown": 1}}})
    else:
        layout = store.sessions.storage.layout
        owner = layout.user_payloads(UserKey(app=APP, user="ada"))
        for place in {
            payload.place async for some in store.sessions.storage.payloads.scan() for payload in some
        }:
            await store.sessions.storage.payloads.at(place).remove_all(owner)
    listed = await store.sessions.list_sessions(app_name=APP)
    page = await store.sessions.list_sessions_page(app_name=APP)

    assert ["bob"] * 4 == [one.user_id for one in listed.sessions]
    assert ["bob"] * 4 == [one.user_id for one in page.infos]
    assert ["ada"] * 4 == [one.user_id for one in page.unreadable]


async def test_a_session_whose_state_lost_a_payload_takes_no_other_with_it(store: Store) -> None:
    """It is named as any damaged one."""
    await store.sessions.create_session(
        app_name=APP, user_id="ada", session_id="big", state={"k": "x" * 200_000}
    )
    storage = store.sessions.storage
    stored = await store.sessions._reader.header(SessionKey(app=APP, user="ada", session="big"))
    assert stored is not None
    for place in stored.spilled:
        await storage.payloads.at(place).remove_all(storage.layout.session_payloads(stored.key, stored.epoch))
    listed = await store.sessions.list_sessions(app_name=APP, user_id="ada")
    page = await store.sessions.list_sessions_page(app_name=APP, user_id="ada")

    assert ["s0", "s1", "s2", "s3"] == [one.id for one in listed.sessions]
    assert ["big"] == [one.session_id for one in page.unreadable]
    assert "is missing" in page.unreadable[0].reason or "gone" in page.unreadable[0].reason


@pytest.mark.parametrize("kind", ["rev a text", "last update NaN", "last update a map"])
@pytest.mark.parametrize("has_cursor", [False, True])
async def test_the_events_of_other_sessions_come_before_the_error(
    store: Store, kind: str, *, has_cursor: bool
) -> None:
    """An iteration over a user's events ends with what it could not read, be it the session of its cursor."""
    ada: dict[str, Any] = {"app_name": APP, "user_id": "ada"}
    (first,) = [one async for one in store.sessions.iter_user_events(**ada, limit=1)]
    damaged = "s0" if has_cursor else "s1"
    await change(store, path_of("ada", damaged), DAMAGE[kind])
    seen: list[str] = []

    async def read() -> None:
        cursor = first.cursor if has_cursor else None
        async for one in store.sessions.iter_user_events(**ada, cursor=cursor):
            seen.append(one.session_id)  # noqa: PERF401  # those before the error

    with pytest.raises(StoredDataError, match=f"{damaged} has a field"):
        await read()

    assert ["s1", "s2", "s3"] == seen if has_cursor else ["s0", "s2", "s3"] == seen


async def test_prune_and_gc_go_on_beside_a_damaged_session(store: Store) -> None:
    """They count it, and touch nothing of it."""
    path = path_of("ada", "s1")
    await change(store, path, DAMAGE["rev a text"])
    report = await store.prune(app_name=APP, idle_days=1)
    garbage = [one async for one in store.sessions.find_garbage()]

    assert (1, 7) == (report.unreadable, report.pruned_sessions)
    assert [] == garbage
    assert "1" == (await fields_of(store, path))["rev"]
