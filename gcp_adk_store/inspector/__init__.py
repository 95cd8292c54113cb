"""Pages that show the sessions, artifacts and memories of a store."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.inspector.app import create_app
    from gcp_adk_store.inspector.guard import IapAuthorization
    from gcp_adk_store.inspector.requests import ModelRequestPlugin

__all__ = ["IapAuthorization", "ModelRequestPlugin", "create_app"]

offer(
    __name__,
    {
        "app": ("create_app",),
        "guard": ("IapAuthorization",),
        "requests": ("ModelRequestPlugin",),
    },
)
