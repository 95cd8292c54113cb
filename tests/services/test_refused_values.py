"""Values that no argument takes: out of its bounds, whole numbers of thousands of digits, and NaN."""

import dataclasses
import inspect
import math
from datetime import timedelta
from typing import Any

import pytest
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import (
    ArtifactLimits,
    FunctionEmbedder,
    HistoryConfig,
    InvalidInputError,
    KmsEnvelope,
    MemoryLimits,
    MemoryService,
    Point,
    SessionLimits,
    Store,
    StoreSettings,
)
from gcp_adk_store.model.session_fields import MAX_TTL_S
from gcp_adk_store.turns import TurnPlugin
from tests.memory.conftest import content, said
from tests.support.local_commits import before_commits
from tests.support.methods import GOOD, arguments, finished, public_methods, services_of

HUGE = 10**5_000
"""Python refuses to print it."""
BOTH = HistoryConfig(history="since_compaction", num_recent_events=3)
LONG = "x" * 1501
PAGES = "list_sessions_page"
NO_REASONS = ("", " ", "two\nlines", "x" * 501, None)
HALF = MemoryEntry(content=content("x"), id="\ud800")
LIFETIME = r"expires_after (is .*, it )?must be a timedelta"


def remembering(id_: str = "e", **metadata: Any) -> dict[str, Any]:
    """Return the arguments of a call that remembers an event with *metadata*."""
    return {"events": [said("x", id=id_)], "custom_metadata": metadata}


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("sessions", PAGES, {"page_size": 0}, "page_size is 0, it must be 1 to 1000"),
    ("sessions", PAGES, {"page_size": 1001}, "page_size is 1001"),
    ("sessions", PAGES, {"page_size": "5"}, "page_size must be a whole number, not str"),
    ("sessions", PAGES, {"page_size": True}, "page_size must be a whole number, not bool"),
    ("sessions", PAGES, {"page_size": 1.5}, "page_size must be a whole number, not float"),
    ("sessions", PAGES, {"cursor": "nonsense"}, "cursor 'nonsense' does not come from"),
    ("sessions", PAGES, {"cursor": "WzEsMl0="}, "cursor 'WzEsMl0=' does not come from|session_id must be"),
    ("sessions", PAGES, {"order": "random"}, "order is 'random', it must be 'newest' or 'oldest'"),
    ("sessions", PAGES, {"updated_after": "5"}, "updated_after must be a number or None, not str"),
    ("sessions", PAGES, {"labels": {"a": None}}, r"labels\['a'\] must be a string, not NoneType"),
    ("sessions", PAGES, {"labels": {"a b": "x"}}, "the name 'a b' of 3 characters"),
    ("sessions", PAGES, {"labels": ["a"]}, "labels must be a mapping"),
    ("sessions", "iter_events", {"limit": 0}, "limit is 0, it must be 1 or more"),
    ("sessions", "iter_events", {"limit": 1.5}, "limit must be a whole number or None, not float"),
    ("sessions", "iter_events", {"limit": True}, "limit must be a whole number or None, not bool"),
    ("sessions", "iter_events", {"direction": "up"}, "direction is 'up', it must be 'forward' or 'backward'"),
    ("sessions", "iter_events", {"direction": "backward", "follow": True}, "direction"),
    ("sessions", "iter_user_events", {"limit": 0}, "limit is 0, it must be 1 or more"),
    ("sessions", "iter_user_events", {"cursor": "nonsense"}, "cursor 'nonsense' does not come from"),
    ("sessions", "iter_user_events", {"after": True}, "after must be a number or None, not bool"),
    ("sessions", "get_session", {"config": BOTH}, "history='since_compaction', and num_recent_events"),
    ("sessions", "create_session", {"ttl_seconds": 0}, "ttl_seconds is 0, it must be a number above 0"),
    ("sessions", "create_session", {"ttl_seconds": MAX_TTL_S + 0.5}, "ttl_seconds is .* at most 3153600000"),
    ("sessions", "create_session", {"app_name": LONG}, "app_name takes 1501 bytes.*1500"),
    ("sessions", "create_session", {"user_id": LONG}, "user_id takes 1501 bytes.*1500"),
    ("sessions", "delete_session", {"session_id": LONG}, "session_id takes 1501 bytes.*1500"),
    ("sessions", "archive_session", {"before": 5}, "before must be a Point"),
    ("sessions", "verify_session", {"known_events": 1}, "known_"),
    ("sessions", "verify_session", {"known_head": "00"}, "known_"),
    ("sessions", "verify_session", {"known_events": 1, "known_head": "00"}, "known_"),
    ("sessions", "find_garbage", {"older_than_s": 3599}, "older_than_s"),
    *(
        ("store", "redact_event", {"reason": each}, "reason")
        for each in ("", " ", "two\nlines", "x" * 501, None)
    ),
    ("store", "fork_session", {"at": 5}, "at must be a Point"),
    ("store", "fork_session", {"artifacts": "some"}, "it must be 'at_point', 'all' or 'none'"),
    ("store", "erase_user", {"quiet_s": -1.0}, "quiet_s"),
    ("store", "erase_user", {"quiet_s": 3601.0}, "quiet_s"),
    ("store", "prune", {}, "nothing says which sessions go"),
    ("store", "prune", {"labels": {"a": "b"}}, "nothing says which sessions go"),
    ("store", "prune", {"labels": {"a": 1}, "keep_latest": 1}, "labels"),
    ("store", "prune", {"labels": {"a": "b"}, "user_data_idle_days": 1}, "nothing says"),
    ("store", "prune", {"idle_days": 0}, "idle_days"),
    ("store", "prune", {"keep_latest": -1}, "keep_latest"),
    ("turns", "hold", {"on_busy": "never"}, "on_busy"),
    ("turns", "hold", {"wait_s": -1}, "wait_s"),
    ("turns", "hold", {"wait_s": math.inf}, "wait_s"),
    ("turns", "hold", {"lease_s": 0}, "lease_s"),
    ("turns", "hold", {"lease_s": 1e9}, "lease_s"),
    ("turns", "enqueue", {"message_id": ""}, "message_id has 0 characters"),
    ("turns", "enqueue", {"message_id": "x" * 257}, "message_id has 257 characters"),
    ("turns", "enqueue", {"state_delta": {1: 2}}, "state key"),
    ("turns", "run", {"message_id": "x" * 257}, "message_id has 257 characters"),
    ("artifacts", "save_artifact", {"session_id": "s", "expires_after": timedelta(0)}, LIFETIME),
    ("artifacts", "save_artifact", {"session_id": "s", "expires_after": timedelta.max}, LIFETIME),
    ("artifacts", "save_artifact", {"session_id": "s", "expires_after": 60}, LIFETIME),
    (
        "artifacts",
        "save_artifact",
        {"session_id": "s", "custom_metadata": {"a": [{1: 2, "1": 3}]}},
        "custom_metadata holds a key that is no text: int",
    ),
    ("memory", "reindex_memories", {}, "embedder="),
    ("memory", "search_memories", {"limit": 0}, "limit is 0"),
    ("memory", "search_memories", {"limit": 1001}, "limit is 1001"),
    ("memory", "search_memories", {"min_score": 2}, "min_score is 2"),
    ("memory", "list_memories", {"page_size": 0}, "page_size is 0"),
    ("memory", "list_memories", {"cursor": "?"}, r"cursor '\?'"),
    ("memory", "list_memories", {"metadata": {1: 2, "a": 3}}, "a key of the metadata must be a string"),
    ("memory", "list_memories", {"metadata": {"a": {1: 2}}}, "metadata holds a key that is no text: int"),
    ("memory", "search_memories", {"metadata": {"a": math.nan}}, "metadata holds an infinite number, or NaN"),
    ("memory", "search_memories", {"metadata": {"a": object()}}, "metadata holds a object"),
    ("memory", "add_events_to_memory", remembering(ttl_seconds=-1), "ttl_seconds is -1"),
    ("memory", "add_events_to_memory", remembering(ttl_seconds=HUGE), "ttl_seconds is a whole number of 16"),
    ("memory", "add_events_to_memory", remembering(a=object()), "a object, which JSON"),
    ("memory", "add_events_to_memory", remembering(a=math.nan), "NaN, which"),
    ("memory", "add_events_to_memory", remembering(a="x" * 20_000), "16384"),
    ("memory", "add_events_to_memory", remembering(a={1: 2, "1": 3}), "a key that is no text: int"),
    ("memory", "add_events_to_memory", remembering(a="\ud83d\ude00"), "two lone surrogates side by side"),
    ("memory", "add_events_to_memory", {"events": [said("x", "a" * 300_000)]}, "the limit is 524288"),
    ("memory", "add_events_to_memory", remembering() | {"custom_metadata": {1: 2}}, "must be a string, not"),
    ("memory", "add_events_to_memory", remembering("\ud800"), "event id holds a lone surrogate"),
    ("memory", "add_events_to_memory", {"events": [said("x", at=math.nan)]}, "time"),
    ("memory", "add_events_to_memory", {"events": [said("x", at=-math.inf)]}, "time"),
    (
        "memory",
        "add_memory",
        {"memories": [HALF]},
        "memory id holds a lone surrogate",
    ),
]


