"""Restore sessions while answers get lost, and append to sessions that are restored meanwhile."""

from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store import OutcomeUnknownError, Point, SessionConflictError
from tests.services.conftest import APP, USER, WHO, Connect, LosesOneWhile, LostAnswers, event, texts

pytestmark = pytest.mark.emulators

BEFORE_TURN = Point.before_invocation("third")


def in_turn(words: str, turn: str, **delta: Any) -> Event:
    """Return an event of a turn."""
    made = event(words, delta=delta)
    made.invocation_id = turn
    return made


async def fill(connect: Connect) -> Session:
    """Make a session of three turns."""
    held = await connect().create_session(**WHO)
    for turn in ("first", "second", "third"):
        await connect().append_event(held, in_turn(turn, turn, n=turn))
    return held


async def said(connect: Connect) -> list[str | None]:
    """Return what the events say."""
    found = await connect().get_session(**WHO)
    assert found is not None
    return texts(found.events)


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_restore_whose_answer_is_lost_happens_once(connect: Connect, lost: int) -> None:
    """Also if its point no longer exists after it."""
    await fill(connect)
    restored = await connect(interceptors=[LostAnswers(lost)]).restore_session(**WHO, at=BEFORE_TURN)

    assert ["first", "second"] == texts(restored.events) == await said(connect)
    assert {"n": "second"} == restored.state


async def test_a_lost_restore_does_not_cut_off_what_others_append_after_it(connect: Connect) -> None:
    """It recognises itself by its id."""
    await fill(connect)

    async def go_on() -> None:
        other = await connect().get_session(**WHO)
        assert other is not None
        await connect().append_event(other, in_turn("after", "fourth"))

    losing = connect(interceptors=[LosesOneWhile(go_on)])
    restored = await losing.restore_session(**WHO, at=Point.position(2))

    assert ["first", "second", "after"] == texts(restored.events) == await said(connect)


async def test_a_restore_that_never_left_cuts_off_what_others_append_before_it(connect: Connect) -> None:
    """It is sent again, for the session as it is then."""
    await fill(connect)

    async def go_on() -> None:
        other = await connect().get_session(**WHO)
        assert other is not None
        await connect().append_event(other, in_turn("before", "fourth"))

    losing = connect(interceptors=[LosesOneWhile(go_on, before_sending=True)])
    await losing.restore_session(**WHO, at=Point.position(2))

    assert ["first", "second"] == await said(connect)


async def test_a_lost_restore_before_another_one_is_unknown(connect: Connect) -> None:
    """Only the last restore is known by its id."""
    await fill(connect)

    async def restore() -> None:
        await connect().restore_session(**WHO, at=Point.position(1))

    losing = connect(interceptors=[LosesOneWhile(restore)])
    with pytest.raises(OutcomeUnknownError, match="another call restored or deleted the session"):
        await losing.restore_session(**WHO, at=Point.position(2))

    assert ["first"] == await said(connect)


async def test_a_lost_restore_before_a_deletion_is_unknown(connect: Connect) -> None:
    """The session may have been restored before."""
    await fill(connect)

    async def delete() -> None:
        await connect().delete_session(**WHO)

    losing = connect(interceptors=[LosesOneWhile(delete)])
    with pytest.raises(OutcomeUnknownError, match="another call restored or deleted the session"):
        await losing.restore_session(**WHO, at=Point.position(2))


@pytest.mark.parametrize("on_conflict", ["raise", "merge"])
@pytest.mark.parametrize("keep", [3, 4])
async def test_a_lost_append_to_a_session_that_is_restored_is_settled(
    connect: Connect, on_conflict: Any, keep: int
) -> None:
    """It succeeds if the restore kept it, and conflicts if the restore cut it off; it is not sent again."""
    held = await fill(connect)

    async def restore() -> None:
        other = await connect().get_session(**WHO)
        assert other is not None
        await connect().append_event(other, event("other"))
        await connect().restore_session(**WHO, at=Point.position(keep))

    losing = connect(interceptors=[LosesOneWhile(restore)], on_conflict=on_conflict)
    if keep == 4:
        await losing.append_event(held, event("lost"))
    else:
        with pytest.raises(SessionConflictError, match="was restored to an earlier point"):
            await losing.append_event(held, event("lost"))
    with pytest.raises(SessionConflictError, match="was restored to an earlier point"):
        await connect(on_conflict=on_conflict).append_event(held, event("late"))

    assert ["first", "second", "third", "lost"][:keep] == await said(connect)


async def test_a_lost_append_that_is_cut_off_may_have_changed_shared_state(connect: Connect) -> None:
    """A restore does not take it back, so the outcome is not called refused."""
    held = await fill(connect)

    async def restore() -> None:
        await connect().restore_session(**WHO, at=Point.position(2))

    losing = connect(interceptors=[LosesOneWhile(restore)])
    with pytest.raises(OutcomeUnknownError, match="the session was restored to an earlier point"):
        await losing.append_event(held, event("lost", delta={"user:n": 1}))

    assert {"n": 1} == await connect().get_user_state(app_name=APP, user_id=USER)
