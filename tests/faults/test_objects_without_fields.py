"""An object whose resource lacks what every object has is reported by its name."""

import io
import json

import pytest

from gcp_adk_store import ArtifactService, GcsArtifactService, SessionService, StoredDataError
from gcp_adk_store.testing.faults import Garble, from_nth, only
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import FILE, NAME, TEXT, Act, garbage_of

FIELDS = {"size": "size", "generation": "generation", "timeCreated": "time_created"}


def without(field: str, value: str | None = None) -> Garble:
    """Return the fault that takes *field* out of objects, or gives it another *value*."""

    def change(body: bytes) -> bytes:
        answer = json.loads(body)
        for resource in answer.get("items", [answer]):
            resource.pop(field, None)
            if value is not None:
                resource[field] = value
        return json.dumps(answer).encode()

    return Garble(change)


@pytest.fixture
async def saved(service: ArtifactService, adk_store_bucket: str) -> ArtifactService:
    """The service, which does not know that it has one version."""
    await GcsArtifactService(adk_store_bucket).save_artifact(**FILE, artifact=TEXT)
    return service


@pytest.mark.parametrize(
    "read",
    [
        lambda service: service.list_artifact_versions(**FILE),
        lambda service: service.get_artifact_version(**FILE),
        lambda service: service.get_artifact_version(**FILE, version=0),
        lambda service: service.load_artifact(**FILE),
        lambda service: service.load_artifact(**FILE, version=0),
        lambda service: service.load_artifact_to(**FILE, target=io.BytesIO()),
        lambda service: service.open_artifact(**FILE),
        lambda service: service.copy_artifact(**FILE, to_filename="other"),
    ],
)
async def test_an_object_without_a_field_is_named(
    storage_proxy: StorageProxy, saved: ArtifactService, read: Act
) -> None:
    """By whichever method reads it."""
    for field, name in FIELDS.items():
        storage_proxy.plan = only(("list", "metadata"), from_nth(0, without(field)))
        with pytest.raises(StoredDataError) as caught:
            await read(saved)

        assert str(caught.value).endswith(f": object '{NAME}' has no {name}")


async def test_an_object_whose_field_is_damaged_is_named(
    storage_proxy: StorageProxy, saved: ArtifactService
) -> None:
    """Without what stands there."""
    for field, name in FIELDS.items():
        storage_proxy.plan = only("list", from_nth(0, without(field, "secret")))
        with pytest.raises(StoredDataError) as caught:
            await saved.list_artifact_versions(**FILE)

        assert str(caught.value).endswith(f": the {name} of object '{NAME}' cannot be read")


async def test_a_payload_without_a_size_is_named_to_a_collector(
    storage_proxy: StorageProxy, sessions: SessionService
) -> None:
    """It is neither collected nor passed over."""
    storage_proxy.plan = only("list", lambda _: without("size"))
    with pytest.raises(StoredDataError, match=r"object 'adk-payloads/.*' has no size"):
        await garbage_of(sessions)
