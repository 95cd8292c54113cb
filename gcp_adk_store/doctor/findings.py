"""Hold what is known of a deployment, and what the checks found."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from gcp_adk_store.cloud.auth.tokens import Identity

Body = Mapping[str, Any]
"""The JSON object of an answer."""
NOBODY: Final = Identity(kind="", found_in="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The examined deployment."""

    project: str
    database: str
    bucket: str | None
    prefix: str
    anchors: str | None = None
    """The bucket of anchors, if it is to be checked."""

    @property
    def database_path(self) -> str:
        """The database's name in the Admin API."""
        return f"projects/{self.project}/databases/{self.database}"

    @property
    def of_database(self) -> str:
        """The options that each ``gcloud firestore`` command needs."""
        return f"--database='{self.database}' --project={self.project}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a REST API, or its absence."""

    status: int
    """The HTTP status; 0 if the API was unreachable."""
    body: Body = field(default_factory=dict)
    reason: str = ""
    """Why the API was unreachable."""
    date: str = ""
    """The header ``Date``."""
    asked_at: float = 0.0
    """Unix time in seconds, by this machine's clock."""
    answered_at: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether the requested resource exists."""
        return self.status == HTTPStatus.OK

    @property
    def error(self) -> str:
        """The API's own name of the error, such as ``PERMISSION_DENIED``."""
        name = self._error.get("status")
        return name if isinstance(name, str) else ""

    @property
    def disabled_service(self) -> str | None:
        """The disabled API of the project, if that is the reason of the error."""
        details = self._error.get("details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping) and detail.get("reason") == "SERVICE_DISABLED":
                service = (detail.get("metadata") or {}).get("service")
                return str(service) if service else None
        return None

    @property
    def _error(self) -> Body:
        error = self.body.get("error")
        return error if isinstance(error, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of a probe: one document, or one object, that it writes, reads, lists and deletes."""

    samples_ms: Sequence[float] = ()
    """Milliseconds of each read."""
    failure: str = ""
    """The first failure: ids and advice of the library's error."""
    left: str = ""
    """Its name if it could not be deleted."""
    clock_ahead_s: float | None = None
    """Seconds that Firestore's clock is ahead of this machine's; ``None`` if unknown."""

    @property
    def succeeded(self) -> bool:
        """Whether every step succeeded."""
        return not self.failure and not self.left


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounts:
    """How many memories have vectors, of the first users by name."""

    users: int = 0
    memories: int = 0
    vectors: int = 0
    """Of any embedder."""
    without: int = 0
    """Memories beyond the vectors of their user."""
    lacking: Sequence[tuple[str, str]] = ()
    """App and user of the first who lack some."""
    failure: str = ""
    """Why they could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysFacts:
    """What is known of the keys of an encrypted store."""

    key: str
    """The key that wraps data keys."""
    database: str
    """The database of data keys."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """As those of :data:`~gcp_adk_store.doctor.admin_api.OF_RECOVERY`; empty on an emulator."""
    failure: str = ""
    """Why the key does not wrap and unwrap."""
    is_missing: bool = False
    """Whether it is a file that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All known facts of a deployment."""

    place: Place
    on_firestore_emulator: bool = False
    on_storage_emulator: bool = False
    identity: Identity = NOBODY
    """Whose token the APIs and the probes got; ``NOBODY`` if they need none or got none."""
    refusal: str = ""
    """Why the credentials yield no token."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """The APIs' answers by the names of :func:`~gcp_adk_store.doctor.admin_api.look`."""
    documents: Probe | None = None
    objects: Probe | None = None
    memories: MemoryCounts | None = None
    """``None`` if they were not looked at."""
    keys: KeysFacts | None = None
    """Of an encrypted store."""
    emulated_bucket: bool | None = None
    """Whether the emulator has the bucket; ``None`` if unknown."""

    @property
    def probe_succeeded(self) -> bool:
        """Whether the store can use the database."""
        return self.documents is not None and self.documents.succeeded

    @property
    def database_location(self) -> str | None:
        """Where the database is, if known."""
        answer = self.answers.get("database")
        location = answer.body.get("locationId") if answer is not None and answer.is_ok else None
        return location if isinstance(location, str) else None


class Status(enum.Enum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The finding of one check."""

    check: str = ""
    """The name of the check, which the report sets."""
    status: Status
    says: str
    """The finding: ids and settings, never content and never a secret."""
    commands: tuple[str, ...] = ()
    """The commands to run."""
    terraform: str = ""
    """The Terraform configuration to write instead."""
    aside: str = ""
    """Where the check does not apply, such as ``on an emulator``; empty if it applies."""


def ok(says: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(status=Status.OK, says=says)


def warn(says: str, *commands: str, terraform: str = "") -> Finding:
    """Return a problem that does not stop a store."""
    return Finding(status=Status.WARN, says=says, commands=commands, terraform=terraform)


def fail(says: str, *commands: str, terraform: str = "") -> Finding:
    """Return a problem that stops a store, or parts of it."""
    return Finding(status=Status.FAIL, says=says, commands=commands, terraform=terraform)


def skipped(says: str, *commands: str, aside: str = "") -> Finding:
    """Return a check that could not run, and why; *aside* says where the check does not apply."""
    return Finding(status=Status.SKIPPED, says=says, commands=commands, aside=aside)
