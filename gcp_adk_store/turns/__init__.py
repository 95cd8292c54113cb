"""One turn of a session at a time, across processes."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.turns.plugin import TurnPlugin
    from gcp_adk_store.turns.running import Turns
    from gcp_adk_store.turns.service import TurnLease, TurnStatus

__all__ = ["TurnLease", "TurnPlugin", "TurnStatus", "Turns"]

offer(
    __name__,
    {
        "plugin": ("TurnPlugin",),
        "running": ("Turns",),
        "service": ("TurnLease", "TurnStatus"),
    },
)
