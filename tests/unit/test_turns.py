"""Show what an append of a turn comes to, and what may wait for one."""

from dataclasses import replace

import pytest

from gcp_adk_store import InvalidInputError, SessionInboxFullError
from gcp_adk_store.model.appends import Append
from gcp_adk_store.model.session_fields import MAX_WAITING, MAX_WAITING_BYTES, Turn, require_room
from gcp_adk_store.model.sessions import AppendOutcome, StoredSession, resolve_outcome
from gcp_adk_store.model.state import ScopedState
from tests.unit.test_session_decisions import stored

MINE = Append(texts=["mine"], timestamp=1.0, delta=ScopedState())
STORED = replace(
    stored(revision=4),
    chain=bytes(32),
    update_time="5.000000000",
    read_time=5.0,
    turn=Turn(fence=2, holder="h", until=60.0),
)
SEEN = STORED.marker


@pytest.mark.parametrize(
    ("stored", "newest", "turn", "expected"),
    [
        pytest.param(STORED, [], ("e1", 2), AppendOutcome.RETRY, id="mine still"),
        pytest.param(STORED, [], ("e1", 1), AppendOutcome.LOST, id="nothing appended, another turn"),
        pytest.param(STORED, [], None, AppendOutcome.RETRY, id="no part of a turn"),
        pytest.param(STORED, [], ("e0", 2), AppendOutcome.LOST, id="a turn of an earlier session"),
        pytest.param(replace(STORED, turn=None), [], ("e1", 1), AppendOutcome.LOST, id="never had a turn"),
        pytest.param(
            replace(STORED, revision=5), ["b"], ("e1", 1), AppendOutcome.LOST, id="another was first"
        ),
        pytest.param(replace(STORED, revision=5), ["b"], ("e1", 2), AppendOutcome.STALE, id="from outside"),
        pytest.param(
            replace(STORED, revision=5), ["mine"], ("e1", 1), AppendOutcome.LANDED, id="landed before"
        ),
        pytest.param(
            replace(STORED, revision=6),
            ["mine", "b"],
            ("e1", 1),
            AppendOutcome.OVERTAKEN,
            id="landed, overtaken",
        ),
        pytest.param(replace(STORED, epoch="e2"), [], ("e1", 2), AppendOutcome.MISSING, id="made anew"),
        pytest.param(None, [], ("e1", 2), AppendOutcome.MISSING, id="deleted"),
    ],
)
def test_an_append_of_a_turn_requires_the_fence_unless_it_landed_before(
    stored: StoredSession | None, newest: list[str], turn: tuple[str, int] | None, expected: AppendOutcome
) -> None:
    """Whatever became of the revision."""
    assert expected is resolve_outcome(MINE, marker=SEEN, stored=stored, newest=newest, turn=turn)


def test_what_waits_is_bounded_in_number_and_bytes() -> None:
    """One message over the limit can never wait; one too many can later."""
    require_room(["x"] * (MAX_WAITING - 1), "y")
    require_room([], "y" * MAX_WAITING_BYTES)
    with pytest.raises(SessionInboxFullError, match="100 messages"):
        require_room(["x"] * MAX_WAITING, "y")
    with pytest.raises(SessionInboxFullError, match="bytes"):
        require_room(["x"], "y" * MAX_WAITING_BYTES)
    with pytest.raises(InvalidInputError, match="at most 262144"):
        require_room([], "y" * (MAX_WAITING_BYTES + 1))
