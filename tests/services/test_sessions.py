"""Sessions on the Firestore emulator: what ADK's runner and a user rely on."""

from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.cloud.firestore import Client

from gcp_adk_store import InvalidInputError, SessionConflictError, SessionLimits, SessionService
from gcp_adk_store.testing.conformance.running import event, read
from tests.services.conftest import APP, SESSION, USER, WHO, Connect, texts


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


async def test_events_of_a_sealed_tail_may_come_again(connect: Connect) -> None:
    """To another process, through a handle without events: they are other events then, and are counted."""
    limits = SessionLimits(seal_tail_bytes=1)
    first = event("first")
    writer = connect(limits=limits)
    await writer.append_event(await writer.create_session(**WHO), first)
    other = connect(limits=limits)
    held = await read(other, WHO, config=GetSessionConfig(num_recent_events=0))
    await other.append_event(held, first)
    info = await other.get_session_info(**WHO)

    assert ["first"] * 2 == texts((await read(other, WHO)).events)
    assert info is not None
    assert 2 == info.events


async def test_a_handle_without_a_marker_merges_and_never_overwrites(
    sessions: SessionService,
) -> None:
    """Such as one that travelled as JSON: its keys are added to what others stored."""
    held = await sessions.create_session(**WHO, state={"a": 1})
    stale = Session.model_validate_json(held.model_dump_json())
    await sessions.append_event(held, event("one", delta={"b": 2}))
    await sessions.append_event(stale, event("two", delta={"c": 3}))
    found = await read(sessions, WHO)

    assert {"a": 1, "b": 2, "c": 3} == found.state
    assert ["one", "two"] == texts(found.events)


async def test_a_handle_from_a_listing_appends_like_any_other(sessions: SessionService) -> None:
    """It carries a marker, so a later writer gets a conflict too."""
    held = await sessions.create_session(**WHO)
    (listed,) = (await sessions.list_sessions(app_name=APP, user_id=USER)).sessions
    await sessions.append_event(listed, event("from the listing"))
    with pytest.raises(SessionConflictError):
        await sessions.append_event(held, event("late"))
    found = await read(sessions, WHO)

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
    found = await read(sessions, WHO)
    await sessions.append_event(found, event("goes on"))

    assert held.id == found.id
    assert ["goes on"] == texts(found.events)


async def test_a_handle_that_only_missed_a_seal_is_not_stale(
    connect: Connect, small_segments: SessionLimits
) -> None:
    """Sealing moves events, it adds none: the other handle's append goes through."""
    keeping, sealing = connect(), connect(limits=small_segments)
    held = await keeping.create_session(**WHO)
    for number in range(5):
        await keeping.append_event(held, event(f"{number}"))
    other = await read(sealing, WHO)
    await sealing.append_event(other, event("5"))  # leaves a seal behind
    unsealed = (await read(keeping, WHO)).model_copy(deep=True)
    marker = unsealed._storage_update_marker or ""
    unsealed._storage_update_marker = f"{marker.rpartition('/')[0]}/1.000000000"
    await keeping.append_event(unsealed, event("6"))
    found = await read(keeping, WHO)

    assert [str(number) for number in range(7)] == texts(found.events)
