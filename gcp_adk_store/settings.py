"""Hold settings and limits; the only reader of the environment."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gcp_adk_store.errors import InvalidInputError

EMULATOR_PROJECT: Final = "demo-adk-store"
"""The project used on an emulator when none is given; ``demo-`` never names a real project."""

_PREFIX: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where a store keeps its data.

    Raises:
        InvalidInputError: *prefix* is not 1 to 32 letters, digits or ``-`` starting with a letter
            (it becomes part of every collection's name), or a name is empty.
    """

    project: str | None = None
    """Google Cloud project; ``None`` takes the one of the credentials."""
    database: str = "(default)"
    """Firestore database id."""
    bucket: str | None = None
    """Cloud Storage bucket for artifacts; ``None`` means a store without artifacts."""
    prefix: str = "adk"
    """Start of every collection's name; stores with different prefixes never meet."""

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise InvalidInputError(
                f"prefix {self.prefix[:40]!r} must be 1 to 32 letters, digits or '-', starting with a letter"
            )
        for field in ("project", "database", "bucket"):
            if getattr(self, field) == "":
                raise InvalidInputError(f"{field} must not be empty; leave it out for the default")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read ``ADK_STORE_PROJECT``, ``_DATABASE``, ``_BUCKET`` and ``_PREFIX``.

        An unset or empty variable means the default; the project falls back to
        ``GOOGLE_CLOUD_PROJECT``.
        """
        env = os.environ if environ is None else environ
        return cls(
            project=env.get("ADK_STORE_PROJECT") or env.get("GOOGLE_CLOUD_PROJECT") or None,
            database=env.get("ADK_STORE_DATABASE") or "(default)",
            bucket=env.get("ADK_STORE_BUCKET") or None,
            prefix=env.get("ADK_STORE_PREFIX") or "adk",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Sizes at which a session changes how it is stored, and bounds of a call."""

    seal_tail_bytes: int = 64 * 1024
    """UTF-8 bytes of events kept in the session document before they are sealed into a segment."""
    segment_cache_bytes: int = 64 * 1024 * 1024
    """Memory for segments that were read: they never change, so a long session is read from storage once."""
    delivered_events: int = 8192
    """Ids of events that this process stored lately, to recognise those that are delivered again."""
    inline_bytes: int = 64 * 1024
    """Inline data of an event over this size is stored as a payload of its own."""
    event_text_bytes: int = 256 * 1024
    """An event over this size as JSON, without its payloads, is stored as a compressed payload."""
    state_value_bytes: int = 64 * 1024
    """A state value over this size as JSON is stored as a compressed payload."""
    max_payload_bytes: int = 100 * 1024 * 1024
    """The largest piece that is stored at all."""
    rpc_timeout_s: float = 10.0
    """Deadline of one attempt of one RPC."""
    deadline_s: float = 30.0
    """Deadline of one RPC, all attempts and waits together; most operations take one or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """Bounds of artifact operations."""

    max_workers: int = 16
    """Threads, and connections of the pool, that one service uses for blocking calls."""
    save_attempts: int = 10
    """Version numbers that a save tries while other writers keep taking them."""
    known_versions: int = 4096
    """Artifacts whose latest version this process remembers, to save without a listing."""
    known_for_s: float = 60.0
    """How long it does: where others delete versions, a number can be free without being the next."""
    request_timeout_s: float = 60.0
    """Longest silence of the server within one attempt of one request."""
    deadline_s: float = 120.0
    """Deadline of one request, all attempts and waits together."""


def firestore_emulator_host() -> str | None:
    """Return ``host:port`` from ``FIRESTORE_EMULATOR_HOST``, or ``None`` for production."""
    return os.environ.get("FIRESTORE_EMULATOR_HOST") or None


def storage_emulator_url() -> str | None:
    """Return the URL in ``STORAGE_EMULATOR_HOST``, or ``None`` for production."""
    return os.environ.get("STORAGE_EMULATOR_HOST") or None


def default_project() -> str | None:
    """Return ``GOOGLE_CLOUD_PROJECT``, which overrides the project of the credentials."""
    return os.environ.get("GOOGLE_CLOUD_PROJECT") or None
