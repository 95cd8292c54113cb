"""Drive two artifact services on one bucket with random calls, beside lists of what was saved."""

import asyncio
import io
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.genai import types
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gcp_adk_store import ArtifactLimits, ArtifactService, GcsArtifactService, Store
from tests.support.lengths import at_length
from tests.support.stores import STORES

T = TypeVar("T")
Named = tuple[str, str, str | None, str]
"""App, user, session (``None`` for what all sessions of the user share) and filename."""

BOUNDS = settings(
    max_examples=at_length(6, 25),
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

USERS = st.sampled_from(["u", "u/s"])
SESSIONS = st.sampled_from(["s", " s ", "s/ü%2F"])
FILENAMES = st.sampled_from(["f", "f/0", "user:f", "ü #?"])
TYPES = st.sampled_from(["text/plain", "image/png", "application/octet-stream", "audio/pcm;rate=1"])
PARTS = st.one_of(
    st.builds(lambda words: types.Part(text=words), st.text(max_size=20)),
    st.builds(
        lambda data, kind, name: types.Part(
            inline_data=types.Blob(data=data, mime_type=kind, display_name=name)
        ),
        st.binary(max_size=20),
        TYPES,
        st.none() | st.sampled_from(["n", "ü 日本"]),
    ),
    st.builds(
        lambda uri, kind: types.Part(file_data=types.FileData(file_uri=uri, mime_type=kind)),
        st.sampled_from(["gs://a/b", "https://example.com/?q=ü"]),
        st.none() | st.just("application/pdf"),
    ),
)
METADATA = st.none() | st.dictionaries(
    st.sampled_from(["a", "ü", "adkIsText", ""]),
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.none(), max_size=2),
    max_size=2,
)
TOMBSTONE = types.Part(inline_data=types.Blob(data=b"", mime_type="application/octet-stream"))

Saved = list[tuple[types.Part, dict[str, Any]]]
"""The versions of an artifact, in order."""


