"""What ADK asks of an artifact service, as one suite to inherit; its names and references are here."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError

from gcp_adk_store.testing.conformance.artifact_versions import (
    CountingVersions,
    DeletingArtifacts,
    KeepingParts,
)
from gcp_adk_store.testing.conformance.running import (
    Ids,
    OfAnApp,
    binary,
    file,
    in_loops_of_their_own,
    reference,
    text,
)

_NAMES = [
    "a",
    "a/0",
    "a/0/1",
    "a/b",
    "a.txt",
    "with space",
    "ünï/日本",
    "q#?%+&=",
    "x%2Fy",
    "user",
    "user:d/e",
    "user:a",
]

_ENGINE_APP = "projects/p/locations/l/reasoningEngines/1"

_BAD_IDS = {
    "": "must not be empty",
    "  ": "must not be empty",
    "..": "must not contain traversal segments",
    ".": "must not contain traversal segments",
    "../a": "must not contain traversal segments",
    "a/../b": "must not contain traversal segments",
    "a\\..\\b": "must not contain traversal segments",
    "a/..": "must not contain traversal segments",
    "a\x00b": "must not contain null bytes",
    "/a": "must not be an absolute path or start with a slash",
    "\\a": "must not be an absolute path or start with a slash",
    "C:": "must not be drive-qualified",
    "c:/a": "must not be drive-qualified",
    "a/apps/b": "must not contain reserved path segments",
    "a/users/b": "must not contain reserved path segments",
    "a/Sessions": "must not contain reserved path segments",
    "a\\artifacts\\b": "must not contain reserved path segments",
    "versions/1": "must not contain reserved path segments",
}

_NO_SESSION = "Session ID must be provided"


def _methods_that_name_an_artifact(service: BaseArtifactService) -> list[Callable[..., Awaitable[Any]]]:
    return [
        service.load_artifact,
        service.delete_artifact,
        service.list_versions,
        service.list_artifact_versions,
        service.get_artifact_version,
    ]


@in_loops_of_their_own
class NamingArtifacts:
    """Tests of names, scopes and listings."""

    async def test_every_name_is_an_artifact_of_its_own(
        self, artifact_service: BaseArtifactService, place: Ids
    ) -> None:
        """Nested, numeric and odd names are listed in order, and each loads what was saved under it."""
        for name in _NAMES:
            await artifact_service.save_artifact(**place, filename=name, artifact=text(name))
        listed = await artifact_service.list_artifact_keys(**place)
        loaded = [await artifact_service.load_artifact(**place, filename=name) for name in _NAMES]
        versions = [await artifact_service.list_versions(**place, filename=name) for name in _NAMES]

        assert sorted(_NAMES) == listed
        assert [text(name) for name in _NAMES] == loaded
        assert [[0]] * len(_NAMES) == versions

    async def test_a_name_is_listed_once_however_many_versions_it_has(
        self, artifact_service: BaseArtifactService, place: Ids
    ) -> None:
        """Sorted, regardless of the order of saves."""
        for name in ("b", "user:c", "a", "b", "user:c"):
            await artifact_service.save_artifact(**place, filename=name, artifact=text("x"))

        assert ["a", "b", "user:c"] == await artifact_service.list_artifact_keys(**place)

    async def test_a_session_artifact_is_the_sessions_own(
        self, artifact_service: BaseArtifactService, place: Ids, report: Ids
    ) -> None:
        """Other sessions, users and apps neither list nor load it."""
        await artifact_service.save_artifact(**report, artifact=text("mine"))
        for elsewhere in (
            {**place, "session_id": "another"},
            {**place, "user_id": "another"},
            {**place, "app_name": f"{place['app_name']}-2"},
        ):
            assert None is await artifact_service.load_artifact(**elsewhere, filename=report["filename"])
            assert [] == await artifact_service.list_artifact_keys(**elsewhere)

    async def test_a_user_artifact_is_shared_by_the_users_sessions(
        self, artifact_service: BaseArtifactService, place: Ids, user: Ids
    ) -> None:
        """It is listed with its prefix and loads with and without a session; nobody else has it."""
        await artifact_service.save_artifact(**place, filename="user:photo", artifact=text("0"))
        elsewhere = {**place, "session_id": "another"}
        assert 1 == await artifact_service.save_artifact(**user, filename="user:photo", artifact=text("1"))

        assert text("1") == await artifact_service.load_artifact(**elsewhere, filename="user:photo")
        assert text("0") == await artifact_service.load_artifact(**user, filename="user:photo", version=0)
        odd = {**place, "session_id": "c:1"}  # which can have no artifacts of its own
        assert text("1") == await artifact_service.load_artifact(**odd, filename="user:photo")
        assert ["user:photo"] == await artifact_service.list_artifact_keys(**elsewhere)
        for stranger in ({**user, "user_id": "another"}, {**user, "app_name": f"{user['app_name']}-2"}):
            assert None is await artifact_service.load_artifact(**stranger, filename="user:photo")
            assert [] == await artifact_service.list_artifact_keys(**stranger)

    async def test_without_a_session_only_user_artifacts_are_listed(
        self, artifact_service: BaseArtifactService, place: Ids, user: Ids
    ) -> None:
        """With one, both."""
        for name in ("mine", "user:ours"):
            await artifact_service.save_artifact(**place, filename=name, artifact=text("x"))

        assert ["user:ours"] == await artifact_service.list_artifact_keys(**user)
        assert ["mine", "user:ours"] == await artifact_service.list_artifact_keys(**place)

    async def test_a_session_artifact_needs_a_session(
        self, artifact_service: BaseArtifactService, user: Ids
    ) -> None:
        """For every method that names an artifact."""
        named = {**user, "filename": "report"}
        with pytest.raises(InputValidationError, match=_NO_SESSION):
            await artifact_service.save_artifact(**named, artifact=text("x"))
        for method in _methods_that_name_an_artifact(artifact_service):
            with pytest.raises(InputValidationError, match=_NO_SESSION):
                await method(**named)

    @pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
    @pytest.mark.parametrize("bad", _BAD_IDS, ids=ascii)
    async def test_an_id_that_could_lead_elsewhere_is_refused(
        self, artifact_service: BaseArtifactService, report: Ids, field: str, bad: str
    ) -> None:
        """By every method, with a message that names the field and the reason."""
        named = {**report, field: bad}
        place = {key: value for key, value in named.items() if key != "filename"}
        message = f"{field}.* {_BAD_IDS[bad]}"
        with pytest.raises(InputValidationError, match=message):
            await artifact_service.save_artifact(**named, artifact=text("x"))
        with pytest.raises(InputValidationError, match=message):
            await artifact_service.list_artifact_keys(**place)
        for method in _methods_that_name_an_artifact(artifact_service):
            with pytest.raises(InputValidationError, match=message):
                await method(**named)

    @pytest.mark.parametrize("reserved", ["user", "user/x", "user\\x"])
    async def test_a_session_that_is_called_user_is_only_read(
        self, artifact_service: BaseArtifactService, report: Ids, place: Ids, reserved: str
    ) -> None:
        """A save would land among the artifacts of the user; reads and deletes find nothing."""
        odd = {"session_id": reserved}
        with pytest.raises(InputValidationError, match="reserved value 'user'"):
            await artifact_service.save_artifact(**{**report, **odd}, artifact=text("x"))
        await artifact_service.delete_artifact(**{**report, **odd})

        assert None is await artifact_service.load_artifact(**{**report, **odd})
        assert [] == await artifact_service.list_versions(**{**report, **odd})
        assert [] == await artifact_service.list_artifact_keys(**{**place, **odd})

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("app_name", _ENGINE_APP),
            ("user_id", "group/user"),
            ("session_id", "a/b"),
            ("user_id", "ünï@example.com"),
            ("session_id", "users"),
        ],
    )
    async def test_an_id_may_hold_slashes_and_other_signs(
        self, artifact_service: BaseArtifactService, report: Ids, field: str, value: str
    ) -> None:
        """As Agent Engine's app names and groups of users do."""
        unique = f"{value}-{report['app_name']}"
        named = {**report, field: unique}
        await artifact_service.save_artifact(**named, artifact=text("x"))
        place = {key: given for key, given in named.items() if key != "filename"}

        assert text("x") == await artifact_service.load_artifact(**named)
        assert [report["filename"]] == await artifact_service.list_artifact_keys(**place)
        assert None is await artifact_service.load_artifact(**report)

    async def test_ids_that_differ_in_where_a_slash_stands_do_not_meet(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """``a/b`` + ``c`` is not ``a`` + ``b/c``: neither artifacts nor listings leak."""
        app = report["app_name"]
        places = [(f"{app}/b", "c", "d"), (app, "b/c", "d"), (app, "b", "c/d")]
        for number, (app_name, user_id, session_id) in enumerate(places):
            place = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
            await artifact_service.save_artifact(**place, filename=f"{number}", artifact=text("x"))
            assert [f"{number}"] == await artifact_service.list_artifact_keys(**place)

    async def test_padding_makes_no_other_session(
        self, artifact_service: BaseArtifactService, report: Ids
    ) -> None:
        """As in the session services, which strip it."""
        padded = {**report, "session_id": f"  {report['session_id']} "}
        await artifact_service.save_artifact(**padded, artifact=text("x"))

        assert text("x") == await artifact_service.load_artifact(**report)
        assert text("x") == await artifact_service.load_artifact(**padded)


@in_loops_of_their_own
class FollowingReferences:
    """Tests of artifacts that point to other ones."""

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
    async def test_a_reference_may_lead_to_nested_names_and_to_the_user(
        self, artifact_service: BaseArtifactService, place: Ids, target: str
    ) -> None:
        """A user's artifact is named without a session."""
        named = {**place, "filename": target}
        await artifact_service.save_artifact(**named, artifact=text("found"))
        scope = {**named, "session_id": None} if target.startswith("user:") else named
        await artifact_service.save_artifact(**place, filename="pointing", artifact=reference(scope))

        assert text("found") == await artifact_service.load_artifact(**place, filename="pointing")

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
    async def test_a_reference_out_of_its_scope_is_refused(
        self, artifact_service: BaseArtifactService, report: Ids, place: Ids, change: Ids, message: str
    ) -> None:
        """When it is saved; nothing is stored."""
        with pytest.raises(InputValidationError, match=message):
            await artifact_service.save_artifact(**report, artifact=reference({**report, **change}))

        assert [] == await artifact_service.list_artifact_keys(**place)

    @pytest.mark.parametrize("uri", ["artifact://", "artifact://apps/a/users/b", "artifact://nonsense/0"])
    async def test_a_reference_that_says_nothing_is_refused(
        self, artifact_service: BaseArtifactService, report: Ids, uri: str
    ) -> None:
        """It is a file nowhere."""
        with pytest.raises(InputValidationError, match="Invalid artifact reference URI"):
            await artifact_service.save_artifact(**report, artifact=file(uri))

        assert [] == await artifact_service.list_versions(**report)


class ArtifactServiceConformance(
    OfAnApp, KeepingParts, CountingVersions, DeletingArtifacts, NamingArtifacts, FollowingReferences
):
    """What ADK asks of an artifact service, as tests that a subclass inherits.

    ::

        class TestMyArtifacts(ArtifactServiceConformance):
            @pytest.fixture
            def artifact_service(self) -> BaseArtifactService:
                return MyArtifactService()

    The one fixture gives the service to test, or an asynchronous context manager that yields it. All
    else is as in :class:`~gcp_adk_store.testing.conformance.SessionServiceConformance`: an app of its
    own and an event loop of its own for every test, no plugin, and no test to silence.
    """

    @pytest.fixture
    def place(self, user: Ids) -> Ids:
        """A session of :meth:`user`."""
        return {**user, "session_id": "session"}

    @pytest.fixture
    def report(self, place: Ids) -> Ids:
        """An artifact of :meth:`place`, not saved yet."""
        return {**place, "filename": "report"}