async def test_an_id_of_any_length_makes_no_long_error(adk_store_local: Store) -> None:
    """No id that can be stored has more than 1,500 characters, but for those of events."""
    name, sessions = "x" * 100_000, adk_store_local.sessions
    session = await sessions.create_session(app_name="app", user_id="user")
    event = Event(id=name, author="agent", timestamp=math.nan)
    for call in (
        sessions.create_session(app_name="app", user_id=name),
        sessions.append_event(session, event),
    ):
        with pytest.raises(InvalidInputError) as refused:
            await call
        assert len(str(refused.value)) < 2000


@pytest.mark.parametrize(("service", "method", "given", "says"), REFUSED)
async def test_a_value_out_of_its_bounds_is_refused_by_name(
    adk_store_local: Store,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    method: str,
    given: dict[str, Any],
    says: str,
) -> None:
    """With what was given, or what may be; nothing is written."""

    async def refuse(_: object) -> None:
        pytest.fail("something was written")

    before_commits(monkeypatch, refuse)
    runner = Runner(app_name="app", agent=BaseAgent(name="a"), session_service=adk_store_local.sessions)
    called = getattr(services_of(adk_store_local)[service], method)
    with pytest.raises(InvalidInputError, match=says):
        await finished(called, arguments(called, {**GOOD, "runner": runner}, **given))


