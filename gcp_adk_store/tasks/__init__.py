"""Keep A2A tasks, and where to send their news, for servers of ``a2a-sdk``; needs the extra ``a2a``."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.tasks.firestore import FirestorePushNotificationConfigStore, FirestoreTaskStore
    from gcp_adk_store.tasks.push_configs import PushNotificationConfigStore
    from gcp_adk_store.tasks.task_store import TaskStore

__all__ = [
    "FirestorePushNotificationConfigStore",
    "FirestoreTaskStore",
    "PushNotificationConfigStore",
    "TaskStore",
]

offer(
    __name__,
    {
        "firestore": ("FirestorePushNotificationConfigStore", "FirestoreTaskStore"),
        "push_configs": ("PushNotificationConfigStore",),
        "task_store": ("TaskStore",),
    },
)
