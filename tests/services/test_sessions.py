"""Sessions on the Firestore emulator: what ADK's runner and a user rely on."""

import asyncio
import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.cloud.firestore import Client
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    SessionConflictError,
    SessionExistsError,
    SessionLimits,
    SessionMissingError,
    SessionService,
)
from tests.services.conftest import APP, SESSION, USER, WHO, Connect, event, texts

SCOPED = {"mine": 1, "user:name": "Ada", "app:motto": ["a", ["b"]], "temp:mood": "busy"}
STORED = {"mine": 1, "user:name": "Ada", "app:motto": ["a", ["b"]]}


async def test_a_session_comes_back_equal_to_the_one_that_create_returned(
    sessions: SessionService,
) -> None:
    """State of all stored scopes, times and marker are those that the maker holds."""
    made = await sessions.create_session(**WHO, state=SCOPED)
    found = await sessions.get_session(**WHO)

    assert made == found
    assert STORED == made.state
    assert made.last_update_time > 0


async def test_state_that_json_cannot_hold_is_logged_by_its_key(
    sessions: SessionService, caplog: pytest.LogCaptureFixture
) -> None:
    """On creation and on an append; the text of such a value is stored."""
    held = await sessions.create_session(**WHO, state={"made": Client})
    await sessions.append_event(held, event(delta={"changed": Client}))

    assert {"made": str(Client), "changed": str(Client)} == held.state
    assert [
        f"state key {key!r} holds a type, which JSON cannot hold; its text is stored instead"
        for key in ("made", "changed")
    ] == caplog.messages


