"""Create the sandbox of a runtime."""

from typing import Final

from gcp_adk_store.ces.sandbox import BubblewrapSandbox, InProcessSandbox, Sandbox
from gcp_adk_store.errors import InvalidInputError

_NAMES: Final = ("bubblewrap", "inprocess")


def open_sandbox(chosen: Sandbox | str | None, *, runs_at_once: int) -> tuple[Sandbox, bool]:
    """Return the sandbox, and whether it is new, so that the caller must close it.

    Args:
        chosen: A sandbox, the name of one, or None for bubblewrap.
        runs_at_once: The most runs at a time; enough that runs do not wait for runs within them.

    Raises:
        InvalidInputError: the name is unknown.
    """
    match chosen:
        case None | "bubblewrap":
            return BubblewrapSandbox(runs_at_once=runs_at_once, has_spare=True), True
        case "inprocess":
            return InProcessSandbox(), True
        case str():
            raise InvalidInputError(f"unknown sandbox {chosen[:40]!r}; known: {', '.join(_NAMES)}")
        case _:
            return chosen, False


def overlaps(sandbox: Sandbox) -> bool:
    """Whether runs of *sandbox* may overlap: those of one process share its modules and streams."""
    return not isinstance(sandbox, InProcessSandbox)
