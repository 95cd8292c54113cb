"""Sessions that were kept long enough go, with their artifacts; nothing in use does."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from hypothesis import example, given
from hypothesis import strategies as st

from gcp_adk_store import SessionInfo, Store
from gcp_adk_store.cli.command import command
from tests.erasure.conftest import LIMITS, said
from tests.support.clock import DAY_S, in_days
from tests.support.stored import collection, put, session_path

APP = "app"
AGES = [(1, 9, "a", True), (1, 0, "a", False), (3, 0, "b", True), (4, 0, "b", False)]
"""Of sessions: days since the last update, days before that, the user, and whether it has all labels."""


async def talk(store: Store, user: str, session: str, **info: Any) -> None:
    """Make a session with segments, payloads and an artifact."""
    who: dict[str, Any] = {"app_name": APP, "user_id": user, "session_id": session}
    made = await store.sessions.create_session(**who, state={"large": "x" * 500})
    await store.sessions.append_event(made, said("x" * 1200))
    await store.artifacts.save_artifact(**who, filename="f.txt", artifact=types.Part(text="t"))
    if info:
        await store.sessions.update_session_info(**who, **info)


async def ids(store: Store, user: str) -> set[str]:
    """Return the ids of a user's sessions."""
    return {each.id for each in (await store.sessions.list_sessions(app_name=APP, user_id=user)).sessions}


async def test_idle_sessions_go_with_their_parts_and_artifacts(store: Store) -> None:
    """Newer ones, and those of other apps, stay; a dry run only counts."""
    await talk(store, "u", "old")
    await store.sessions.create_session(app_name="other", user_id="u", session_id="old")
    with in_days(10):
        await talk(store, "u", "new")
        dry = await store.prune(app_name=APP, idle_days=7, dry_run=True)
        before = await ids(store, "u")
        report = await store.prune(app_name=APP, idle_days=7)
        again = await store.prune(app_name=APP, idle_days=7)

    assert {"old", "new"} == before
    assert {"new"} == await ids(store, "u")
    assert (2, 1, 1) == (dry.sessions, dry.pruned_sessions, dry.pruned_artifacts)
    assert (2, 1, 1) == (report.sessions, report.pruned_sessions, report.pruned_artifacts)
    assert (1, 0, 0) == (again.sessions, again.pruned_sessions, again.pruned_artifacts)
    assert ["new"] == [path.split("/")[5] for path in await collection(store, "adk_segments")]
    assert [] == await store.artifacts.list_artifact_keys(app_name=APP, user_id="u", session_id="old")
    assert await store.sessions.get_session(app_name="other", user_id="u", session_id="old")


async def test_a_session_whose_note_cannot_be_read_stays_and_others_go(store: Store) -> None:
    """A newer release may have written the note; the report counts the session."""
    for name in ("damaged", "old"):
        await talk(store, "u", name)
    path = session_path({"app_name": APP, "user_id": "u", "session_id": "damaged"})
    await put(store, f"{path}/adk_deletions/newer", {"format": 9})
    with in_days(10):
        report = await store.prune(app_name=APP, idle_days=7)

    assert (1, 1) == (report.pruned_sessions, report.unreadable)
    assert {"damaged"} == await ids(store, "u")


async def test_a_session_in_a_turn_stays(store: Store) -> None:
    """A later run takes it."""
    await talk(store, "u", "s")
    async with store.turns.hold(app_name=APP, user_id="u", session_id="s"):
        held = await store.prune(app_name=APP, keep_latest=0)
    after = await store.prune(app_name=APP, keep_latest=0)

    assert (0, 1) == (held.pruned_sessions, held.in_use)
    assert (1, 0) == (after.pruned_sessions, after.in_use)