@pytest.mark.emulators
async def test_keys_of_a_newer_adk_are_logged(
    sessions: SessionService, raw_documents: Any, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the event is read."""
    await sessions.append_event(await sessions.create_session(**WHO), event("kept"))
    ((path, fields),) = raw_documents().items()
    client = Client(project=project)
    client.document(path).update(
        {"tail": [fields["tail"][0].replace('"actions":{', '"actions":{"newer":1,')]}
    )
    client.close()
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert ["kept"] == texts(found.events)
    assert ["a newer google-adk wrote an event; left out: actions.newer"] == caplog.messages


async def test_a_session_comes_back_equal_to_the_one_that_appends_left(
    sessions: SessionService,
) -> None:
    """The appending process holds exactly what any other reads, marker and times included."""
    held = await sessions.create_session(**WHO)
    await sessions.append_event(
        held, event("one", at=1727500000.1234567, delta={"mine": {"a": None}, "user:n": 2**80})
    )
    blob = types.Blob(data=b"\x00\xff", mime_type="image/png", display_name="pixel")
    reply = types.FunctionResponse(name="table", response={"rows": [[1, 2], [3, [4]]], "": None})
    parts = [types.Part(inline_data=blob), types.Part(function_response=reply)]
    await sessions.append_event(held, Event(author="agent", content=types.Content(role="model", parts=parts)))
    found = await sessions.get_session(**WHO)

    assert held == found
    assert ["one"] == texts(held.events[:1])
    assert found is not None
    assert held.events[1].timestamp == found.last_update_time


async def test_a_returned_session_is_the_callers_own(sessions: SessionService) -> None:
    """What a caller does to it reaches neither storage nor the next reader."""
    made = await sessions.create_session(**WHO, state={"list": [1]})
    made.state["list"].append(2)
    made.state["other"] = True
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert {"list": [1]} == found.state


async def test_a_missing_session_is_none(sessions: SessionService) -> None:
    """An unknown or blank id is no error."""
    assert await sessions.get_session(**WHO) is None
    assert await sessions.get_session(app_name=APP, user_id=USER, session_id=" ") is None


async def test_a_second_session_of_one_id_is_refused_and_changes_nothing(
    sessions: SessionService,
) -> None:
    """Padding does not make another id, and the loser's shared state is not applied."""
    await sessions.create_session(**WHO, state={"user:kept": 1})
    with pytest.raises(SessionExistsError, match=SESSION) as caught:
        await sessions.create_session(
            app_name=APP, user_id=USER, session_id=f" {SESSION}\n", state={"user:lost": 1, "app:lost": 1}
        )
    found = await sessions.get_session(**WHO)

    assert isinstance(caught.value, AlreadyExistsError)
    assert found is not None
    assert {"user:kept": 1} == found.state


async def test_of_many_creates_of_one_id_exactly_one_wins(sessions: SessionService) -> None:
    """The others are told that it exists."""
    outcomes = await asyncio.gather(
        *(sessions.create_session(**WHO, state={"n": n}) for n in range(8)), return_exceptions=True
    )
    winners = [outcome for outcome in outcomes if isinstance(outcome, Session)]
    found = await sessions.get_session(**WHO)

    assert 1 == len(winners)
    assert winners[0] == found
    assert 7 == sum(isinstance(outcome, SessionExistsError) for outcome in outcomes)


async def test_a_session_without_an_id_draws_one(sessions: SessionService) -> None:
    """None and blanks alike; no two are the same."""
    drawn = [
        (await sessions.create_session(app_name=APP, user_id=USER, session_id=given)).id
        for given in (None, "", "  ")
    ]

    assert 3 == len(set(drawn))
    assert all(drawn)


@pytest.mark.parametrize(
    "hostile",
    [
        "a/b",
        ".",
        "..",
        "__x__",
        "%2F",
        "/",
        "é\u0301",
        "日本語",
        "a\nb",
        "tab\t!",
        "`\\`",
        "x" * 1500,
        "\x00",
    ],
)
async def test_any_text_is_an_id_and_never_meets_another(sessions: SessionService, hostile: str) -> None:
    """It is stored and found again, in every place of the key, beside its neighbours."""
    keys = [(hostile, "u", "s"), ("a", hostile, "s"), ("a", "u", hostile), ("a", "u", "s")]
    for app, user, session in keys:
        await sessions.create_session(
            app_name=app, user_id=user, session_id=session, state={"at": [app, user]}
        )
    found = [await sessions.get_session(app_name=a, user_id=u, session_id=s) for a, u, s in keys]

    assert [(a, u, s.strip()) for a, u, s in keys] == [(f.app_name, f.user_id, f.id) for f in found if f]


@pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
async def test_an_id_that_is_too_long_is_refused_by_name(sessions: SessionService, field: str) -> None:
    """The error names the field, the size and the limit."""
    with pytest.raises(InvalidInputError, match=f"{field} takes 1501 bytes.*1500"):
        await sessions.create_session(**{**WHO, field: "x" * 1501})


async def test_the_empty_user_is_a_user(sessions: SessionService) -> None:
    """It lists its own sessions, not everyone's."""
    await sessions.create_session(app_name=APP, user_id="", session_id="of-nobody")
    await sessions.create_session(**WHO)
    listed = await sessions.list_sessions(app_name=APP, user_id="")

    assert ["of-nobody"] == [session.id for session in listed.sessions]


async def test_temp_state_lives_in_the_invocation_only(sessions: SessionService) -> None:
    """It is in the caller's session, not in the event, not in storage."""
    held = await sessions.create_session(**WHO)
    stored = await sessions.append_event(held, event(delta={"temp:mood": "busy", "kept": 1}))
    found = await sessions.get_session(**WHO)

    assert {"temp:mood": "busy", "kept": 1} == held.state
    assert {"kept": 1} == stored.actions.state_delta
    assert found is not None
    assert {"kept": 1} == found.state


async def test_none_is_a_value_and_a_dict_replaces(sessions: SessionService) -> None:
    """In every scope, as ADK's other services have it."""
    scopes = ("", "user:", "app:")
    held = await sessions.create_session(**WHO, state={f"{s}d": {"old": 1} for s in scopes})
    await sessions.append_event(
        held, event(delta={**{f"{s}d": {"new": 2} for s in scopes}, **{f"{s}n": None for s in scopes}})
    )
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert {f"{s}d": {"new": 2} for s in scopes} | {f"{s}n": None for s in scopes} == found.state


@pytest.mark.parametrize(
    "value",
    [True, 0.1 + 0.2, 1727500000.1234567, -0.0, 2**63 - 1, 2**63, -(2**200), "", "nul\x00", "\ud800",
     [[[1]], {}], {"__x__": {"": 1}}, {"a.b`c": None}, {"json": "text"}],
)  # fmt: skip
async def test_any_json_value_keeps_its_type_in_every_scope(sessions: SessionService, value: Any) -> None:
    """Across create, append and reads, beside an unrelated change."""
    state = {"v": value, "user:v": value, "app:v": value}
    await sessions.create_session(**WHO, state=state)
    held = await sessions.get_session(**WHO)
    assert held is not None
    await sessions.append_event(held, event(delta={"unrelated": 1}))
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert [repr(value)] * 3 == [repr(found.state[key]) for key in state]


async def test_only_what_an_event_changes_is_stored(sessions: SessionService) -> None:
    """A key that was put into the session without an event stays with the caller."""
    held = await sessions.create_session(**WHO)
    held.state["uncommitted"] = 1
    await sessions.append_event(held, event(delta={"committed": 1}))
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert {"committed": 1} == found.state


async def test_app_and_user_state_written_from_many_sessions_lose_no_key(
    sessions: SessionService,
) -> None:
    """Writers of different keys are never in each other's way."""
    held = [await sessions.create_session(app_name=APP, user_id=USER, session_id=f"s{n}") for n in range(10)]
    await asyncio.gather(
        *(
            sessions.append_event(one, event(delta={f"user:{n}": n, f"app:{n}": n}))
            for n, one in enumerate(held)
        )
    )

    assert {str(n): n for n in range(10)} == await sessions.get_user_state(app_name=APP, user_id=USER)
    found = await sessions.get_session(app_name=APP, user_id="another", session_id="s0")
    assert found is None
    fresh = await sessions.create_session(app_name=APP, user_id="another")
    assert {f"app:{n}": n for n in range(10)} == fresh.state


async def test_events_come_back_in_the_order_of_their_appends(sessions: SessionService) -> None:
    """Whatever their timestamps say."""
    held = await sessions.create_session(**WHO)
    for text, at in (("z", 5.0), ("m", 5.0), ("a", 5.0), ("earlier", 1.0)):
        await sessions.append_event(held, event(text, at=at))
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert ["z", "m", "a", "earlier"] == texts(found.events)
    assert 1.0 == found.last_update_time


async def test_a_partial_event_is_not_stored(sessions: SessionService) -> None:
    """Nor is its change of state applied."""
    held = await sessions.create_session(**WHO)
    partial = event(delta={"mine": 1})
    partial.partial = True
    returned = await sessions.append_event(held, partial)

    assert returned is partial
    assert ([], {}) == (held.events, held.state)
    assert held == await sessions.get_session(**WHO)


async def test_an_equal_event_delivered_again_is_stored_once(sessions: SessionService) -> None:
    """From the same handle and from one that was read anew."""
    held = await sessions.create_session(**WHO)
    first = event("once", delta={"mine": 1})
    await sessions.append_event(held, first)
    await sessions.append_event(held, first)
    reread = await sessions.get_session(**WHO)
    assert reread is not None
    await sessions.append_event(reread, copy.deepcopy(first))
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert ["once"] == texts(found.events)
    assert held == found == reread


async def test_an_event_that_only_the_caller_put_into_its_list_is_stored(
    sessions: SessionService,
) -> None:
    """What a handle holds is no proof of storage: ADK itself keeps unsaved events there for a while."""
    held = await sessions.create_session(**WHO)
    unsaved = event("unsaved")
    held.events.append(unsaved)
    await sessions.append_event(held, unsaved)
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert ["unsaved"] == texts(found.events)


async def test_a_redelivery_is_recognised_in_a_sealed_segment(
    connect: Connect, small_segments: SessionLimits
) -> None:
    """However long ago it was stored."""
    sealing = connect(limits=small_segments)
    held = await sealing.create_session(**WHO)
    first = event("first")
    await sealing.append_event(held, first)
    for number in range(12):
        await sealing.append_event(held, event(f"{number}"))
    await sealing.append_event(held, first)

    assert held == await sealing.get_session(**WHO)
    assert 13 == len(held.events)


async def test_different_events_with_one_id_are_both_stored(sessions: SessionService) -> None:
    """An id is not what makes an event."""
    held = await sessions.create_session(**WHO)
    for text in ("one", "two"):
        made = event(text)
        made.id = "same"
        await sessions.append_event(held, made)
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert ["one", "two"] == texts(found.events)


async def test_the_second_writer_of_two_is_told_and_changes_nothing(
    sessions: SessionService,
) -> None:
    """Neither storage nor its own session, which it can reload and append to."""
    await sessions.create_session(**WHO)
    winner, loser = await sessions.get_session(**WHO), await sessions.get_session(**WHO)
    assert winner is not None
    assert loser is not None
    await sessions.append_event(winner, event("first"))
    before = loser.model_copy(deep=True)
    late = event("second", delta={"mine": 1, "user:lost": 1})
    with pytest.raises(SessionConflictError, match="modified in storage") as caught:
        await sessions.append_event(loser, late)

    assert isinstance(caught.value, StaleSessionError)
    assert ("append_event", "app_name='app' user_id='user' session_id='session'") == (
        caught.value.operation,
        caught.value.key,
    )
    assert before == loser
    assert {"mine": 1, "user:lost": 1} == late.actions.state_delta
    assert winner == await sessions.get_session(**WHO)


async def test_a_merging_service_stores_after_others_and_learns_from_them(
    connect: Connect, small_segments: SessionLimits
) -> None:
    """Events in the order of storage, state of all scopes, marker and times: as a reader has them."""
    merging = connect(on_conflict="merge", limits=small_segments)
    await merging.create_session(**WHO, state={"a": 1})
    one, two = await merging.get_session(**WHO), await merging.get_session(**WHO)
    assert one is not None
    assert two is not None
    for number in range(12):
        await merging.append_event(one, event(f"{number}", delta={"a": number, "user:n": number}))
    await merging.append_event(two, event("mine", delta={"b": 2, "temp:t": 1}))
    temporary = two.state.pop("temp:t")
    found = await merging.get_session(**WHO)
    await merging.append_event(two, event("next"))

    assert 1 == temporary
    assert found is not None
    assert [*(str(number) for number in range(12)), "mine"] == texts(found.events)
    assert {"a": 11, "b": 2, "user:n": 11} == found.state
    assert two == await merging.get_session(**WHO)


@pytest.mark.emulators
async def test_merged_events_are_sealed_like_any_other(connect: Connect, raw_documents: Any) -> None:
    """A session whose writers always meet does not fill its document."""
    merging = connect(on_conflict="merge", limits=SessionLimits(seal_tail_bytes=1))
    keeping = connect()
    await keeping.create_session(**WHO)
    one, two = await keeping.get_session(**WHO), await keeping.get_session(**WHO)
    assert one is not None
    assert two is not None
    await keeping.append_event(one, event("first"))
    await merging.append_event(two, event("merged"))

    assert 1 == sum("_segments/" in path for path in raw_documents())
    assert two == await keeping.get_session(**WHO)


async def test_of_many_merging_writers_all_land(connect: Connect) -> None:
    """From handles that know nothing of each other; each equals storage after its last append."""
    services = [connect(on_conflict="merge") for _ in range(5)]
    await services[0].create_session(**WHO)
    handles = [await service.get_session(**WHO) for service in services]

    async def write(number: int) -> None:
        handle = handles[number]
        assert handle is not None
        for turn in range(4):
            await services[number].append_event(handle, event(f"{number}.{turn}", delta={f"k{number}": turn}))

    await asyncio.gather(*(write(number) for number in range(5)))
    found = await services[0].get_session(**WHO)

    assert found is not None
    assert {f"{number}.{turn}" for number in range(5) for turn in range(4)} == set(texts(found.events))
    assert 20 == len(found.events)
    assert {f"k{number}": 3 for number in range(5)} == found.state


async def test_of_two_racing_handles_exactly_one_wins_each_round(sessions: SessionService) -> None:
    """Eight rounds, each from fresh handles."""
    await sessions.create_session(**WHO)
    for number in range(8):
        pair = [await sessions.get_session(**WHO), await sessions.get_session(**WHO)]
        outcomes = await asyncio.gather(
            *(sessions.append_event(handle, event(f"{number}")) for handle in pair if handle),
            return_exceptions=True,
        )
        assert ["Event", "SessionConflictError"] == sorted(type(outcome).__name__ for outcome in outcomes)
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert [str(number) for number in range(8)] == texts(found.events)


async def test_tasks_that_share_one_handle_all_land(sessions: SessionService) -> None:
    """Parallel branches append to one session object; it equals storage afterwards."""
    held = await sessions.create_session(**WHO)
    await asyncio.gather(*(sessions.append_event(held, event(f"{n}", delta={f"k{n}": n})) for n in range(20)))
    found = await sessions.get_session(**WHO)

    assert held == found
    assert {str(n) for n in range(20)} == set(texts(held.events))


async def test_a_handle_without_a_marker_merges_and_never_overwrites(
    sessions: SessionService,
) -> None:
    """Such as one that travelled as JSON: its keys are added to what others stored."""
    held = await sessions.create_session(**WHO, state={"a": 1})
    stale = Session.model_validate_json(held.model_dump_json())
    await sessions.append_event(held, event("one", delta={"b": 2}))
    await sessions.append_event(stale, event("two", delta={"c": 3}))
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert {"a": 1, "b": 2, "c": 3} == found.state
    assert ["one", "two"] == texts(found.events)


async def test_a_handle_from_a_listing_appends_like_any_other(sessions: SessionService) -> None:
    """It carries a marker, so a later writer is told too."""
    held = await sessions.create_session(**WHO)
    (listed,) = (await sessions.list_sessions(app_name=APP, user_id=USER)).sessions
    await sessions.append_event(listed, event("from the listing"))
    with pytest.raises(SessionConflictError):
        await sessions.append_event(held, event("late"))
    found = await sessions.get_session(**WHO)

    assert found is not None
    assert ["from the listing"] == texts(found.events)


async def test_the_sessions_of_a_listing_share_nothing(sessions: SessionService) -> None:
    """What a caller does to one of them, the others do not show; app and user state are read once for all."""
    for number in range(2):
        await sessions.create_session(app_name=APP, user_id=USER, session_id=f"{number}")
    state = {"app:a": {"deep": [1]}, "user:u": [[1]]}
    await sessions.create_session(app_name=APP, user_id=USER, state=state)
    listed = await sessions.list_sessions(app_name=APP, user_id=USER)
    of_app = await sessions.list_sessions(app_name=APP)
    page = await sessions.list_sessions_page(app_name=APP, user_id=USER)

    for first, *others in (listed.sessions, of_app.sessions, page.sessions):
        first.state["app:a"]["deep"].append("mine")
        first.state["user:u"][0].append("mine")
        assert [state] * 2 == [session.state for session in others]


async def test_listings_are_ordered_by_last_update_and_merge_state(
    sessions: SessionService,
) -> None:
    """Least recently updated first, without events, for a user and for the whole app."""
    for name, at in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        held = await sessions.create_session(app_name=APP, user_id=USER, session_id=name)
        await sessions.append_event(held, event(at=at, delta={"own": name}))
        if name == "a":
            touched = held
    other = await sessions.create_session(app_name=APP, user_id="z", session_id="z", state={"user:who": "z"})
    await sessions.create_session(app_name="another", user_id=USER, session_id="elsewhere")
    await sessions.append_event(other, event(at=2.5))
    await sessions.append_event(touched, event(at=4.0, delta={"user:n": 1, "app:m": 2}))
    mine = (await sessions.list_sessions(app_name=APP, user_id=USER)).sessions
    everyones = (await sessions.list_sessions(app_name=APP)).sessions

    assert ["b", "c", "a"] == [session.id for session in mine]
    assert [{"own": name, "user:n": 1, "app:m": 2} for name in "bca"] == [session.state for session in mine]
    assert ["b", "z", "c", "a"] == [session.id for session in everyones]
    assert {"user:who": "z", "app:m": 2} == everyones[1].state
    assert [[]] * 4 == [session.events for session in everyones]
    assert [] == (await sessions.list_sessions(app_name="unknown")).sessions


async def test_a_deleted_session_is_gone_for_readers_and_writers(sessions: SessionService) -> None:
    """Shared state stays, deleting again is no error, a new session of that id starts empty."""
    held = await sessions.create_session(**WHO, state={"mine": 1, "user:kept": 1})
    await sessions.append_event(held, event("gone"))
    await sessions.delete_session(**WHO)
    await sessions.delete_session(**WHO)
    assert await sessions.get_session(**WHO) is None
    with pytest.raises(SessionMissingError, match=SESSION):
        await sessions.append_event(held, event("late"))
    again = await sessions.create_session(**WHO)
    with pytest.raises(SessionMissingError):
        await sessions.append_event(held, event("still late"))

    assert ([], {"user:kept": 1}) == (again.events, again.state)
    assert again == await sessions.get_session(**WHO)


HALF, PAIR = "\ud83d", "\ud83d\ude00"


@pytest.mark.parametrize("length", [1, 40_000])
async def test_halves_of_surrogate_pairs_come_back(sessions: SessionService, length: int) -> None:
    """In keys and values of every scope, in every place of an event; small, and as payloads."""
    state = {
        f"{scope}{half}": {half: [half * length, {PAIR: 1, "\U0001f600": 2}]}
        for scope in ("app:", "user:", "")
        for half in (HALF, PAIR)
    }
    held = await sessions.create_session(**WHO, state=state)
    created = held.model_copy(deep=True)
    stored = await sessions.get_session(**WHO)
    said = event(HALF * length, delta={**state, "user:more": PAIR, HALF: HALF})
    said.author = said.id = PAIR
    said.custom_metadata = {HALF: PAIR}
    await sessions.append_event(held, said)
    await sessions.append_event(held, said)
    again = await sessions.get_session(**WHO)

    assert created == stored
    assert {**state, "user:more": PAIR, HALF: HALF} == held.state
    assert again == held
    assert [(PAIR, PAIR, {HALF: PAIR}, [HALF * length])] == [
        (one.id, one.author, one.custom_metadata, texts([one])) for one in held.events
    ]
    assert {HALF, PAIR, "more"} == set(await sessions.get_user_state(app_name=APP, user_id=USER))


DOUBLED: list[Any] = [1]
for _ in range(24):
    DOUBLED = [DOUBLED, DOUBLED]


@pytest.mark.parametrize("key", ["k", "user:k", "app:k"])
async def test_what_shares_its_parts_a_million_times_is_refused_before_anything_is_written(
    sessions: SessionService, raw_documents: Any, key: str
) -> None:
    """In a new session, in a change of state, in an event; the session goes on."""
    held = await sessions.create_session(**WHO)
    before = raw_documents()
    noted = event("noted")
    noted.custom_metadata = {"k": DOUBLED}
    with pytest.raises(InvalidInputError, match=f"state key '{key}' takes at least .*max_values is 2000000"):
        await sessions.create_session(app_name=APP, user_id=USER, state={key: DOUBLED})
    with pytest.raises(InvalidInputError, match=f"state key '{key}' takes at least .*max_values is 2000000"):
        await sessions.append_event(held, event("a", delta={key: DOUBLED}))
    with pytest.raises(InvalidInputError, match=r"event .* takes at least .*max_values is 2000000"):
        await sessions.append_event(held, noted)

    assert before == raw_documents()
    await sessions.append_event(held, event("b"))
    assert held == await sessions.get_session(**WHO)


async def test_an_append_to_a_session_that_never_was_is_refused(sessions: SessionService) -> None:
    """Nothing is written, shared state included."""
    never = Session(id=SESSION, app_name=APP, user_id=USER)
    with pytest.raises(SessionMissingError):
        await sessions.append_event(never, event(delta={"user:lost": 1}))

    assert [] == never.events
    assert {} == await sessions.get_user_state(app_name=APP, user_id=USER)


async def test_an_event_over_the_limit_of_payloads_is_refused_before_anything_is_written(
    connect: Connect, raw_documents: Any
) -> None:
    """The error gives size, limit and the setting; the session goes on."""
    small = connect(limits=SessionLimits(max_payload_bytes=300_000))
    held = await small.create_session(**WHO)
    before = raw_documents()
    with pytest.raises(
        InvalidInputError, match=r"takes at least \d+ bytes as JSON, .*max_payload_bytes is 300000"
    ):
        await small.append_event(held, event("x" * 400_000))
    with pytest.raises(
        InvalidInputError, match=r"'big' takes at least 400001 bytes as JSON, .*max_payload_bytes is 300000"
    ):
        await small.create_session(app_name=APP, user_id=USER, state={"big": "x" * 400_000})
    untouched = raw_documents()
    await small.append_event(held, event("fits"))

    assert before == untouched
    assert ["fits"] == texts(held.events)
    assert held == await small.get_session(**WHO)


async def test_a_document_that_is_full_makes_room_by_sealing(connect: Connect) -> None:
    """State and unsealed events share Firestore's 1 MiB; the events can leave."""
    roomy = connect(limits=SessionLimits(seal_tail_bytes=10**9))
    held = await roomy.create_session(**WHO, state={f"k{n}": "x" * 60_000 for n in range(14)})
    for number in range(12):
        await roomy.append_event(held, event(f"{number}" + "y" * 20_000))

    assert 12 == len(held.events)
    assert held == await roomy.get_session(**WHO)


@pytest.mark.emulators
async def test_state_over_firestores_document_limit_is_a_typed_error(
    sessions: SessionService,
) -> None:
    """What the server refuses names the limit and leaves the session as it was."""
    held = await sessions.create_session(**WHO, state={f"k{n}": "x" * 60_000 for n in range(16)})
    before = held.model_copy(deep=True)
    with pytest.raises(InvalidInputError, match="1 MiB"):
        await sessions.append_event(held, event(delta={f"m{n}": "x" * 60_000 for n in range(3)}))

    assert before == held
    assert held == await sessions.get_session(**WHO)


async def test_a_handle_holds_what_json_made_of_an_event(sessions: SessionService) -> None:
    """Tuples and times in a tool's answer are what every reader will see."""
    held = await sessions.create_session(**WHO)
    answer = {"pair": (1, 2), "at": datetime(2026, 10, 23, tzinfo=UTC)}
    reply = types.Part(function_response=types.FunctionResponse(name="f", response=answer))
    await sessions.append_event(held, Event(author="agent", content=types.Content(parts=[reply])))

    assert held == await sessions.get_session(**WHO)


@pytest.mark.parametrize("delta", [{"temp:x": 1, "a": 1}, {"a": (1, 2)}])
async def test_a_copy_delivered_again_is_recognised_whatever_it_carries(
    sessions: SessionService, delta: dict[str, Any]
) -> None:
    """Temporary keys, and values that JSON changes."""
    held = await sessions.create_session(**WHO)
    first = event("once", delta=delta)
    again = first.model_copy(deep=True)
    await sessions.append_event(held, first)
    await sessions.append_event(held, again)
    held.state.pop("temp:x", None)

    assert ["once"] == texts(held.events)
    assert held == await sessions.get_session(**WHO)


@pytest.mark.emulators
async def test_a_field_that_a_deployment_adds_does_not_disturb(
    sessions: SessionService, project: str
) -> None:
    """Such as the time of its own TTL policy."""
    held = await sessions.create_session(**WHO)
    client = Client(project=project)
    path = f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}"
    client.document(path).update({"expire_at": datetime(2030, 1, 1, tzinfo=UTC)})
    client.close()
    found = await sessions.get_session(**WHO)
    assert found is not None
    await sessions.append_event(found, event("goes on"))

    assert held.id == found.id
    assert ["goes on"] == texts(found.events)


