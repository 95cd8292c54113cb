"""One turn of a session at a time, across processes."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.turns.lease import TurnLease
    from gcp_adk_store.turns.plugin import TurnPlugin
    from gcp_adk_store.turns.running import Turns
    from gcp_adk_store.turns.service import TurnStatus

__all__ = ["TurnLease", "TurnPlugin", "TurnStatus", "Turns"]

offer(
    __name__,
    {
        "lease": ("TurnLease",),
        "plugin": ("TurnPlugin",),
        "running": ("Turns",),
        "service": ("TurnStatus",),
    },
)