class ArtifactsMachine(RuleBasedStateMachine):
    """Two processes that save, read and delete the same artifacts."""

    def __init__(self, services: list[ArtifactService], runner: asyncio.Runner, app: str) -> None:
        super().__init__()
        self.services = services
        self.app = app
        self.saved: dict[Named, Saved] = {}
        self._runner = runner

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Await *call* in the one event loop of the test."""
        return self._runner.run(call)

    @rule(who=st.integers(0, 1), user=USERS, session=SESSIONS, name=FILENAMES)
    def save_often(self, who: int, user: str, session: str, name: str) -> None:
        """Save enough versions to have numbers of two digits."""
        for number in range(11):
            self.save(who, user, session, name, types.Part(text=f"{number}"), None)
        self.load(1 - who, user, session, name, None)

    @rule(who=st.integers(0, 1), user=USERS, session=SESSIONS, name=FILENAMES, part=PARTS, metadata=METADATA)
    def save(
        self,
        who: int,
        user: str,
        session: str,
        name: str,
        part: types.Part,
        metadata: dict[str, Any] | None,
    ) -> None:
        """Save a version: its number is how many there were."""
        versions = self.saved.setdefault(self._key(user, session, name), [])
        number = self.run(
            self.services[who].save_artifact(
                **self._named(user, session, name), artifact=part, custom_metadata=metadata
            )
        )
        versions.append((part, metadata or {}))

        assert len(versions) - 1 == number

    @rule(
        who=st.integers(0, 1),
        user=USERS,
        session=SESSIONS,
        name=FILENAMES,
        data=st.binary(max_size=20),
        metadata=METADATA,
    )
    def save_file(
        self, who: int, user: str, session: str, name: str, data: bytes, metadata: dict[str, Any] | None
    ) -> None:
        """Save a version from a file: it is what inline bytes are."""
        versions = self.saved.setdefault(self._key(user, session, name), [])
        number = self.run(
            self.services[who].save_artifact_file(
                **self._named(user, session, name),
                source=io.BytesIO(data),
                mime_type="image/png",
                custom_metadata=metadata,
            )
        )
        blob = types.Blob(data=data, mime_type="image/png")
        versions.append((types.Part(inline_data=blob), metadata or {}))

        assert len(versions) - 1 == number

    @rule(
        who=st.integers(0, 1),
        user=USERS,
        session=SESSIONS,
        name=FILENAMES,
        to_session=SESSIONS,
        to_name=FILENAMES,
        version=st.none() | st.integers(-1, 3),
    )
    def copy(
        self, who: int, user: str, session: str, name: str, to_session: str, to_name: str, version: int | None
    ) -> None:
        """Copy a version, perhaps onto its own artifact, or nothing."""
        source = self.saved.get(self._key(user, session, name), [])
        number = len(source) - 1 if version is None else version
        copied = self.run(
            self.services[who].copy_artifact(
                **self._named(user, session, name),
                version=version,
                to_session_id=to_session,
                to_filename=to_name,
            )
        )
        if not 0 <= number < len(source):
            assert copied is None
            return
        target = self.saved.setdefault(self._key(user, to_session, to_name), [])
        target.append(source[number])

        assert len(target) - 1 == copied

    @rule(
        who=st.integers(0, 1),
        user=USERS,
        session=SESSIONS,
        name=FILENAMES,
        version=st.none() | st.integers(-1, 3),
    )
    def load(self, who: int, user: str, session: str, name: str, version: int | None) -> None:
        """Load a version and its metadata, or nothing."""
        named = self._named(user, session, name)
        versions = self.saved.get(self._key(user, session, name), [])
        number = len(versions) - 1 if version is None else version
        part, metadata = versions[number] if 0 <= number < len(versions) else (None, None)
        loaded = self.run(self.services[who].load_artifact(**named, version=version))
        described = self.run(self.services[who].get_artifact_version(**named, version=version))

        assert (None if part == TOMBSTONE else part) == loaded
        assert metadata == (described and described.custom_metadata)
        assert part is None or (described is not None and number == described.version)

    @rule(who=st.integers(0, 1), user=USERS, session=SESSIONS, name=FILENAMES)
    def list_versions(self, who: int, user: str, session: str, name: str) -> None:
        """List the numbers, plain and with metadata."""
        named = self._named(user, session, name)
        versions = self.saved.get(self._key(user, session, name), [])
        described = self.run(self.services[who].list_artifact_versions(**named))

        assert list(range(len(versions))) == self.run(self.services[who].list_versions(**named))
        assert list(enumerate(metadata for _, metadata in versions)) == [
            (one.version, one.custom_metadata) for one in described
        ]

    @rule(who=st.integers(0, 1), user=USERS, session=st.none() | SESSIONS)
    def list_keys(self, who: int, user: str, session: str | None) -> None:
        """List the names of a session and its user, or of the user alone."""
        scopes = {None, session and session.strip()}
        expected = sorted(
            name
            for (_, owner, scope, name), versions in self.saved.items()
            if owner == user and scope in scopes and versions
        )
        found = self.run(
            self.services[who].list_artifact_keys(app_name=self.app, user_id=user, session_id=session)
        )

        assert expected == found

    @rule(user=USERS, session=SESSIONS, name=FILENAMES)
    def delete(self, user: str, session: str, name: str) -> None:
        """Delete an artifact; the other process does so too, and finds nothing."""
        self.saved.pop(self._key(user, session, name), None)
        for service in self.services:
            self.run(service.delete_artifact(**self._named(user, session, name)))

    @rule(user=USERS, session=st.none() | SESSIONS, dry_run=st.booleans())
    def delete_many(self, user: str, session: str | None, dry_run: bool) -> None:  # noqa: FBT001  # drawn
        """Delete all of a session, or of a user; both processes do, as above."""
        gone = [
            key
            for key, versions in self.saved.items()
            if key[1] == user and versions and (session is None or key[2] == session.strip())
        ]
        found = [self.run(self._delete_many(service, user, session, dry_run)) for service in self.services]

        assert len(gone) == len(found[0])
        assert found[1] == (found[0] if dry_run else [])
        if not dry_run:
            for key in gone:
                del self.saved[key]

    def _delete_many(
        self,
        service: ArtifactService,
        user: str,
        session: str | None,
        dry_run: bool,  # noqa: FBT001  # as above
    ) -> Coroutine[Any, Any, list[str]]:
        if session is None:
            return service.delete_user_artifacts(app_name=self.app, user_id=user, dry_run=dry_run)
        return service.delete_session_artifacts(
            app_name=self.app, user_id=user, session_id=session, dry_run=dry_run
        )

    def _key(self, user: str, session: str, name: str) -> Named:
        return self.app, user, None if name.startswith("user:") else session.strip(), name

    def _named(self, user: str, session: str, name: str) -> dict[str, Any]:
        return {"app_name": self.app, "user_id": user, "session_id": session, "filename": name}


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all calls of a test."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=STORES)
def open_service(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[ArtifactLimits], ArtifactService]:
    """Open a service of one place, as another process would."""
    if request.param == "folder":
        return lambda limits: Store.local(tmp_path / "store", artifact_limits=limits).artifacts
    bucket = request.getfixturevalue("adk_store_bucket")
    return lambda limits: GcsArtifactService(bucket, project="demo", limits=limits)


@pytest.fixture
def services(
    open_service: Callable[[ArtifactLimits], ArtifactService], runner: asyncio.Runner
) -> Iterator[list[ArtifactService]]:
    """Two services that know nothing of each other."""
    services = [open_service(ArtifactLimits()) for _ in range(2)]
    yield services
    for service in services:
        runner.run(service.close())


def test_artifacts_are_what_a_simple_model_says(
    services: list[ArtifactService], runner: asyncio.Runner
) -> None:
    """Whatever is called, in whatever order, from either service."""
    apps = iter(range(10**6))
    # Annotated as taking a class; its documentation says: a function that makes one, too.
    run_state_machine_as_test(
        lambda: ArtifactsMachine(services, runner, f"app-{next(apps)}"),  # type: ignore[arg-type]
        settings=BOUNDS,
    )


def test_numbers_start_again_after_another_process_deleted(
    services: list[ArtifactService],
    runner: asyncio.Runner,
    open_service: Callable[[ArtifactLimits], ArtifactService],
) -> None:
    """At once where a process remembers nothing of it, as after ``known_for_s`` in any."""
    named: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s", "filename": "f"}
    for _ in range(3):
        runner.run(services[0].save_artifact(**named, artifact=types.Part(text="before")))
    runner.run(services[1].delete_artifact(**named))
    forgetful = open_service(ArtifactLimits(known_for_s=0))
    saved = runner.run(forgetful.save_artifact(**named, artifact=types.Part(text="after")))
    runner.run(forgetful.close())

    assert 0 == saved