@pytest.mark.parametrize("number", [HUGE, -HUGE, math.nan], ids=["huge", "below", "nan"])
async def test_a_number_that_cannot_be_is_refused_by_name(adk_store_local: Store, number: float) -> None:
    """By each method that takes one, as every other wrong argument is."""
    asked = [
        (method, name)
        for service in services_of(adk_store_local).values()
        for method in public_methods(service)
        for name, parameter in inspect.signature(method).parameters.items()
        if not {"int", "float"}.isdisjoint(str(parameter.annotation).split(" | "))
    ]

    for method, name in asked:
        with pytest.raises(InvalidInputError, match=name):
            await finished(method, arguments(method, GOOD, **{name: number}))
    assert len(asked) > 20


@pytest.mark.parametrize("given", [HUGE, [HUGE], {"a": HUGE}], ids=["number", "list", "map"])
async def test_a_value_that_python_cannot_show_is_refused_by_name(adk_store_local: Store, given: Any) -> None:
    """Where a text, a choice or a map belongs."""
    for each in dataclasses.fields(StoreSettings):
        with pytest.raises(InvalidInputError, match=each.name):
            StoreSettings(**{each.name: given})
    for name in ("per", "keys_database"):
        with pytest.raises(InvalidInputError, match=f"{name} .*of the type {type(given).__name__}"):
            KmsEnvelope(**{"key": "projects/p/locations/l/keyRings/r/cryptoKeys/k", name: given})
    with pytest.raises(InvalidInputError, match="order is "):
        await adk_store_local.sessions.list_sessions_page(app_name="a", user_id="u", order=given)
    with pytest.raises(InvalidInputError, match="metadata holds an integer of over 4300 digits"):
        await adk_store_local.memory.list_memories(app_name="a", user_id="u", metadata={"a": given})
    with pytest.raises(InvalidInputError, match="metadata holds an integer of over 4300 digits"):
        await adk_store_local.memory.search_memories(
            app_name="a", user_id="u", query="x", metadata={"a": given}
        )


async def test_events_after_a_time_that_is_no_number_are_refused(adk_store_local: Store) -> None:
    """ADK's services return all, none or an error of Python; infinite times choose as in ADK."""
    memory = InMemorySessionService()
    chosen = []
    for service in (adk_store_local.sessions, memory):
        session = await service.create_session(app_name="a", user_id="u", session_id="s")
        await service.append_event(session, Event(author="user", invocation_id="i"))
        for time in (-math.inf, math.inf):
            found = await service.get_session(
                app_name="a", user_id="u", session_id="s", config=GetSessionConfig(after_timestamp=time)
            )
            assert found is not None
            chosen.append(len(found.events))
    assert chosen == [1, 0, 1, 0]

    with pytest.raises(InvalidInputError, match="after_timestamp is nan, it must be a number"):
        await adk_store_local.sessions.get_session(
            app_name="a", user_id="u", session_id="s", config=GetSessionConfig(after_timestamp=math.nan)
        )


@pytest.mark.parametrize("limits", [SessionLimits, ArtifactLimits, MemoryLimits])
def test_a_limit_that_cannot_be_is_refused_by_name(limits: Any) -> None:
    """Also one of a method's deadline, and a position."""
    for each in dataclasses.fields(limits):
        if each.type in (int, float):
            with pytest.raises(InvalidInputError, match=f"{each.name} is a whole number of 16,610 bits"):
                limits(**{each.name: HUGE})
    with pytest.raises(InvalidInputError, match=r"get_session.*it must have 1,023 at most"):
        SessionLimits(deadlines_s={"get_session": HUGE})
    with pytest.raises(InvalidInputError, match="a position is a whole number of 16,610 bits"):
        Point.position(HUGE)
    turns = Store.local(":memory:").turns
    for given in ({"wait_s": HUGE}, {"lease_s": HUGE}):
        with pytest.raises(InvalidInputError, match="_s is a whole number of 16,610 bits"):
            TurnPlugin(turns, **given)  # type: ignore[arg-type]  # of any option
    with pytest.raises(InvalidInputError, match="cache_s is a whole number of 16,610 bits"):
        KmsEnvelope(key="projects/p/locations/l/keyRings/r/cryptoKeys/k", cache_s=HUGE)
    embedder = FunctionEmbedder(lambda *_: [], name="x", dimensions=HUGE)
    with pytest.raises(InvalidInputError, match="the number of dimensions is a whole number of 16,610 bits"):
        MemoryService(Store.local(":memory:").sessions.storage, embedder=embedder)
