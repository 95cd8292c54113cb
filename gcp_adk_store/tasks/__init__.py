"""Keep A2A tasks, and where to send their news, for servers of ``a2a-sdk``; needs the extra ``a2a``."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import importer

if TYPE_CHECKING:
    from gcp_adk_store.tasks.push_configs import FirestorePushNotificationConfigStore
    from gcp_adk_store.tasks.task_store import FirestoreTaskStore

__all__ = ["FirestorePushNotificationConfigStore", "FirestoreTaskStore"]

__getattr__ = importer(
    __name__,
    {
        "push_configs": ("FirestorePushNotificationConfigStore",),
        "task_store": ("FirestoreTaskStore",),
    },
)
