"""The store's own client of Cloud Storage sends what its operations ask for, and nothing else."""

import threading
from collections.abc import Callable
from typing import Any

import requests

from gcp_adk_store import ArtifactLimits
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.cloud.storage.objects import Objects

FETCHES = "_fetch_background"
"""What the threads are for that Google's client starts by itself, by the end of their names."""


async def test_a_new_client_does_not_look_at_the_bucket_by_itself(adk_store_bucket: str) -> None:
    """Google's client asks for its place for each bucket, on a thread: a request that nobody counts."""
    sent: list[str] = []

    def note(answer: requests.Response, **_: Any) -> None:
        sent.append(f"{answer.request.method} {answer.request.path_url.partition('?')[0]}")

    calls = StorageCalls(
        adk_store_bucket, project=None, client=None, credentials=None, limits=ArtifactLimits()
    )
    hooks: list[Callable[..., Any]] = calls.session().hooks["response"]
    hooks.append(note)
    objects = Objects(calls)
    assert await objects.info("none") is None
    for thread in threading.enumerate():
        if FETCHES in thread.name:
            thread.join()
    await objects.close()

    bucket = f"/storage/v1/b/{adk_store_bucket}"
    assert [f"GET {bucket}/o/none", f"GET {bucket}/o"] == sent, "the object, and whether there is a bucket"
