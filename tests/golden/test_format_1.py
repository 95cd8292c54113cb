"""Read format 1 as it was first written, and write its fields so again."""

import json
import re
import zlib
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import ArtifactService, Store, StoredDataError
from tests.golden import scenarios
from tests.golden.raw import (
    Documents,
    Objects,
    put_documents,
    put_objects,
    read_golden,
    take_documents,
    take_objects,
)
from tests.golden.scenarios import ARTIFACTS, METADATA, OWNER, SCENARIOS, WHO, Connect

SESSION = "adk_apps/shop/adk_users/u%2F1/adk_sessions/%5F_s__"
_SAVE_ID = re.compile(r"[0-9a-f]{32}")


async def read(connect: Connect) -> Session:
    """Return the session of the golden files."""
    found = await connect().get_session(**WHO)
    assert found is not None
    return found


class TestReading:
    """Documents that were not written by this release, put there round the library."""

    async def test_state_of_user_and_app(self, connect: Connect, project: str) -> None:
        """It is merged into a session, and read without one."""
        golden = read_golden("shared_state")
        put_documents(project, {path: fields for path, fields in golden.items() if path != SESSION})
        await connect().create_session(**WHO, state={"mine": None})
        merged = {
            "mine": None,
            "user:name": None,
            "user:tags": ["a"],
            "app:motto": {"of": "the shop"},
            "app:open": True,
        }
        listed = (await connect().list_sessions(app_name="shop")).sessions

        assert merged == (await read(connect)).state
        assert [merged] == [one.state for one in listed]
        assert {"name": None, "tags": ["a"]} == await connect().get_user_state(app_name="shop", user_id="u/1")

    async def test_a_session_is_refused(self, connect: Connect, project: str) -> None:
        """No release wrote it: the error names the document, both numbers and what to do."""
        put_documents(project, read_golden("shared_state"))
        with pytest.raises(StoredDataError, match="has format 1, this release reads 2"):
            await connect().get_session(**WHO)

    async def test_a_deletion_that_was_interrupted(self, connect: Connect, project: str) -> None:
        """The session is gone; deleting it again removes the rest."""
        put_documents(project, read_golden("deletion_note"))
        assert await connect().get_session(**WHO) is None
        await connect().delete_session(**WHO)

        assert {} == take_documents(project)

    async def test_artifacts_of_each_kind(self, adk_store: Store) -> None:
        """Parts, metadata and names."""
        service: ArtifactService = adk_store.artifacts
        put_objects(service.bucket_name, read_golden("artifacts"))
        loaded = {name: await service.load_artifact(**OWNER, filename=name, version=0) for name in ARTIFACTS}
        described = await service.get_artifact_version(**OWNER, filename="bytes", version=0)

        assert {**ARTIFACTS, "tombstone": None, "reference": ARTIFACTS["bytes"]} == loaded
        assert sorted(ARTIFACTS) == await service.list_artifact_keys(**OWNER)
        assert types.Part(text="second") == await service.load_artifact(**OWNER, filename="bytes")
        assert described is not None
        assert METADATA == described.custom_metadata


class TestWriting:
    """What this release writes, taken out round the library.

    A field of a golden document is written as it is there, but the number of the format, which is 2 in
    sessions and segments. Fields that a later release adds to a document may stand beside them; ADK decides
    what an event's text holds, so events are compared as events.
    """

    @pytest.mark.parametrize("name", SCENARIOS)
    @pytest.mark.usefixtures("fixed")
    async def test_documents(self, connect: Connect, project: str, name: str) -> None:
        """The same paths, and in each document the same fields."""
        golden: Documents = read_golden(name)
        await SCENARIOS[name](connect)
        written = take_documents(project)

        assert sorted(golden) == sorted(written)
        for path, fields in golden.items():
            kept = {field: written[path][field] for field in fields if field in written[path]}
            kept["format"] = 1
            assert exact(legible(fields)) == exact(legible(kept))

    async def test_objects(self, adk_store: Store) -> None:
        """The same names, and each object's content type, metadata and bytes."""
        golden: Objects = read_golden("artifacts")
        service: ArtifactService = adk_store.artifacts
        await scenarios.artifacts(service)
        written = take_objects(service.bucket_name)

        assert sorted(golden) == sorted(written)
        for name, stored in golden.items():
            metadata = written[name]["metadata"]
            assert _SAVE_ID.fullmatch(metadata["adkStoreSaveId"])
            kept = {key: metadata.get(key) for key in stored["metadata"]}
            assert stored == {
                **written[name],
                "metadata": {**kept, "adkStoreSaveId": stored["metadata"]["adkStoreSaveId"]},
            }


def legible(fields: dict[str, Any]) -> dict[str, Any]:
    """Return *fields* with events and bodies as what they mean, sizes as whether they are right."""
    texts = {"tail": fields.get("tail"), "body": _unpacked(fields)}
    meant = fields | {
        name: [Event.model_validate_json(text).model_dump(mode="json") for text in found]
        for name, found in texts.items()
        if found is not None
    }
    if "tail_bytes" in fields:
        meant["tail_bytes"] = fields["tail_bytes"] == sum(len(text.encode()) for text in fields["tail"])
    return meant


def _unpacked(fields: dict[str, Any]) -> list[str] | None:
    return json.loads(zlib.decompress(fields["body"])) if "count" in fields else None


def exact(value: Any) -> str:
    """Return *value* so that equal texts mean equal types too."""
    return json.dumps(value, sort_keys=True, indent=1, default=str)
