"""Read, export, erase, prune and verify all sessions of an app, on Apache Beam."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.bulk.jobs import BulkStore, counts_of, run
    from gcp_adk_store.bulk.transforms import (
        EraseUsers,
        PruneSessions,
        ReadEvents,
        ReadSessions,
        VerifySessions,
        WriteParquet,
    )
    from gcp_adk_store.erasure.pruning import Retention

__all__ = [
    "BulkStore",
    "EraseUsers",
    "PruneSessions",
    "ReadEvents",
    "ReadSessions",
    "Retention",
    "VerifySessions",
    "WriteParquet",
    "counts_of",
    "run",
]

offer(
    __name__,
    {
        "jobs": ("BulkStore", "counts_of", "run"),
        "transforms": (
            "EraseUsers",
            "PruneSessions",
            "ReadEvents",
            "ReadSessions",
            "Retention",  # of a store's erasure
            "VerifySessions",
            "WriteParquet",
        ),
    },
)
