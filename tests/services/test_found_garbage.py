"""What the collector does that it must not."""

import time
from typing import Any

import pytest
import requests
from google.adk.platform import time as platform_time
from google.genai import types

from gcp_adk_store import FirestoreSessionService, GcsArtifactService, SessionLimits, Store
from gcp_adk_store.testing.emulators import Emulator
from tests.services.conftest import WHO, Connect, event


async def test_artifacts_of_an_app_of_whatever_name_are_no_uploads(adk_store_bucket: str) -> None:
    """ADK takes this name of an app, and so does this library."""
    service = GcsArtifactService(adk_store_bucket)
    of: dict[str, Any] = {"app_name": "adk-store-uploads", "user_id": "u", "session_id": "s", "filename": "f"}
    await service.save_artifact(**of, artifact=types.Part(text="mine"))
    platform_time.set_time_provider(lambda: time.time() + 2 * 24 * 3600)
    found = [garbage async for garbage in service.find_garbage()]
    for garbage in found:
        await service.remove_garbage(garbage)
    platform_time.reset_time_provider()

    assert await service.load_artifact(**of) is not None
    assert [] == found


async def test_payloads_of_the_release_before_that_are_in_use_are_not_found(
    connect: Connect, adk_store_bucket: str, storage_emulator: Emulator
) -> None:
    """Their objects have no metadata."""
    service = connect(bucket=adk_store_bucket, limits=SessionLimits(state_value_bytes=10))
    await service.create_session(**WHO, state={"large": "x" * 100})
    objects = f"{storage_emulator.address}/storage/v1/b/{adk_store_bucket}/o"
    (name,) = [item["name"] for item in requests.get(objects, timeout=10).json()["items"]]
    patched = requests.patch(
        f"{objects}/{name.replace('/', '%2F')}", json={"metadata": {"adkStoreOwner": None}}, timeout=10
    )
    assert "adkStoreOwner" not in (patched.json().get("metadata") or {})
    platform_time.set_time_provider(lambda: time.time() + 2 * 24 * 3600)
    found = [garbage async for garbage in service.find_garbage()]
    platform_time.reset_time_provider()

    assert [] == found
