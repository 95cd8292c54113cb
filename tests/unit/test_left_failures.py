"""Failures of appends whose handles are gone: one session's, or one user's, push out no other's."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.sessions.append.queue import PendingAppends, QueuedAppend

FIRST = SessionKey(app="app", user="first", session="session")


class _EndedTurn:
    has_ended = True


async def _never(key: SessionKey, waiting: QueuedAppend) -> Event:
    raise AssertionError(key, waiting)


def _fail(pending: PendingAppends, key: SessionKey) -> None:
    """Let an append of a turn fail that was cancelled since, and whose handle is gone."""
    turn = cast(Any, _EndedTurn())
    session = Session(app_name=key.app, user_id=key.user, id=key.session)
    waiting = QueuedAppend(session, Event(author="a"), asyncio.get_running_loop(), turn)
    pending.fail(key, waiting, UnavailableError("refused"))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda _: SessionKey(app="app", user="other", session="one"), id="of one session"),
        pytest.param(lambda n: SessionKey(app="app", user="other", session=f"{n}"), id="of one user"),
    ],
)
async def test_failures_of_another_do_not_push_out_a_failure(other: Callable[[int], SessionKey]) -> None:
    """It is still raised, however many turns of that other one failed before and after."""
    pending = PendingAppends(_never)
    for number in range(1_500):
        _fail(pending, other(number))
    _fail(pending, FIRST)
    for number in range(1_500, 3_000):
        _fail(pending, other(number))

    with pytest.raises(UnavailableError, match="user_id='first'"):
        pending.require_all(FIRST)


async def test_what_is_kept_is_bounded_and_raised_once_each() -> None:
    """Each session has 10 at most, and all have 1,000."""
    raised = []
    for sessions in (1, 5_000):
        pending = PendingAppends(_never)
        for number in range(5_000):
            _fail(pending, SessionKey(app="app", user=f"{number % 7}", session=f"{number % sessions}"))
        raised.append(0)
        while True:
            try:
                pending.require_all()
            except UnavailableError:
                raised[-1] += 1
            else:
                break

    assert [70, 1_000] == raised
