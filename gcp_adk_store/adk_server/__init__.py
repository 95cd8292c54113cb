"""Let ADK's servers and commands use the store."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.adk_server.app import answer_errors, lifespan, tune_gc
    from gcp_adk_store.adk_server.following import follow_sessions
    from gcp_adk_store.adk_server.routes import add_store_routes
    from gcp_adk_store.adk_server.services import (
        artifact_service,
        memory_service,
        missing_bucket,
        register,
        session_service,
        task_store,
    )
    from gcp_adk_store.adk_server.turns import one_turn_at_a_time

__all__ = [
    "add_store_routes",
    "answer_errors",
    "artifact_service",
    "follow_sessions",
    "lifespan",
    "memory_service",
    "missing_bucket",
    "one_turn_at_a_time",
    "register",
    "session_service",
    "task_store",
    "tune_gc",
]

offer(
    __name__,
    {
        "app": ("answer_errors", "lifespan", "tune_gc"),
        "following": ("follow_sessions",),
        "routes": ("add_store_routes",),
        "services": (
            "artifact_service",
            "memory_service",
            "missing_bucket",
            "register",
            "session_service",
            "task_store",
        ),
        "turns": ("one_turn_at_a_time",),
    },
)
