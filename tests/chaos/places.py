"""Name what the workers of a run write to: the same for all of them, and for who checks it."""

from dataclasses import dataclass
from typing import Final

APP: Final = "chaos"
USER: Final = "user"
WITH_BUCKET: Final = "adk"
WITHOUT_BUCKET: Final = "plain"
PREFIXES: Final = (WITH_BUCKET, WITHOUT_BUCKET)


@dataclass(frozen=True, slots=True)
class Place:
    """A session id of the one user, below a prefix."""

    prefix: str
    session: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.session}"


SHARED: Final = (
    Place(WITH_BUCKET, "shared-0"),
    Place(WITH_BUCKET, "shared-1"),
    Place(WITHOUT_BUCKET, "shared-0"),
)
EXPIRING: Final = (Place(WITH_BUCKET, "expiring-0"), Place(WITHOUT_BUCKET, "expiring-0"))
"""Sessions with a time to live that is longer than any run."""
MORTAL: Final = (Place(WITH_BUCKET, "mortal-0"), Place(WITHOUT_BUCKET, "mortal-0"))
"""Sessions that are deleted and made again."""
RESTORED: Final = (Place(WITH_BUCKET, "restored-0"), Place(WITHOUT_BUCKET, "restored-0"))
"""Sessions that go back to points of their past."""
TURNED: Final = (Place(WITH_BUCKET, "turned-0"), Place(WITHOUT_BUCKET, "turned-0"))
"""Sessions that are appended to in turns alone."""

ARTIFACTS: Final = ("shared/report", "shared/notes", "user/user:profile")
"""Artifacts that all workers save, as their objects' names have them after app and user."""
