"""A copy that is killed at any write goes on when it is called again, with payloads and artifacts."""

import itertools
from pathlib import Path
from typing import Any, Final

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.sessions import InMemorySessionService
from google.genai import types

from gcp_adk_store import ArtifactLimits, ArtifactService, SessionLimits, Store
from gcp_adk_store.model.artifacts import TOMBSTONE
from gcp_adk_store.moving import copy
from tests.moving.hardest import APP, fill, hardest, many
from tests.support.lengths import at_length
from tests.support.small_pieces import set_numbers
from tests.support.stores import sessions_over

_LIMITS: Final = SessionLimits(seal_tail_bytes=2000)
_WRITES: Final = {
    "commit",
    "create",
    "copy",
    "keep_until",
    "mark",
    "delete",
    "delete_unchanged",
}
"""Methods of documents and objects that change something."""


class KilledError(BaseException):
    """Stands for the end of the process."""


class Life:
    """A process that ends at the write of a number, before or after it is stored."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self.after = after
        self.writes: list[str] = []

    async def write(self, name: str, call: Any) -> Any:
        """Make a write, unless the process has ended."""
        self.left -= 1
        if self.left < 0 or (self.left == 0 and not self.after):
            raise KilledError
        done = await call
        self.writes.append(name)
        if self.left == 0:
            raise KilledError
        return done


class Mortal:
    """Documents or objects of a process."""

    def __init__(self, within: Any, life: Life) -> None:
        self._within = within
        self._life = life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._within, name)
        if name not in _WRITES:
            return found

        async def write(*args: Any, **given: Any) -> Any:
            call = found(*args, **given)
            try:
                return await self._life.write(name, call)
            finally:
                call.close()

        return write


def opened(folder: Path, life: Life) -> Store:
    """Return a store in a folder, with a bucket, in a process of this life."""
    plain = Store.local(folder, session_limits=_LIMITS)
    place = plain.artifacts.storage
    objects: Any = Mortal(place.objects, life)
    sessions = sessions_over(Mortal(plain.sessions.storage.documents, life), objects, limits=_LIMITS)
    artifacts = ArtifactService(
        objects, plain.artifacts.storage.uploads, plain.artifacts._signer, ArtifactLimits()
    )
    return Store(sessions=sessions, artifacts=artifacts)


async def source_of_everything() -> tuple[InMemorySessionService, InMemoryArtifactService]:
    """Return services with sessions that have payloads, and artifacts of a session and of its user."""
    sessions, artifacts = InMemorySessionService(), InMemoryArtifactService()
    await fill(sessions, [("u1", "s1", hardest()), ("u1", "s2", many(12)), ("u2", "s1", [])])
    for name, data in (("f", b"one"), ("f", b"two"), ("user:g", b"three")):
        part = types.Part.from_bytes(data=data, mime_type="text/plain")
        await artifacts.save_artifact(
            app_name=APP, user_id="u1", session_id="s1", filename=name, artifact=part
        )
    return sessions, artifacts


async def versions_in(service: Any) -> dict[tuple[str, int], bytes | None]:
    """Return the content of each version of the artifacts of a session and its user."""
    which: dict[str, Any] = {"app_name": APP, "user_id": "u1", "session_id": "s1"}
    found = {}
    for name in await service.list_artifact_keys(**which):
        for version in await service.list_versions(**which, filename=name):
            part = await service.load_artifact(**which, filename=name, version=version)
            found[name, version] = part and part.inline_data.data
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("after", [False, True])
async def test_a_copy_that_is_killed_at_any_write_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    """Of a document, a payload or an artifact: a session is whole or missing, and nothing is there twice."""
    set_numbers(monkeypatch, segments_per_commit=2)
    sessions, artifacts = await source_of_everything()
    kinds: set[str] = set()
    for at in itertools.count(1 if after else 2, at_length(3, 1)):
        folder, given = tmp_path / f"{at}", {"app_name": APP, "resume": tmp_path / f"ledger-{at}"}
        life = Life(at, after=after)
        was_killed = False
        async with opened(folder, life) as store:
            try:
                await copy(sessions, store.sessions, artifacts=(artifacts, store.artifacts), **given)  # type: ignore[arg-type]
            except BaseException:  # noqa: BLE001  # a group around it
                was_killed = True
        kinds |= {*life.writes}
        async with opened(folder, Life(10**6, after=False)) as store:
            for user, name, count in (("u1", "s1", 8), ("u1", "s2", 12)):
                found = await store.sessions.get_session(app_name=APP, user_id=user, session_id=name)
                assert found is None or count == len(found.events)
            report = await copy(
                sessions,
                store.sessions,
                artifacts=(artifacts, store.artifacts),
                verify=True,
                **given,  # type: ignore[arg-type]
            )
            faults = [fault.code async for fault in store.check(app_name=APP, full=True)]

            assert (True, 3) == (report.is_complete, report.verified)
            assert await versions_in(artifacts) == await versions_in(store.artifacts)
            assert [] == faults
        if not was_killed:
            assert at > 10
            assert {"commit", "create"} <= kinds
            return


class LosingVersions(InMemoryArtifactService):
    """Keeps each version with its last byte missing."""

    async def save_artifact(self, **given: Any) -> int:
        """Save less than is given."""
        part = given["artifact"]
        less = types.Part.from_bytes(data=part.inline_data.data[:-1], mime_type=part.inline_data.mime_type)
        return await super().save_artifact(**{**given, "artifact": less})


async def test_verify_finds_artifacts_that_differ() -> None:
    """Each version, of the session and of the user."""
    sessions, artifacts = await source_of_everything()
    async with Store.local(":memory:") as store:
        report = await copy(
            sessions, store.sessions, app_name=APP, verify=True, artifacts=(artifacts, LosingVersions())
        )

        assert (3, False) == (report.wrong, report.is_complete)
        assert {
            "artifact 'f': version 0 differs",
            "artifact 'f': version 1 differs",
            "artifact 'user:g': version 0 differs",
        } == {note.says for note in report.notes if note.kind == "differs"}


@pytest.mark.parametrize("kind", ["ADK's", "own"])
async def test_versions_that_a_rewind_removed_are_copied_as_such(kind: str) -> None:
    """All versions keep their numbers, which events name; a second copy finds them there."""
    sessions, artifacts = await source_of_everything()
    which: dict[str, Any] = {"app_name": APP, "user_id": "u1", "session_id": "s1", "filename": "f"}
    async with Store.local(":memory:") as store, Store.local(":memory:") as other:
        source: Any = artifacts
        if kind == "own":
            await copy(sessions, other.sessions, app_name=APP, artifacts=(artifacts, other.artifacts))
            source = other.artifacts
        await source.save_artifact(**which, artifact=TOMBSTONE)
        await source.save_artifact(**which, artifact=types.Part.from_bytes(data=b"4", mime_type="a/b"))
        reports = [
            await copy(
                sessions, store.sessions, app_name=APP, verify=True, artifacts=(source, store.artifacts)
            )
            for _ in range(2)
        ]

        assert [(True, 5), (True, 0)] == [(each.is_complete, each.artifact_versions) for each in reports]
        copied = await versions_in(store.artifacts)
        assert await versions_in(source) == copied
        assert [b"one", b"two", None, b"4"] == [copied["f", version] for version in range(4)]


async def test_verify_finds_a_session_that_was_lost_after_its_copy(tmp_path: Path) -> None:
    """A ledger that knows it, which nothing is read again for, does not hide that; a copy makes it again."""
    sessions, _ = await source_of_everything()
    async with Store.local(":memory:") as store:
        await copy(sessions, store.sessions, app_name=APP, resume=tmp_path / "ledger")
        await store.sessions.delete_session(app_name=APP, user_id="u1", session_id="s2")
        unseen = await copy(sessions, store.sessions, app_name=APP, resume=tmp_path / "ledger")
        report = await copy(sessions, store.sessions, app_name=APP, resume=tmp_path / "ledger", verify=True)

        assert (3, 0, 0, 0) == (unseen.listed, unseen.copied, unseen.unchanged, unseen.verified)
        assert (1, 3, True) == (report.copied, report.verified, report.is_complete)
