"""State how far ``artifact://`` references reach."""
# ruff: noqa: SIM300  # expected values stand first

import itertools

import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError

from gcp_adk_store.testing.conformance.artifact_examples import Ids, binary, file, reference, text
from gcp_adk_store.testing.conformance.running import in_its_own_loop


class FollowingReferences:
    """Tests of artifacts that point to other ones."""

    @in_its_own_loop
    async def test_a_reference_loads_what_it_points_to(
        self, artifact_service: BaseArtifactService, report: Ids, place: Ids
    ) -> None:
        """Exactly the version that it names."""
        for data in (b"0", b"1"):
            await artifact_service.save_artifact(**report, artifact=binary(data, display_name="n"))
        pointing = {**place, "filename": "pointing"}
        await artifact_service.save_artifact(**pointing, artifact=reference(report, 0))

        assert binary(b"0", display_name="n") == await artifact_service.load_artifact(**pointing)
        assert [0] == await artifact_service.list_versions(**pointing)

    @pytest.mark.parametrize("target", ["docs/deep/report", "user:photo", "user:docs/photo"])
    @in_its_own_loop
    async def test_a_reference_may_lead_to_nested_names_and_to_the_user(
        self, artifact_service: BaseArtifactService, place: Ids, target: str
    ) -> None:
        """A user's artifact is named without a session."""
        named = {**place, "filename": target}
        await artifact_service.save_artifact(**named, artifact=text("found"))
        scope = {**named, "session_id": None} if target.startswith("user:") else named
        await artifact_service.save_artifact(**place, filename="pointing", artifact=reference(scope))

        assert text("found") == await artifact_service.load_artifact(**place, filename="pointing")

    @in_its_own_loop
    async def test_a_reference_to_nothing_is_absent(
        self, artifact_service: BaseArtifactService, report: Ids, place: Ids
    ) -> None:
        """It is saved, described and counted all the same."""
        pointing = {**place, "filename": "pointing"}
        await artifact_service.save_artifact(**pointing, artifact=reference(report))
        described = await artifact_service.get_artifact_version(**pointing)

        assert None is await artifact_service.load_artifact(**pointing)
        assert described is not None
        assert ["pointing"] == await artifact_service.list_artifact_keys(**place)

    @in_its_own_loop
    async def test_references_are_followed_five_times(
        self, artifact_service: BaseArtifactService, report: Ids, place: Ids
    ) -> None:
        """A sixth is an error."""
        await artifact_service.save_artifact(**report, artifact=text("end"))
        named = [report, *({**place, "filename": f"r{hop}"} for hop in range(1, 7))]
        for target, pointing in itertools.pairwise(named):
            await artifact_service.save_artifact(**pointing, artifact=reference(target))

        assert text("end") == await artifact_service.load_artifact(**named[5])
        with pytest.raises(InputValidationError, match="Exceeded maximum recursion depth"):
            await artifact_service.load_artifact(**named[6])

    @in_its_own_loop
    async def test_a_circle_of_references_is_an_error(
        self, artifact_service: BaseArtifactService, report: Ids, place: Ids
    ) -> None:
        """Of one and of two."""
        first, second = {**place, "filename": "first"}, {**place, "filename": "second"}
        await artifact_service.save_artifact(**report, artifact=reference(report))
        await artifact_service.save_artifact(**first, artifact=reference(second))
        await artifact_service.save_artifact(**second, artifact=reference(first))

        for circling in (report, first, second):
            with pytest.raises(InputValidationError, match="Exceeded maximum recursion depth"):
                await artifact_service.load_artifact(**circling)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"app_name": "another"}, "same app and user scope"),
            ({"user_id": "another"}, "same app and user scope"),
            ({"session_id": "another"}, "same session scope"),
            ({"user_id": "another", "session_id": None}, "same app and user scope"),
        ],
        ids=["app", "user", "session", "another user's"],
    )
    @in_its_own_loop
    async def test_a_reference_out_of_its_scope_is_refused(
        self, artifact_service: BaseArtifactService, report: Ids, place: Ids, change: Ids, message: str
    ) -> None:
        """When it is saved; nothing is stored."""
        with pytest.raises(InputValidationError, match=message):
            await artifact_service.save_artifact(**report, artifact=reference({**report, **change}))

        assert [] == await artifact_service.list_artifact_keys(**place)

    @pytest.mark.parametrize("uri", ["artifact://", "artifact://apps/a/users/b", "artifact://nonsense/0"])
    @in_its_own_loop
    async def test_a_reference_that_says_nothing_is_refused(
        self, artifact_service: BaseArtifactService, report: Ids, uri: str
    ) -> None:
        """It is a file nowhere."""
        with pytest.raises(InputValidationError, match="Invalid artifact reference URI"):
            await artifact_service.save_artifact(**report, artifact=file(uri))

        assert [] == await artifact_service.list_versions(**report)
