"""Decide what a save of an A2A task comes to, where another writer was first."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gcp_adk_store.errors import TaskConflictError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.tasks.format import Packed, StoredTask, TaskHeader
from gcp_adk_store.tasks.sdk import needs_a2a

with needs_a2a():
    from a2a.server.cluster import ConcurrentTaskModificationError
    from a2a.types import TaskState

_ENDED: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)


class ConcurrentTaskError(TaskConflictError, ConcurrentTaskModificationError):
    """The same for this library's callers and for the SDK, which reads the task again and goes on."""

    def __init__(self, message: str, **about: Any) -> None:
        super().__init__(message, **about)
        self.args = (message,)  # the SDK's class takes an id, and makes a text of it
        self.task_id = ""


class Version(NamedTuple):
    """A stored state of a task, which a later save may require."""

    update_time: str
    pieces: Sequence[str]
    """Paths of the pieces to remove with it."""
    sha256: str
    """Of its content."""

    def follows(self, other: "Version") -> bool:
        """Return whether it was stored after the *other* one of the same task."""
        return float(self.update_time) > float(other.update_time)


def version_of(found: StoredTask) -> Version:
    """Return the version of a task that was read."""
    return Version(found.update_time, found.pieces, found.sha256)


def over(
    known: Version | None,
    found: StoredTask | None,
    header: TaskHeader,
    packed: Packed,
    *,
    made_before: Version | None,
    renews: bool,
) -> Version | None:
    """Return the version that a save of what derives from *known* comes to; ``None`` to try again over it.

    *made_before* is what another object made of the same content before, if any. The save *renews* the life
    of a task that it leaves as it is.

    Raises:
        TaskConflictError: the stored task has another content than *known*. Or *known* is ``None``, and the
            stored task has ended, and the one of *header* has not.
    """
    if known is None:
        if found is None or found.has_expired:
            return None
        if found.sha256 == packed.sha256 and not renews:
            return version_of(found)  # it would replace a task by its equal
        if found.header.state in _ENDED and header.state not in _ENDED:
            raise _conflict("ended")
        return None
    if found is None:
        raise _conflict("deleted")
    if found.sha256 == known.sha256 and not found.has_expired:
        return None  # it was stored again as it was
    if made_before is not None:
        return made_before  # another object made the same of the same
    if packed.sha256 == known.sha256:
        return known  # it changes nothing
    raise _conflict("changed")


def _conflict(what_others_did: str) -> ConcurrentTaskError:
    telemetry.count_conflict()
    return ConcurrentTaskError(
        f"another writer {what_others_did} the task first; nothing was written: get it and decide again"
    )
