"""State what becomes of each kind of part that is saved."""
# ruff: noqa: SIM300  # expected values stand first

from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from gcp_adk_store.testing.conformance.artifact_examples import Ids, binary, file, text, tombstone
from gcp_adk_store.testing.conformance.running import in_its_own_loop

_PARTS = {
    "text": text("words"),
    "empty text": text(""),
    "long text": text("ünï \x00\r\n日本語\U0001f600" * 99),
    "bytes": binary(b"\x00\r\n\xff\x80"),
    "empty bytes": binary(b"", "application/pdf"),
    "text as bytes": binary("ünï".encode(), "text/plain"),
    "type with parameters": binary(b"x", "audio/pcm;rate=24000"),
    "named bytes": binary(b"x", display_name="pixel.png"),
    "name beyond ASCII": binary(b"x", display_name="Ünï 日本.png"),
    "empty named octets": binary(b"", "application/octet-stream", "named"),
    "file with type": file("gs://elsewhere/a b.pdf", "application/pdf"),
    "file without type": file("https://example.com/a?b=c#d"),
}

_SPELLINGS = {
    "snake": {"inline_data": {"data": "AP8=", "mime_type": "x/y", "display_name": "n"}},
    "camel": {"inlineData": {"data": "AP8=", "mimeType": "x/y", "displayName": "n"}},
}


class KeepingParts:
    """Tests of what is saved and loaded."""

    @pytest.mark.parametrize("name", ["report", "user:report"])
    @pytest.mark.parametrize("kind", _PARTS)
    @in_its_own_loop
    async def test_a_part_comes_back_as_it_was_saved(
        self, artifact_service: BaseArtifactService, place: Ids, name: str, kind: str
    ) -> None:
        """Kind, content, type and display name; in both scopes, by its number and as the latest."""
        named = {**place, "filename": name}
        await artifact_service.save_artifact(**named, artifact=_PARTS[kind])

        assert _PARTS[kind] == await artifact_service.load_artifact(**named)
        assert _PARTS[kind] == await artifact_service.load_artifact(**named, version=0)

    @pytest.mark.parametrize("spelling", _SPELLINGS)
    @in_its_own_loop
    async def test_a_dictionary_is_a_part_in_either_spelling(
        self, artifact_service: BaseArtifactService, report: Ids, spelling: str
    ) -> None:
        """As it comes over ADK's REST API."""
        await artifact_service.save_artifact(**report, artifact=_SPELLINGS[spelling])

        assert binary(b"\x00\xff", "x/y", "n") == await artifact_service.load_artifact(**report)

    @in_its_own_loop
    async def test_a_dictionary_of_text_or_a_file_is_a_part(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """The other kinds too."""
        await artifact_service.save_artifact(**report, artifact={"text": ""})
        await artifact_service.save_artifact(
            **report, artifact={"fileData": {"fileUri": "gs://a/b", "mimeType": "x/y"}}
        )

        assert text("") == await artifact_service.load_artifact(**report, version=0)
        assert file("gs://a/b", "x/y") == await artifact_service.load_artifact(**report, version=1)

    @in_its_own_loop
    async def test_a_saved_part_is_a_copy(self, artifact_service: BaseArtifactService, report: Ids) -> None:
        """What becomes of the part that was saved, or of one that was loaded, reaches no other reader."""
        given = binary(b"kept")
        await artifact_service.save_artifact(**report, artifact=given)
        loaded = await artifact_service.load_artifact(**report)
        for part in (given, loaded):
            assert part is not None
            assert part.inline_data is not None
            part.inline_data.data = b"spoilt"

        assert binary(b"kept") == await artifact_service.load_artifact(**report)

    @in_its_own_loop
    async def test_a_tombstone_loads_as_absent_and_keeps_its_number(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """A rewind saves it: exactly the empty octet stream without a name. What was before is kept."""
        await artifact_service.save_artifact(**report, artifact=text("before"))
        await artifact_service.save_artifact(**report, artifact=tombstone())

        assert None is await artifact_service.load_artifact(**report)
        assert None is await artifact_service.load_artifact(**report, version=1)
        assert text("before") == await artifact_service.load_artifact(**report, version=0)
        assert [0, 1] == await artifact_service.list_versions(**report)
        assert 2 == await artifact_service.save_artifact(**report, artifact=text("after"))  # noqa: PLR2004  # third

    @pytest.mark.parametrize(
        "artifact",
        [
            types.Part(),
            types.Part(function_call=types.FunctionCall(name="f")),
            types.Part(inline_data=types.Blob(mime_type="x/y")),
            file(""),
        ],
        ids=["nothing", "a call", "bytes without bytes", "a file without a URI"],
    )
    @in_its_own_loop
    async def test_a_part_that_holds_nothing_to_save_is_refused(
        self, artifact_service: BaseArtifactService, report: Ids, artifact: types.Part
    ) -> None:
        """And saves nothing."""
        with pytest.raises(InputValidationError):
            await artifact_service.save_artifact(**report, artifact=artifact)

        assert [] == await artifact_service.list_versions(**report)

    @pytest.mark.parametrize(
        "custom",
        [
            {"text": "words"},
            {"number": 1, "fraction": 0.5, "truth": True},
            {"nothing": None, "empty": ""},
            {"list": [1, "a", None], "deep": {"a": {"b": []}}},
            {"ünï": "日本", "with space": "a\nb", "1": "digit"},
        ],
        ids=["text", "numbers", "empty", "nested", "odd"],
    )
    @in_its_own_loop
    async def test_custom_metadata_keeps_its_types(
        self, artifact_service: BaseArtifactService, report: Ids, custom: dict[str, Any]
    ) -> None:
        """Whatever JSON can hold, for one version and in the list of all."""
        await artifact_service.save_artifact(**report, artifact=text("x"), custom_metadata=custom)
        found = await artifact_service.get_artifact_version(**report)
        listed = await artifact_service.list_artifact_versions(**report)

        assert found is not None
        assert custom == found.custom_metadata
        assert [custom] == [one.custom_metadata for one in listed]
