"""Versions of artifacts and the kinds of their parts."""

import asyncio
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.platform import time as platform_time
from google.genai import types

from gcp_adk_store.testing.conformance.running import (
    Ids,
    binary,
    file,
    in_loops_of_their_own,
    text,
    tombstone,
)

_NAMES = ["report", "user:report", "docs/report", "user:docs/report"]


@in_loops_of_their_own
class CountingVersions:
    """Tests of versions and what is said of them."""

    @pytest.mark.parametrize("name", _NAMES)
    async def test_versions_count_up_from_zero(
        self, artifact_service: BaseArtifactService, place: Ids, name: str
    ) -> None:
        """Each keeps its own content; the latest is the highest number, also after the ninth."""
        named = {**place, "filename": name}
        saved = [
            await artifact_service.save_artifact(**named, artifact=text(f"{number}")) for number in range(12)
        ]
        loaded = [await artifact_service.load_artifact(**named, version=number) for number in range(12)]
        described = await artifact_service.list_artifact_versions(**named)

        assert list(range(12)) == saved
        assert list(range(12)) == await artifact_service.list_versions(**named)
        assert list(range(12)) == [one.version for one in described]
        assert [text(f"{number}") for number in range(12)] == loaded
        assert text("11") == await artifact_service.load_artifact(**named)
        assert described[-1] == await artifact_service.get_artifact_version(**named)
        assert 12 == await artifact_service.save_artifact(**named, artifact=text("12"))

    async def test_versions_of_one_artifact_may_be_of_different_kinds(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """Text, bytes and files follow one another."""
        parts = [text("a"), binary(b"a", display_name="a"), file("gs://a/b"), text("")]
        for part in parts:
            await artifact_service.save_artifact(**report, artifact=part)

        assert parts == [await artifact_service.load_artifact(**report, version=n) for n in range(4)]

    async def test_what_is_not_there_is_none_or_empty(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """For every method that reads."""
        assert None is await artifact_service.load_artifact(**report)
        assert None is await artifact_service.load_artifact(**report, version=0)
        assert None is await artifact_service.get_artifact_version(**report)
        assert None is await artifact_service.get_artifact_version(**report, version=0)
        assert [] == await artifact_service.list_versions(**report)
        assert [] == await artifact_service.list_artifact_versions(**report)

    @pytest.mark.parametrize("version", [1, 99, -1, -2])
    async def test_a_version_that_is_not_there_is_none(
        self, artifact_service: BaseArtifactService, report: Ids, version: int
    ) -> None:
        """Negative numbers do not count from the end."""
        await artifact_service.save_artifact(**report, artifact=text("0"))

        assert None is await artifact_service.load_artifact(**report, version=version)
        assert None is await artifact_service.get_artifact_version(**report, version=version)

    @pytest.mark.parametrize(
        ("part", "mime_type"),
        [
            (binary(b"a", "image/png"), "image/png"),
            (text("a"), "text/plain"),
            (file("gs://a/b", "application/pdf"), "application/pdf"),
            (tombstone(), "application/octet-stream"),
        ],
        ids=["bytes", "text", "file", "tombstone"],
    )
    async def test_a_version_is_described(
        self, artifact_service: BaseArtifactService, report: Ids, part: types.Part, mime_type: str
    ) -> None:
        """By its number, type and time, without custom metadata where none was given."""
        start = platform_time.get_time()
        await artifact_service.save_artifact(**report, artifact=part)
        found = await artifact_service.get_artifact_version(**report, version=0)

        assert found is not None
        assert (0, mime_type, {}) == (found.version, found.mime_type, found.custom_metadata)
        assert start - 2 <= found.create_time <= platform_time.get_time() + 2
        assert [found] == await artifact_service.list_artifact_versions(**report)

    async def test_no_two_versions_have_one_uri(
        self, artifact_service: BaseArtifactService, place: Ids
    ) -> None:
        """Whatever scope, name and number they are of."""
        names = ["report", "user:report", "docs/report"]
        for name in names:
            for _ in range(2):
                await artifact_service.save_artifact(**place, filename=name, artifact=text("a"))
        described = [await artifact_service.list_artifact_versions(**place, filename=name) for name in names]

        assert 6 == len({one.canonical_uri for versions in described for one in versions} - {""})

    async def test_metadata_belongs_to_one_version(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """What a caller does to what it was given changes nothing."""
        given = {"a": "0"}
        await artifact_service.save_artifact(**report, artifact=text("a"), custom_metadata=given)
        await artifact_service.save_artifact(**report, artifact=text("b"), custom_metadata={"b": "1"})
        given["a"] = "spoilt"
        (spoilt, _) = await artifact_service.list_artifact_versions(**report)
        spoilt.custom_metadata["a"] = "spoilt"
        described = await artifact_service.list_artifact_versions(**report)

        assert [{"a": "0"}, {"b": "1"}] == [one.custom_metadata for one in described]

    async def test_concurrent_saves_each_get_a_number_of_their_own(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """Without a gap, and each number holds what was saved under it."""
        numbers = await asyncio.gather(
            *(artifact_service.save_artifact(**report, artifact=text(f"{n}")) for n in range(6))
        )
        loaded = [await artifact_service.load_artifact(**report, version=number) for number in numbers]

        assert list(range(6)) == sorted(numbers)
        assert [text(f"{n}") for n in range(6)] == loaded


@in_loops_of_their_own
class DeletingArtifacts:
    """Tests of ``delete_artifact``."""

    @pytest.mark.parametrize("name", _NAMES)
    async def test_a_deleted_artifact_is_gone_with_all_its_versions(
        self, artifact_service: BaseArtifactService, place: Ids, name: str
    ) -> None:
        """For every method that reads; numbers start again."""
        named = {**place, "filename": name}
        for number in range(3):
            await artifact_service.save_artifact(**named, artifact=text(f"{number}"))
        await artifact_service.delete_artifact(**named)

        assert None is await artifact_service.load_artifact(**named)
        assert None is await artifact_service.load_artifact(**named, version=1)
        assert None is await artifact_service.get_artifact_version(**named)
        assert [] == await artifact_service.list_versions(**named)
        assert [] == await artifact_service.list_artifact_keys(**place)
        assert 0 == await artifact_service.save_artifact(**named, artifact=text("again"))
        assert text("again") == await artifact_service.load_artifact(**named)

    async def test_deleting_what_is_not_there_is_no_error(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """An artifact that never was, and one that is gone."""
        await artifact_service.delete_artifact(**report)
        await artifact_service.save_artifact(**report, artifact=text("a"))
        await artifact_service.delete_artifact(**report)
        await artifact_service.delete_artifact(**report)

        assert [] == await artifact_service.list_versions(**report)

    async def test_a_deletion_spares_the_neighbours(
        self, artifact_service: BaseArtifactService, place: Ids, report: Ids
    ) -> None:
        """Of the same name elsewhere, and of longer names."""
        neighbours = [
            {**report, "filename": "report/nested"},
            {**report, "filename": "report/0"},
            {**report, "filename": "report2"},
            {**report, "filename": "user:report"},
            {**report, "session_id": "another"},
            {**report, "user_id": "another"},
            {**report, "app_name": f"{place['app_name']}-2"},
        ]
        for named in (report, *neighbours):
            await artifact_service.save_artifact(**named, artifact=text("a"))
        await artifact_service.delete_artifact(**report)

        assert [text("a")] * 7 == [await artifact_service.load_artifact(**named) for named in neighbours]
        assert [[0]] * 7 == [await artifact_service.list_versions(**named) for named in neighbours]


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


@in_loops_of_their_own
class KeepingParts:
    """Tests of what is saved and loaded."""

    @pytest.mark.parametrize("name", ["report", "user:report"])
    @pytest.mark.parametrize("kind", _PARTS)
    async def test_a_part_comes_back_as_it_was_saved(
        self, artifact_service: BaseArtifactService, place: Ids, name: str, kind: str
    ) -> None:
        """Kind, content, type and display name; in both scopes, by its number and as the latest."""
        named = {**place, "filename": name}
        await artifact_service.save_artifact(**named, artifact=_PARTS[kind])

        assert _PARTS[kind] == await artifact_service.load_artifact(**named)
        assert _PARTS[kind] == await artifact_service.load_artifact(**named, version=0)

    @pytest.mark.parametrize("spelling", _SPELLINGS)
    async def test_a_dictionary_is_a_part_in_either_spelling(
        self, artifact_service: BaseArtifactService, report: Ids, spelling: str
    ) -> None:
        """As it comes over ADK's REST API."""
        await artifact_service.save_artifact(**report, artifact=_SPELLINGS[spelling])

        assert binary(b"\x00\xff", "x/y", "n") == await artifact_service.load_artifact(**report)

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
        assert 2 == await artifact_service.save_artifact(**report, artifact=text("after"))  # third

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
