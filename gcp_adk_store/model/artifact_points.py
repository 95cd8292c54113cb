"""Decide which versions of a session's artifacts were the latest at a point of its history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from gcp_adk_store.model.keys import USER_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsAt:
    """What the events of a session tell about its artifacts at a point."""

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
        """Return what the ``artifact_delta`` of the events before and after a point tells.

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

    def version(self, filename: str, saved: Mapping[int, float]) -> int | None:
        """Return the version of a file that was the latest at the point, ``None`` if it did not exist yet.

        By ADK's rule, this is the version that the events before the point named last. Versions that no event
        names, such as uploads of browsers, follow it if they were saved before the first event after the
        point, and before every version that the events after the point name.

        Args:
            filename: The file.
            saved: Its versions, each with the Unix time at which it was saved, in seconds.
        """
        named, lowest = self.kept.get(filename), self.later.get(filename)
        unnamed = (
            version
            for version, time in saved.items()
            if (named is None or version > named)
            and (lowest is None or version < lowest)
            and (self.until is None or time < self.until)
        )
        return max(unnamed, default=named)


def _own(delta: Mapping[str, int]) -> dict[str, int]:
    return {name: version for name, version in delta.items() if not name.startswith(USER_NAMESPACE)}
