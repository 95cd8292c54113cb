"""Names and versions of artifacts, and those that were the latest at a point."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final, NamedTuple, Self

from google.genai import types

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import USER_NAMESPACE, ArtifactKey, ArtifactScope

MAX_REFERENCE_HOPS: Final = 5
"""The number of references that a load follows, as in ADK."""

REFERENCE_SCHEME: Final = "artifact://"

_REFERENCE: Final = re.compile(
    r"artifact://apps/(?P<app>.+?)/users/(?P<user>.+?)(?:/sessions/(?P<session>.+?))?"
    r"/artifacts/(?P<filename>.+)/versions/(?P<version>\d{1,18})",
    re.DOTALL | re.ASCII,
)

TOMBSTONE: Final = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
"""ADK's session rewind saves this part over an artifact that it removes; every service loads it as absent."""


class ArtifactReference(NamedTuple):
    """The target of an ``artifact://`` URI: an artifact's key and one version of it."""

    key: ArtifactKey
    version: int

    @classmethod
    def parse(cls, uri: str, *, within: ArtifactScope) -> Self:
        """Return the target of *uri*, which must lie in the scope *within*.

        Raises:
            InvalidInputError: *uri* is not a reference, or names another app, user or session.
        """
        match = _REFERENCE.fullmatch(uri)
        if match is None:
            raise InvalidInputError(f"Invalid artifact reference URI: {uri}")
        if (match["app"], match["user"]) != (within.app, within.user):
            raise InvalidInputError("Artifact references must stay within the same app and user scope.")
        if match["session"] is not None and match["session"].strip() != within.session:
            raise InvalidInputError(
                "Session-scoped artifact references must stay within the same session scope."
            )
        key = ArtifactKey.of(
            app=match["app"], user=match["user"], session=match["session"], filename=match["filename"]
        )
        return cls(key, int(match["version"]))

    def __str__(self) -> str:
        """Return the URI."""
        scope = self.key.scope
        session = "" if scope.session is None else f"/sessions/{scope.session}"
        return (
            f"{REFERENCE_SCHEME}apps/{scope.app}/users/{scope.user}{session}"
            f"/artifacts/{self.key.filename}/versions/{self.version}"
        )


def next_version(versions: Iterable[int]) -> int:
    """Return the number of the next save: 0, then one more than the highest."""
    return max(versions, default=-1) + 1


def time_after(lifetime: timedelta, *, now: float) -> datetime:
    """Return when a version that is saved *now* reaches *lifetime*.

    Raises:
        InvalidInputError: *lifetime* is out of range.
    """
    with suppress(TypeError, OverflowError):
        if lifetime > timedelta(0):
            return datetime.fromtimestamp(now, UTC) + lifetime
    raise InvalidInputError(f"expires_after is {lifetime!r:.60}, it must be a timedelta above 0")


def is_tombstone(part: types.Part) -> bool:
    """Return whether *part* is the tombstone that ADK's rewind saves for a removed artifact."""
    return part == TOMBSTONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsAt:
    """What the events of a session show of its artifacts at a point."""

    kept: Mapping[str, int] = field(default_factory=dict)
    """File -> the version that the events before the point named last."""
    later: Mapping[str, int] = field(default_factory=dict)
    """File -> the lowest version that the events after the point name."""
    until: float | None = None
    """Unix time of the first event after the point, in seconds; ``None`` without one."""

    @classmethod
    def of(
        cls,
        *,
        kept: Iterable[Mapping[str, int]],
        later: Iterable[Mapping[str, int]],
        until: float | None,
    ) -> Self:
        """Return what the ``artifact_delta`` of the events before and after a point shows.

        Artifacts whose names start with ``user:`` belong to no session.
        """
        named: dict[str, int] = {}
        for delta in kept:
            named.update(_own(delta))
        lowest: dict[str, int] = {}
        for delta in later:
            for filename, version in _own(delta).items():
                lowest[filename] = min(version, lowest.get(filename, version))
        return cls(kept=named, later=lowest, until=until)

    def version(
        self, filename: str, saved: Mapping[int, float], follows: Mapping[int, int] | None = None
    ) -> int | None:
        """Return the version of a file that was the latest at the point, ``None`` if it did not exist yet.

        By ADK's rule, this is the version that the events before the point named last. Versions that no event
        names, such as uploads of browsers, follow it if they were saved before the first event after the
        point, and before every version that the events after the point name. A version that a restore cut off
        is never the latest at a later point, even if a clock is wrong.

        Args:
            filename: The file.
            saved: Its versions, each with the Unix time at which it was saved, in seconds.
            follows: Versions that restores marked, each with the one that it follows, -1 for none: those
                between the two were cut off.
        """
        marks = follows or {}
        named, lowest = self.kept.get(filename), self.later.get(filename)
        followed = inf  # the lowest version that a later one follows: those between the two were cut off
        for version in sorted({*saved, *marks}, reverse=True):
            if (
                version in saved
                and version <= followed
                and (named is None or version > named)
                and (lowest is None or version < lowest)
                and (self.until is None or saved[version] < self.until)
            ):
                return version
            followed = min(followed, marks.get(version, followed))
        return named


def _own(delta: Mapping[str, int]) -> dict[str, int]:
    return {name: version for name, version in delta.items() if not name.startswith(USER_NAMESPACE)}
