"""Number and describe the versions of artifacts."""

import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.platform import time as platform_time
from pydantic import Field

from gcp_adk_store import machine
from gcp_adk_store.codec.names import (
    following_object_name,
    object_name,
    parse_version,
    version_of,
    version_prefix,
)
from gcp_adk_store.codec.objects import StoredObject, decode_artifact
from gcp_adk_store.errors import (
    ArtifactConflictError,
    InvalidInputError,
    OutcomeUnknownError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Limiter, Lru, both, gather
from gcp_adk_store.kernel.ports import ObjectGoneError, Objects, remove_interrupted
from gcp_adk_store.kernel.transact import CHANGED, Changed, Done, create_next, read_whole
from gcp_adk_store.model.artifacts import (
    MAX_REFERENCE_HOPS,
    REFERENCE_SCHEME,
    ArtifactReference,
    next_version,
    time_after,
)
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope
from gcp_adk_store.settings import ArtifactLimits


class StoredArtifactVersion(ArtifactVersion):  # noqa: PLW1641  # it can be changed, so it has no hash, as ADK's
    """A version of an artifact as ADK describes it, with the properties of its Cloud Storage object.

    It equals an :class:`ArtifactVersion` of ADK with the same fields. It equals another of its own class if
    size, generation and checksums are the same, too.
    """

    size: int = Field(description="Bytes of the payload.")
    generation: int = Field(description="Generation of the object, which no other write has.")
    crc32c: str | None = Field(
        default=None, description="CRC32C of the payload, base64, big-endian; encrypted ones have none."
    )
    md5: str | None = Field(
        default=None, description="MD5 of the payload, base64; composed and encrypted objects have none."
    )

    # Pydantic compares models of one class only. Python asks the subclass first, on either side.
    def __eq__(self, other: object) -> bool:
        if type(other) is ArtifactVersion:
            return all(getattr(self, name) == getattr(other, name) for name in ArtifactVersion.model_fields)
        return super().__eq__(other)


def describe(objects: Objects, stored: StoredObject) -> StoredArtifactVersion:
    """Return *stored*, an object of *objects*, as ADK describes a version."""
    return StoredArtifactVersion(
        version=version_of(stored.name),
        canonical_uri=objects.uri_of(stored.name),
        custom_metadata=stored.custom_metadata,
        create_time=stored.create_time,
        mime_type=stored.content_type,
        size=stored.size,
        generation=stored.generation,
        crc32c=stored.crc32c,
        md5=stored.md5,
    )


def reference_scope(key: ArtifactKey, session: str | None) -> ArtifactScope:
    """Return the scope that references may lead to: the caller's session, even from a user's artifact.

    A session whose id no artifact can have, which a user's artifact does not need, has none to lead to.
    """
    try:
        return ArtifactScope(app=key.scope.app, user=key.scope.user, session=session)
    except InvalidInputError:
        return key.scope


def is_tombstone(stored: StoredObject) -> bool:
    """Return whether a rewind removed this version."""
    return stored.file_uri is None and stored.size == 0 and decode_artifact(stored, b"") is None


def custom_time(expires_after: timedelta | None) -> datetime | None:
    """Return the time after which a lifecycle rule may remove a version that is saved now."""
    return None if expires_after is None else time_after(expires_after, now=platform_time.get_time())


T = TypeVar("T")


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
        self._lifetime_s = limits.known_for_s
        self._versions = Lru[ArtifactKey, tuple[int, float]](limits.known_versions)
        self._forgotten = 0
        self._guard = threading.Lock()  # one for the comparison with a look and the write that follows

    def look(self, key: ArtifactKey) -> Look:
        """Return what is known now; pass it to :meth:`learn`."""
        with self._guard:
            entry = self._versions.lookup(key)
            is_young = entry is not None and machine.monotonic() - entry[1] < self._lifetime_s
            return Look(entry[0] if entry and is_young else None, entry, self._forgotten)

    def put(self, key: ArtifactKey, version: int) -> None:
        """Remember the version that was saved."""
        with self._guard:
            self._versions.put(key, (version, machine.monotonic()))

    def learn(self, key: ArtifactKey, version: int, look: Look) -> None:
        """Remember the version that was read after *look*, unless a save or a deletion came between."""
        with self._guard:
            if look.forgotten == self._forgotten and look.entry is self._versions.lookup(key):
                self._versions.put(key, (version, machine.monotonic()))

    def forget(self, is_meant: Callable[[ArtifactKey], bool]) -> None:
        """Forget the versions of the artifacts that *is_meant* accepts."""
        with self._guard:
            self._forgotten += 1
            self._versions.forget(is_meant)


@dataclass(frozen=True, slots=True)
class _Own:
    """A save that another call may have made, or may make now."""

    save_id: str
    saw: Callable[[Mapping[int, StoredObject]], None] | None


class ArtifactVersions:
    """The versions of the artifacts in one bucket."""

    def __init__(self, objects: Objects, limits: ArtifactLimits) -> None:
        self._objects = objects
        self._attempts = limits.save_attempts
        self.deadline_s = limits.deadline_s
        """The longest time of a loop that reads again, in seconds."""
        self._latest = LatestVersions(limits)
        self._limiter = Limiter(max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s)

    async def save(
        self,
        key: ArtifactKey,
        create: Callable[[str], Awaitable[None]],
        *,
        save_id: str,
        again: bool = False,
        saw: Callable[[Mapping[int, StoredObject]], None] | None = None,
    ) -> int:
        """Let *create* make the object of the next version; return its number.

        The *save_id* in the object's metadata shows whether this save made a version whose answer was lost.

        Args:
            key: The artifact.
            create: Makes the object of the name that it is given.
            save_id: Identifies the save.
            again: Whether another call with the same *save_id* may have saved before, or may save now.
            saw: With *again*, called with the versions that exist before each attempt; an error that it
                raises ends the save.

        Raises:
            ArtifactConflictError: others took every number that was tried.
            ObjectGoneError: the object that *create* copies is gone, and nothing was saved.
            OutcomeUnknownError: a write was not answered, and no version shows whether it was applied.
        """
        async with self._limiter.permit(key):  # saves of one process do not compete with each other
            known = None if again else self._latest.look(key).version
            own = _Own(save_id, saw) if again else None
            begin = known + 1 if known is not None else await self._free(key, own)
            if isinstance(begin, Done):
                return begin.value

            async def following(taken: int) -> int | Done[int]:
                telemetry.count_conflict()
                return await self._free(key, own, taken)

            try:
                saved = await create_next(
                    begin,
                    lambda number: create(object_name(key, number)),
                    is_own=lambda found: found.save_id == save_id,
                    following=following,
                    at_most=self._attempts,
                )
            except ObjectGoneError as gone:
                if not gone.maybe_applied:
                    raise
                return await self._copied(key, save_id, gone)
            finally:
                if not again:
                    _count_lookup(hit=known is not None)
            if saved is not None:
                self._latest.put(key, saved)
                return saved
        raise ArtifactConflictError(
            f"{self._attempts} version numbers were taken by other writers; save again"
        )

    async def _free(self, key: ArtifactKey, own: "_Own | None", *taken: int) -> int | Done[int]:
        """Return the next free number, or the version that another call of the same save made.

        Another call of the save may make its version after each listing. It then takes the number that this
        call is about to take, or a later one if a third writer takes that: so each listing looks for it.
        """
        if own is None:
            return next_version([*taken, *await self.numbers(key)])
        infos = await self.infos(key)
        saved = _saved_as(own.save_id, infos)
        if saved is not None:
            return Done(saved)
        if own.saw is not None:
            own.saw(infos)
        return next_version([*taken, *infos])

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

    async def find(self, key: ArtifactKey, version: int | None) -> StoredObject | None:
        """Return a version, by default the latest; ``None`` if absent."""
        if version is not None:
            return await self._objects.info(object_name(key, version)) if version >= 0 else None
        latest = await self._known_latest(key, self._objects.info)
        return await self._listed_latest(key) if latest is None else latest

    async def resolve(
        self, key: ArtifactKey, version: int | None, *, within: ArtifactScope
    ) -> StoredObject | None:
        """Return the object that references lead to, from a version of *key* on; ``None`` if absent.

        Raises:
            InvalidInputError: a reference leaves its scope, or too many follow each other.
        """
        return await _followed(self.find, lambda stored: stored.file_uri, key, version, within)

    async def load(
        self, key: ArtifactKey, version: int | None, *, within: ArtifactScope
    ) -> tuple[StoredObject, bytes] | None:
        """Return the object of :meth:`resolve` and its bytes, both of one generation."""
        return await _followed(self._load, lambda found: found[0].file_uri, key, version, within)

    async def _load(self, key: ArtifactKey, version: int | None) -> tuple[StoredObject, bytes] | None:
        if version is not None:
            return await self._load_version(object_name(key, version)) if version >= 0 else None
        latest = await self._known_latest(key, self._load_version)
        if latest is not None:
            return latest

        async def listed() -> tuple[StoredObject, bytes] | Changed | None:
            # Names alone: what a listing says of a thousand versions is 11 times as long.
            look = self._latest.look(key)
            numbers = await self.numbers(key)
            if not numbers:
                return None
            found = await self._load_version(object_name(key, numbers[-1]))
            if found is None:
                return CHANGED  # another call deleted the version between the requests
            self._latest.learn(key, numbers[-1], look)
            return found

        return await read_whole(self.deadline_s, listed)

    async def _load_version(self, name: str) -> tuple[StoredObject, bytes] | None:
        async def look() -> tuple[StoredObject, bytes] | Changed | None:
            stored, read = await both(self._objects.info(name), self._objects.read(name, generation=None))
            if stored is None or read is None:
                return None
            data, generation = read
            if generation == stored.generation:
                return stored, data
            return CHANGED  # another call replaced the object between the two requests

        return await read_whole(self.deadline_s, look)

    async def _listed_latest(self, key: ArtifactKey) -> StoredObject | None:
        look = self._latest.look(key)
        infos = await self.infos(key, hashes=True)
        if not infos:
            return None
        latest = max(infos)
        self._latest.learn(key, latest, look)
        return infos[latest]

    async def _known_latest(
        self, key: ArtifactKey, read: Callable[[str], Coroutine[Any, Any, T | None]]
    ) -> T | None:
        """Return what *read* returns for the latest version if this process knows it, without a listing.

        The known version is the latest if the next number is free, which is checked at the same time. That
        is not certain where others delete single versions, so the check does not extend how long the version
        is known.
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
            found, following = await both(read(name), self._objects.info(following_name))
        is_latest = found is not None and following is None
        _count_lookup(hit=is_latest)
        return found if is_latest else None

    async def delete(self, versions: Iterable[StoredObject]) -> None:
        """Remove these generations; a version that is saved meanwhile stays.

        Raises:
            OutcomeUnknownError: some may be removed, and some may not.
            AccessDeniedError, NotProvisionedError: nothing was removed.
        """
        removed: list[str] = []
        failures: list[StoreError] = []

        async def remove(stored: StoredObject) -> None:
            if failures:
                return
            try:
                await self._objects.delete(stored.name, generation=stored.generation)
            except StoreError as exc:
                failures.append(exc)
            else:
                removed.append(stored.name)

        # A failure cancels no other removal: Cloud Storage might apply its request all the same.
        await gather(remove(stored) for stored in versions)
        if not failures:
            try:
                await remove_interrupted(self._objects)
            except StoreError as exc:
                failures.append(exc)
            else:
                return
        open_ = [exc for exc in failures if isinstance(exc, UnavailableError | OutcomeUnknownError)]
        first = (open_ or failures)[0]
        if not removed and not open_:
            raise first
        raise OutcomeUnknownError.since(
            first, f"some may be removed, and some not; delete again: {first}"
        ) from first

    async def delete_all(self, key: ArtifactKey) -> None:
        """Remove all versions; the next save lists the versions that are left.

        Raises:
            OutcomeUnknownError, AccessDeniedError, NotProvisionedError: as :meth:`delete`.
        """
        async with self._limiter.permit(key):
            self._latest.forget(lambda known: known == key)
            try:
                await self.delete((await self.infos(key)).values())
            finally:
                self._latest.forget(lambda known: known == key)

    def forget_scope(self, scope: ArtifactScope) -> None:
        """Let the next saves of a session's artifacts, or without a session of all the user's, list them."""
        self._latest.forget(
            lambda key: (
                (key.scope.app, key.scope.user) == (scope.app, scope.user)
                and scope.session in (None, key.scope.session)
            )
        )


def _count_lookup(*, hit: bool) -> None:
    telemetry.count_lookups("versions", hits=int(hit), misses=int(not hit))


def _saved_as(save_id: str, infos: Mapping[int, StoredObject]) -> int | None:
    return next((number for number, stored in infos.items() if stored.save_id == save_id), None)


async def _followed(
    look: Callable[[ArtifactKey, int | None], Awaitable[T | None]],
    uri_of: Callable[[T], str | None],
    key: ArtifactKey,
    version: int | None,
    within: ArtifactScope,
) -> T | None:
    """Return what *look* finds where the references lead that start at a version of *key*."""
    for _ in range(MAX_REFERENCE_HOPS + 1):
        found = await look(key, version)
        uri = None if found is None else uri_of(found)
        if uri is None or not uri.startswith(REFERENCE_SCHEME):
            return found
        target = ArtifactReference.parse(uri, within=within)
        key, version = target.key, target.version
    raise InvalidInputError(f"Exceeded maximum recursion depth resolving artifact reference: {uri}")
