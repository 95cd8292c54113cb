"""Number the versions of artifacts, and find them."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.storage.conditions import ObjectExistsError
from gcp_adk_store.cloud.storage.objects import ObjectGoneError, Objects
from gcp_adk_store.codec.objects import (
    StoredObject,
    following_object_name,
    object_name,
    parse_version,
    version_prefix,
)
from gcp_adk_store.errors import ArtifactConflictError, InvalidInputError, OutcomeUnknownError, StoreError
from gcp_adk_store.model.artifacts import (
    MAX_REFERENCE_HOPS,
    REFERENCE_SCHEME,
    ArtifactReference,
    next_version,
)
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.fan_out import beside
from gcp_adk_store.operations.forks import Guard
from gcp_adk_store.operations.limiter import Turns
from gcp_adk_store.settings import ArtifactLimits

T = TypeVar("T")


class ArtifactVersions:
    """The versions in one bucket."""

    def __init__(self, objects: Objects, limits: ArtifactLimits) -> None:
        self._objects = objects
        self._attempts = limits.save_attempts
        self._latest = _LatestVersions(limits)
        self._turns = Turns(max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s)

    async def save(
        self, key: ArtifactKey, create: Callable[[str], Awaitable[None]], *, save_id: str, again: bool = False
    ) -> int:
        """Let *create* make the object of the next version; return its number.

        The *save_id* in the object's metadata tells whether this save made a version whose answer was lost.

        Args:
            key: The artifact.
            create: Makes the object of the name that it is given.
            save_id: Identifies the save.
            again: Whether another call with the same *save_id* may have saved before, or may save now.

        Raises:
            ArtifactConflictError: others took every number that was tried.
            ObjectGoneError: the object that *create* copies is gone, and nothing was saved.
            OutcomeUnknownError: a write was not answered, and no version tells whether it was applied.
        """
        async with self._turns.turn(key):  # the savers of one process do not compete with each other
            if again:
                # One listing gives both: who saves after it meets that save at the number it takes.
                infos = await self.infos(key)
                done = _saved_as(save_id, infos)
                if done is not None:
                    return done
                version = next_version(infos)
            else:
                known = self._latest.look(key).version
                _count_lookup(hit=known is not None)
                version = next_version(await self.numbers(key)) if known is None else known + 1
            for attempt in range(self._attempts):
                try:
                    await create(object_name(key, version))
                except ObjectExistsError as exc:
                    if exc.found.save_id != save_id:
                        telemetry.count_conflict()
                        # Who saved last knows the next number, who lost has to look: a wait evens that out.
                        await asyncio.sleep(retry.jitter(attempt))
                        version = next_version([version, *await self.numbers(key)])
                        continue
                    # This save made the object, and only the answer was lost.
                except ObjectGoneError as gone:
                    if not gone.perhaps_own:
                        raise
                    return await self._copied(key, save_id, gone)
                self._latest.put(key, version)
                return version
        raise ArtifactConflictError(
            f"{self._attempts} version numbers were taken by other writers; save again"
        )

    async def saved_as(self, key: ArtifactKey, save_id: str) -> int | None:
        """Return the version that a save of this id made."""
        return _saved_as(save_id, await self.infos(key))

    async def _copied(self, key: ArtifactKey, save_id: str, gone: ObjectGoneError) -> int:
        """Return the version that a lost copy made before its source was *gone*."""
        unknown = "sent and not answered, and then the source was gone; list the target's versions"
        try:
            version = await self.saved_as(key, save_id)
        except StoreError as failure:
            raise OutcomeUnknownError.since(failure, unknown) from failure
        if version is None:
            raise OutcomeUnknownError(unknown) from gone
        return version

    async def numbers(self, key: ArtifactKey) -> list[int]:
        """Return the numbers of all versions, ascending."""
        prefix = version_prefix(key)
        names = await self._objects.names(prefix, delimiter="/")
        return sorted(number for name in names if (number := parse_version(name, prefix)) is not None)

    async def infos(self, key: ArtifactKey, *, hashes: bool = False) -> dict[int, StoredObject]:
        """Return all versions by number, with checksums if asked for."""
        prefix = version_prefix(key)
        infos = await self._objects.infos(prefix, delimiter="/", hashes=hashes)
        return {
            number: stored for stored in infos if (number := parse_version(stored.name, prefix)) is not None
        }

    async def find(self, key: ArtifactKey, version: int | None) -> tuple[int, StoredObject] | None:
        """Return a version and its number, by default the latest; ``None`` if there is none."""
        if version is not None:
            stored = await self._objects.info(object_name(key, version)) if version >= 0 else None
            return None if stored is None else (version, stored)

        async def find(name: str) -> StoredObject | None:
            return await self._objects.info(name)

        latest = await self._known_latest(key, find)
        if latest is not None:
            return latest
        return await self._listed_latest(key)

    async def resolve(
        self, key: ArtifactKey, version: int | None, *, within: ArtifactScope
    ) -> StoredObject | None:
        """Return the object that references lead to, from a version of *key* on; ``None`` if absent.

        Raises:
            InvalidInputError: a reference leaves its scope, or leads on and on.
        """
        for _ in range(MAX_REFERENCE_HOPS + 1):
            found = await self.find(key, version)
            if found is None:
                return None
            uri = found[1].file_uri
            if uri is None or not uri.startswith(REFERENCE_SCHEME):
                return found[1]
            target = ArtifactReference.parse(uri, within=within)
            key, version = target.key, target.version
        raise endless_reference(uri)

    async def load(self, key: ArtifactKey, version: int | None) -> tuple[StoredObject, bytes] | None:
        """Return a version with its bytes, by default the latest, both of one moment."""
        if version is not None:
            return await self._load_version(object_name(key, version)) if version >= 0 else None

        async def load(name: str) -> tuple[StoredObject, bytes] | None:
            return await self._load_version(name)

        latest = await self._known_latest(key, load)
        if latest is not None:
            return latest[1]
        while True:
            found = await self._listed_latest(key)
            if found is None:
                return None
            _, stored = found
            if stored.file_uri is not None:
                return stored, b""
            read = await self._objects.read(stored.name, generation=stored.generation)
            if read is not None:
                return stored, read[0]
            # Deleted between the two requests: look again at what is the latest now.

    async def _listed_latest(self, key: ArtifactKey) -> tuple[int, StoredObject] | None:
        look = self._latest.look(key)
        prefix = version_prefix(key)
        stored = await self._objects.greatest(prefix, lambda name: parse_version(name, prefix), delimiter="/")
        number = None if stored is None else parse_version(stored.name, prefix)
        if stored is None or number is None:
            return None
        self._latest.learn(key, number, look)
        return number, stored

    async def _known_latest(
        self, key: ArtifactKey, read: Callable[[str], Coroutine[Any, Any, T | None]]
    ) -> tuple[int, T] | None:
        """Return what *read* gives for the latest version, without a listing, where this process knows it.

        It is the latest if there is none of the next number beside it, which is looked at in the same moment.
        Unless others delete single versions: that is no reason to know it for longer.
        """
        number = self._latest.look(key).version
        if number is None:
            _count_lookup(hit=False)
            return None
        name, following_name = object_name(key, number), following_object_name(key, number)
        following: StoredObject | None = None
        if following_name is None:
            found = await read(name)
        else:
            found, following = await beside(read(name), self._objects.info(following_name))
        is_latest = found is not None and following is None
        _count_lookup(hit=is_latest)
        if found is None or not is_latest:
            return None
        return number, found

    async def forget_while(self, key: ArtifactKey, remove: Callable[[], Awaitable[None]]) -> None:
        """Let *remove* remove versions; the next save asks what is left."""
        async with self._turns.turn(key):
            self._latest.forget(key)
            try:
                await remove()
            finally:
                self._latest.forget(key)

    def forget_scope(self, scope: ArtifactScope) -> None:
        """Let the next saves of a session, or without one of all a user has, ask what is left."""
        self._latest.forget_scope(scope)

    async def _load_version(self, name: str) -> tuple[StoredObject, bytes] | None:
        while True:
            stored, read = await beside(self._objects.info(name), self._objects.read(name, generation=None))
            if stored is None or read is None:
                return None
            data, generation = read
            if generation == stored.generation:
                return stored, data
            # Deleted and saved anew between the two requests: neither half fits the other.


def _count_lookup(*, hit: bool) -> None:
    telemetry.count_lookups("versions", hits=int(hit), misses=int(not hit))


def _saved_as(save_id: str, infos: Mapping[int, StoredObject]) -> int | None:
    return next((number for number, stored in infos.items() if stored.save_id == save_id), None)


def endless_reference(uri: str | None) -> InvalidInputError:
    """Return what to raise where references lead on and on."""
    return InvalidInputError(f"Exceeded maximum recursion depth resolving artifact reference: {uri}")


class _Look(NamedTuple):
    """What was known at one moment."""

    version: int | None
    entry: tuple[int, float] | None
    forgotten: int


class _LatestVersions:
    """The latest version of each artifact that this process saved or listed lately: where both start.

    Only a hint: a number that is taken meanwhile is refused by Cloud Storage, and who loads looks whether the
    next one is there. It ages, because a number that is free may be no longer the next one where others
    delete.
    """

    def __init__(self, limits: ArtifactLimits) -> None:
        self._capacity = limits.known_versions
        self._lifetime_s = limits.known_for_s
        self._versions: OrderedDict[ArtifactKey, tuple[int, float]] = OrderedDict()
        self._forgotten = 0
        self._guard = Guard()

    def look(self, key: ArtifactKey) -> _Look:
        """Return what is known now, for :meth:`learn` to tell whether it still is."""
        with self._guard:
            entry = self._versions.get(key)
            if entry is not None:
                self._versions.move_to_end(key)
            is_young = entry is not None and time.monotonic() - entry[1] < self._lifetime_s
            return _Look(entry[0] if entry and is_young else None, entry, self._forgotten)

    def put(self, key: ArtifactKey, version: int) -> None:
        """Remember what was saved."""
        with self._guard:
            self._put(key, version)

    def learn(self, key: ArtifactKey, version: int, look: _Look) -> None:
        """Remember what was read after *look*, unless it was saved or deleted meanwhile."""
        with self._guard:
            if look.forgotten == self._forgotten and look.entry is self._versions.get(key):
                self._put(key, version)

    def forget(self, key: ArtifactKey) -> None:
        with self._guard:
            self._forgotten += 1
            self._versions.pop(key, None)

    def forget_scope(self, scope: ArtifactScope) -> None:
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
