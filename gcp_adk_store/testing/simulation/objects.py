"""Read and write the objects of a simulated service, with the library's own retry."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from gcp_adk_store.cloud import retry
from gcp_adk_store.codec.objects import ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.errors import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.ports import Backend, ReadAt
from gcp_adk_store.model.payloads import LeftFile
from gcp_adk_store.settings import ArtifactLimits
from gcp_adk_store.testing.simulation.network import Link

T = TypeVar("T")


class SimulatedObjects:
    """The service's objects, as :class:`gcp_adk_store.kernel.ports.Objects` says."""

    kms_key_name: Final = None

    def __init__(self, link: Link, backend: Backend, limits: ArtifactLimits) -> None:
        self._link = link
        self._served = backend.objects
        self._policy = retry.RetryPolicy(attempt_s=limits.request_timeout_s, deadline_s=limits.deadline_s)
        self.uploads = SimulatedUploads(self, backend)

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return "simulated"

    def uri_of(self, name: str) -> str:
        """Return the URI of an object."""
        return self._served.uri_of(name)

    async def read_request(self, what: str, work: Callable[[], Awaitable[T]], about: str) -> T:
        """Send a request that changes nothing, again if it is not answered."""
        return await self._call(what, work, about, UnavailableError)

    async def write_request(self, what: str, work: Callable[[], Awaitable[T]], about: str) -> T:
        """Send a request under a condition, again if it is not answered."""
        return await self._call(what, work, about, OutcomeUnknownError)

    async def _call(
        self, what: str, work: Callable[[], Awaitable[T]], about: str, unanswered: type[StoreError]
    ) -> T:
        async def attempt(timeout_s: float) -> T:
            return await self._link.request(
                what, work, about=about, timeout_s=timeout_s, unanswered=unanswered
            )

        with part_of(self._policy.deadline_s):
            return await retry.call(attempt, policy=self._policy, repeatable_when_unanswered=True)

    async def create(
        self, name: str, upload: ObjectFields, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """As the port."""
        await self.write_request(
            "create object", lambda: self._served.create(name, upload, marks=marks), name
        )

    async def copy(self, source: StoredObject, name: str, fields: ObjectFields) -> None:
        """As the port."""
        await self.write_request("copy object", lambda: self._served.copy(source, name, fields), name)

    async def names(self, prefix: str, *, delimiter: str | None) -> list[str]:
        """As the port."""
        return await self.read_request(
            "list objects", lambda: self._served.names(prefix, delimiter=delimiter), prefix
        )

    async def infos(self, prefix: str, *, delimiter: str | None, hashes: bool = False) -> list[StoredObject]:
        """As the port."""
        return await self.read_request(
            "list objects", lambda: self._served.infos(prefix, delimiter=delimiter, hashes=hashes), prefix
        )

    async def greatest(
        self, prefix: str, order: Callable[[str], int | None], *, delimiter: str | None
    ) -> StoredObject | None:
        """As the port."""
        return await self.read_request(
            "list objects", lambda: self._served.greatest(prefix, order, delimiter=delimiter), prefix
        )

    async def info(self, name: str) -> StoredObject | None:
        """As the port."""
        return await self.read_request("stat object", lambda: self._served.info(name), name)

    async def read(
        self, name: str, *, generation: int | None, part: tuple[int, int] | None = None
    ) -> tuple[bytes, int] | None:
        """As the port."""
        return await self.read_request(
            "read object", lambda: self._served.read(name, generation=generation, part=part), name
        )

    async def keep_until(self, prefix: str, time: datetime) -> None:
        """As the port."""
        await self.write_request("patch object", lambda: self._served.keep_until(prefix, time), prefix)

    async def scan(self, prefix: str) -> AsyncIterator[list[ScannedObject]]:
        """As the port; one request lists all."""

        async def pages() -> list[list[ScannedObject]]:
            return [page async for page in self._served.scan(prefix)]

        for page in await self.read_request("list objects", pages, prefix):
            yield page

    async def mark(self, name: str, metadata: Mapping[str, str]) -> bool:
        """As the port."""
        return await self.write_request("patch object", lambda: self._served.mark(name, metadata), name)

    async def delete_unchanged(self, name: str, version: str) -> bool:
        """As the port."""
        return await self.write_request(
            "delete object", lambda: self._served.delete_unchanged(name, version), name
        )

    async def delete(self, name: str, *, generation: int | None) -> None:
        """As the port."""
        await self.write_request(
            "delete object", lambda: self._served.delete(name, generation=generation), name
        )

    async def left(self, *, every: bool) -> list[LeftFile]:  # noqa: ARG002  # of the port
        """As the port: none, without a request."""
        return []

    async def remove_left(self, files: Sequence[LeftFile]) -> list[LeftFile]:  # noqa: ARG002  # of the port
        """As the port: there are none."""
        return []

    async def close(self) -> None:
        """As the port: there is nothing to close."""


class SimulatedUploads:
    """Uploads to the service, as :class:`gcp_adk_store.kernel.ports.Uploads` says."""

    def __init__(self, objects: SimulatedObjects, backend: Backend) -> None:
        self._objects = objects
        self._served = backend.uploads

    async def create(
        self,
        name: str,
        fields: ObjectFields,
        *,
        size: int,
        read_at: ReadAt,
        on_progress: Callable[[int], None],
    ) -> None:
        """As the port, in one request."""
        data = await read_at(0, size)

        async def piece(start: int, count: int) -> bytes:
            return data[start : start + count]

        await self._objects.write_request(
            "upload object",
            lambda: self._served.create(name, fields, size=size, read_at=piece, on_progress=on_progress),
            name,
        )