async def test_data_of_users_without_sessions_goes_only_if_asked(store: Store) -> None:
    """State and memories each have their own last change; those of users with sessions stay."""
    for user in ("gone", "here"):
        await store.sessions.create_session(
            app_name=APP, user_id=user, session_id="s", state={"user:k": "v" * 500}
        )
        memory = MemoryEntry(content=types.Content(parts=[types.Part(text="remember this")]))
        await store.memory.add_memory(app_name=APP, user_id=user, memories=[memory])
    await store.sessions.delete_session(app_name=APP, user_id="gone", session_id="s")
    with in_days(10):
        kept = await store.prune(app_name=APP, keep_latest=1)
        early = await store.prune(app_name=APP, user_data_idle_days=11)
        dry = await store.prune(app_name=APP, user_data_idle_days=7, dry_run=True)
        report = await store.prune(app_name=APP, user_data_idle_days=7)

    assert [(0, 0), (0, 0), (1, 1), (1, 1)] == [
        (each.pruned_states, each.pruned_memories) for each in (kept, early, dry, report)
    ]
    assert {} == await store.sessions.get_user_state(app_name=APP, user_id="gone")
    assert {"k": "v" * 500} == await store.sessions.get_user_state(app_name=APP, user_id="here")
    found = await store.memory.search_memory(app_name=APP, user_id="here", query="remember")
    assert 1 == len(found.memories)
    assert [] == (await store.memory.search_memory(app_name=APP, user_id="gone", query="remember")).memories


@given(
    ages=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from("ab"), st.booleans()), max_size=8
    ),
    idle=st.none() | st.integers(1, 20),
    older=st.none() | st.integers(1, 20),
    keep=st.integers(0, 4),
    labels=st.none() | st.just({"kind": "test", "run": "1"}),
)
@example(ages=AGES, idle=2, older=None, keep=0, labels=None)
@example(ages=AGES, idle=None, older=5, keep=0, labels=None)
@example(ages=AGES, idle=None, older=None, keep=1, labels=None)
@example(ages=AGES, idle=None, older=None, keep=0, labels={"kind": "test", "run": "1"})
def test_the_decision_is_the_one_that_the_conditions_say(
    ages: list[tuple[int, int, str, bool]],
    idle: int | None,
    older: int | None,
    keep: int,
    labels: dict[str, str] | None,
) -> None:
    """Each condition is checked alone, session by session; the newest are those of a user with the labels."""

    async def pruned() -> tuple[list[SessionInfo], set[str]]:
        async with Store.local(":memory:") as store:
            days = [(100 - last - more, n) for n, (last, more, _, _) in enumerate(ages)]
            days += [(100 - last, n) for n, (last, _, _, _) in enumerate(ages)]
            for day, number in sorted(days):
                _, _, user, is_run = ages[number]
                who: dict[str, Any] = {"app_name": APP, "user_id": user, "session_id": f"{number}"}
                with in_days(day):
                    session = await store.sessions.get_session(**who)
                    if session is None:
                        session = await store.sessions.create_session(**who)
                        kinds = {"kind": "test", **({"run": "1"} if is_run else {})}
                        await store.sessions.update_session_info(**who, labels=kinds)
                    else:
                        await store.sessions.append_event(session, said("hello"))
            with in_days(100):
                found = (await store.sessions.list_sessions_page(app_name=APP, page_size=100)).infos
                await store.prune(
                    app_name=APP, idle_days=idle, older_than_days=older, keep_latest=keep, labels=labels
                )
                return found, await ids(store, "a") | await ids(store, "b")

    sessions, left = asyncio.run(pruned())
    now = time.time() + 100 * DAY_S

    labelled = [each for each in sessions if (labels or {}).items() <= each.labels.items()]
    newest = sorted(labelled, key=lambda each: (each.last_update_time, each.session_id))[::-1]
    for each in sessions:
        is_kept = each in [other for other in newest if other.user_id == each.user_id][:keep]
        is_idle = idle is None or now - each.last_update_time > idle * DAY_S
        is_old = older is None or now - each.create_time > older * DAY_S
        goes = each in labelled and not is_kept and is_idle and is_old
        assert (each.session_id not in left) == goes


def test_the_command_says_what_went(tmp_path: Path) -> None:
    """As text and as JSON; without a condition it deletes nothing."""

    async def make() -> None:
        async with Store.local(tmp_path, session_limits=LIMITS) as store:
            await talk(store, "u", "s")

    asyncio.run(make())

    def run(*options: str) -> Any:
        return CliRunner().invoke(command, ["prune", "--local", str(tmp_path), "--app", APP, *options])

    nothing, dry = run(), run("--keep-latest", "0", "--dry-run")
    gone = run("--keep-latest", "0", "--label", "a=b", "--json")
    all_ = run("--keep-latest", "0", "--json")

    assert (2, 0, 0, 0) == (nothing.exit_code, dry.exit_code, gone.exit_code, all_.exit_code)
    assert "would delete 1 of 1 sessions\nwould delete 1 artifacts of them" in dry.stdout
    assert [0, 1] == [json.loads(each.stdout)["pruned_sessions"] for each in (gone, all_)]