class TestSealing:
    """Long sessions leave the session document in immutable segments."""

    @pytest.fixture
    def sealing(self, connect: Connect, small_segments: SessionLimits) -> SessionService:
        return connect(limits=small_segments)

    async def test_a_sealed_session_reads_as_if_it_were_whole(self, sealing: SessionService) -> None:
        """The appending handle stays current through every seal."""
        held = await sealing.create_session(**WHO)
        for number in range(40):
            await sealing.append_event(held, event(f"{number}", delta={"n": number}))
        found = await sealing.get_session(**WHO)

        assert held == found
        assert [str(number) for number in range(40)] == texts(held.events)

    @pytest.mark.sample(8)
    @pytest.mark.parametrize("recent", [0, 1, 3, 7, 39, 40, 41, None])
    @pytest.mark.parametrize("after", [None, 0.0, 12.0, 30.0, 99.0])
    async def test_filters_read_exactly_what_they_ask_for(
        self, sealing: SessionService, recent: int | None, after: float | None
    ) -> None:
        """Also where timestamps are not in order, and across segments."""
        held = await sealing.create_session(**WHO)
        times = [float((n * 7) % 40) for n in range(40)]
        for at in times:
            await sealing.append_event(held, event(f"{at}", at=at))
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        found = await sealing.get_session(**WHO, config=config)
        expected = [str(at) for at in times if after is None or at >= after]
        expected = expected if recent is None else expected[len(expected) - min(recent, len(expected)) :]

        assert found is not None
        assert expected == texts(found.events)

    async def test_a_filtered_handle_may_append(self, sealing: SessionService) -> None:
        """It knows the session's revision though not its events."""
        held = await sealing.create_session(**WHO)
        for number in range(10):
            await sealing.append_event(held, event(f"{number}"))
        view = await sealing.get_session(**WHO, config=GetSessionConfig(num_recent_events=0))
        assert view is not None
        await sealing.append_event(view, event("10"))
        found = await sealing.get_session(**WHO)

        assert found is not None
        assert [str(number) for number in range(11)] == texts(found.events)

    async def test_a_handle_that_only_missed_a_seal_is_not_stale(
        self, connect: Connect, small_segments: SessionLimits
    ) -> None:
        """Sealing moves events, it adds none: the other handle's append goes through."""
        keeping, sealing = connect(), connect(limits=small_segments)
        held = await keeping.create_session(**WHO)
        for number in range(5):
            await keeping.append_event(held, event(f"{number}"))
        other = await sealing.get_session(**WHO)
        assert other is not None
        await sealing.append_event(other, event("5"))  # leaves a seal behind
        current = await keeping.get_session(**WHO)
        assert current is not None
        unsealed = current.model_copy(deep=True)
        unsealed._storage_update_marker = (current._storage_update_marker or "").rpartition("/")[
            0
        ] + "/1.000000000"
        await keeping.append_event(unsealed, event("6"))
        found = await keeping.get_session(**WHO)

        assert found is not None
        assert [str(number) for number in range(7)] == texts(found.events)

    async def test_deleting_removes_the_segments_too(
        self, sealing: SessionService, raw_documents: Any
    ) -> None:
        """Nothing of the session is left in the database."""
        held = await sealing.create_session(**WHO)
        for number in range(20):
            await sealing.append_event(held, event(f"{number}"))
        before = raw_documents()
        await sealing.delete_session(**WHO)

        assert {"adk_sessions", "adk_segments"} == {path.split("/")[-2] for path in before}
        assert {} == raw_documents()
