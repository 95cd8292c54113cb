"""Let ADK's servers and commands use the store."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gcp_adk_store.adk_server.app import answer_errors, lifespan, tune_gc
    from gcp_adk_store.adk_server.services import (
        artifact_service,
        missing_bucket,
        register,
        session_service,
    )

__all__ = [
    "answer_errors",
    "artifact_service",
    "lifespan",
    "missing_bucket",
    "register",
    "session_service",
    "tune_gc",
]

_OF_THE_APP: Final = {"answer_errors", "lifespan", "tune_gc"}


def __getattr__(name: str) -> Any:
    # Imported at the first use: the log formatter in this package needs neither FastAPI nor a service.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "app" if name in _OF_THE_APP else "services"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
