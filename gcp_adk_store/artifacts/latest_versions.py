"""Remember the latest versions of artifacts."""

import time
from collections import OrderedDict
from typing import NamedTuple

from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope
from gcp_adk_store.operations.forks import Guard
from gcp_adk_store.settings import ArtifactLimits


class Look(NamedTuple):
    """What was known about an artifact at one moment."""

    version: int | None
    entry: tuple[int, float] | None
    forgotten: int


class LatestVersions:
    """Remembers the latest version of each artifact that this process saved or listed lately.

    A save and a load start from this version. It is only a hint: Cloud Storage refuses a number that another
    writer took meanwhile, and a load checks whether the next version exists. The hint expires, because after
    others delete versions a free number may not be the next one.
    """

    def __init__(self, limits: ArtifactLimits) -> None:
        self._capacity = limits.known_versions
        self._lifetime_s = limits.known_for_s
        self._versions: OrderedDict[ArtifactKey, tuple[int, float]] = OrderedDict()
        self._forgotten = 0
        self._guard = Guard()

    def look(self, key: ArtifactKey) -> Look:
        """Return what is known now; pass it to :meth:`learn`."""
        with self._guard:
            entry = self._versions.get(key)
            if entry is not None:
                self._versions.move_to_end(key)
            is_young = entry is not None and time.monotonic() - entry[1] < self._lifetime_s
            return Look(entry[0] if entry and is_young else None, entry, self._forgotten)

    def put(self, key: ArtifactKey, version: int) -> None:
        """Remember the version that was saved."""
        with self._guard:
            self._put(key, version)

    def learn(self, key: ArtifactKey, version: int, look: Look) -> None:
        """Remember the version that was read after *look*, unless a save or a deletion came between."""
        with self._guard:
            if look.forgotten == self._forgotten and look.entry is self._versions.get(key):
                self._put(key, version)

    def forget(self, key: ArtifactKey) -> None:
        """Forget the version of one artifact."""
        with self._guard:
            self._forgotten += 1
            self._versions.pop(key, None)

    def forget_scope(self, scope: ArtifactScope) -> None:
        """Forget the versions of a session's artifacts, or without a session of all that the user has."""
        with self._guard:
            self._forgotten += 1
            for key in list(self._versions):
                same_user = (key.scope.app, key.scope.user) == (scope.app, scope.user)
                if same_user and scope.session in (None, key.scope.session):
                    del self._versions[key]

    def _put(self, key: ArtifactKey, version: int) -> None:
        self._versions[key] = (version, time.monotonic())
        self._versions.move_to_end(key)
        if len(self._versions) > self._capacity:
            self._versions.popitem(last=False)
