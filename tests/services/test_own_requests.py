"""The store's own client of Cloud Storage sends what its operations ask for, and nothing else."""

import threading
from typing import Any

import pytest
import requests

from gcp_adk_store import GcsArtifactService

FETCHES = "_fetch_background"
"""What the threads are for that Google's client starts by itself, by the end of their names."""


async def test_a_new_client_does_not_look_at_the_bucket_by_itself(
    adk_store_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's client asks for its place for each bucket, on a thread: a request that nobody counts."""
    sent: list[str] = []
    send: Any = requests.Session.send

    def noted(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> Any:
        if adk_store_bucket in request.path_url:  # threads of earlier tests may still ask for their buckets
            sent.append(f"{request.method} {request.path_url.partition('?')[0]}")
        return send(session, request, **options)

    monkeypatch.setattr(requests.Session, "send", noted)
    artifacts = GcsArtifactService(adk_store_bucket)
    none = {"app_name": "a", "user_id": "u", "filename": "user:f"}
    for _ in range(2):
        assert await artifacts.get_artifact_version(**none, version=0) is None
    for thread in threading.enumerate():
        if FETCHES in thread.name:
            thread.join()
    await artifacts.close()

    bucket = f"/storage/v1/b/{adk_store_bucket}"
    name = "a%2Fu%2Fuser%2Fuser%3Af%2F0"
    looks = [f"GET {bucket}/o/{name}", f"GET {bucket}/o", f"GET {bucket}/o/{name}"]
    assert looks == sent, "the object, once whether there is a bucket, and the object"
