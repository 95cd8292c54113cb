"""Keep objects on this machine: their properties in a table, their bytes in files or in memory."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NoReturn, TypeVar
from urllib.parse import quote

from gcp_adk_store.codec.objects import ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.codec.packing import RunningChecksum
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.ports import CHUNK_BYTES, NoUrls, ObjectExistsError, ObjectGoneError, ReadAt
from gcp_adk_store.local import object_rows
from gcp_adk_store.local.contents import Contents
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.encoding import micros
from gcp_adk_store.local.object_rows import Content, Row
from gcp_adk_store.local.sweep import Sweeper
from gcp_adk_store.model.payloads import LeftFile
from gcp_adk_store.settings import ArtifactLimits, StoreSettings

T = TypeVar("T")

_SCANNED_AT_ONCE: Final = 1000
_WAY_OUT: Final = (
    "read with load_artifact or load_artifact_to, write with save_artifact or save_artifact_file, or keep "
    "artifacts in a bucket"
)


class LocalObjects:
    """The objects of a store on this machine, as :class:`gcp_adk_store.kernel.ports.Objects` says.

    Any number of processes use them at once.
    """

    kms_key_name: Final = None

    def __init__(
        self,
        database: Database,
        contents: Contents,
        limits: ArtifactLimits,
        *,
        sweeper: Sweeper | None = None,
    ) -> None:
        """Use *contents* for the bytes; new objects let *sweeper*, if any, remove expired ones first."""
        self._sweeps = sweeper is not None
        self._sweeper = sweeper or Sweeper(database, contents)
        self._database = database
        self._contents = contents
        self._limits = limits

    @property
    def bucket(self) -> NoReturn:
        """Refuse.

        Raises:
            InvalidInputError: always.
        """
        raise InvalidInputError(f"a store on this machine has no bucket and no URLs; {_WAY_OUT}")

    def uri_of(self, name: str) -> str:
        """Return ``gs+local:///PATH#NAME``, with the URI of the store; ``memory://NAME`` in memory."""
        path, quoted = self._database.path, quote(name, safe="/:@!$&'()*+,;=")
        if path is None:
            return f"memory://{quoted}"
        return f"{StoreSettings(local=str(path.parent)).artifact_service_uri()}#{quoted}"

    async def create(
        self, name: str, upload: ObjectFields, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """As the port; it ignores the storage class, because a folder has one.

        Raises:
            InvalidInputError: Cloud Storage would refuse the name or the metadata; nothing was written.
            OutcomeUnknownError: the row was sent to the database and not confirmed before the deadline.
            UnavailableError, AccessDeniedError: nothing was written.
        """
        check(name, upload)
        with part_of(self._limits.deadline_s):
            await self.require_absent(name, marks=marks)
            async with self._contents.draft() as draft:
                await draft.write(upload.data)
                await self.insert(name, upload, await draft.finish(), marks=marks)
        telemetry.count_content(sent=len(upload.data))

    async def require_absent(self, name: str, *, marks: Mapping[str, str] | None = None) -> None:
        """Refuse to write an object that exists, before its bytes are written; it gets *marks*, if any.

        This opens the database, too: no files appear beside a file that is not a store.

        Raises:
            ObjectExistsError: it exists.
        """
        if self._sweeps:
            await self._sweeper.sweep_if_due()
        found = await self._find(name)
        if found is not None and (marks is None or await self.mark(name, marks)):
            raise ObjectExistsError(found.stored())

    async def insert(
        self, name: str, fields: ObjectFields, content: Content, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """Record the object that has *content*; the errors are those of :meth:`create`."""

        def work(connection: sqlite3.Connection) -> Row | None:
            found = object_rows.find(connection, name)
            if found is None:
                self._contents.require(content.id)
                object_rows.insert(connection, name, fields, content)
            elif marks is not None:
                object_rows.mark(connection, found, marks)
            return found

        found = await self._write(work)
        if found is not None:
            raise ObjectExistsError(found.stored())

    async def copy(self, source: StoredObject, name: str, fields: ObjectFields) -> None:
        """As the port; both objects have the same file from now on.

        Raises:
            InvalidInputError, OutcomeUnknownError: as :meth:`create`.
        """
        check(name, fields)

        def work(connection: sqlite3.Connection) -> tuple[Row | None, Row | None]:
            copied, found = object_rows.find(connection, source.name), object_rows.find(connection, name)
            if copied is not None and copied.generation == source.generation and found is None:
                content = Content(id=copied.content, size=copied.size, crc32c=copied.crc32c, md5=copied.md5)
                object_rows.insert(connection, name, fields, content)
            return copied, found

        copied, found = await self._write(work)
        if copied is None or copied.generation != source.generation:
            raise ObjectGoneError
        if found is not None:
            raise ObjectExistsError(found.stored())

    async def names(self, prefix: str, *, delimiter: str | None) -> list[str]:
        """As the port, ordered by their UTF-8."""
        return await self._read(
            lambda connection: object_rows.find_names(connection, prefix, delimiter=delimiter)
        )

    async def infos(self, prefix: str, *, delimiter: str | None, hashes: bool = False) -> list[StoredObject]:
        """As the port."""
        return await self._read(
            lambda connection: [
                row.stored(hashes=hashes)
                for row in object_rows.find_all(connection, prefix, delimiter=delimiter)
            ]
        )

    async def info(self, name: str) -> StoredObject | None:
        """As the port."""
        found = await self._find(name)
        return None if found is None else found.stored()

    async def read(
        self, name: str, *, generation: int | None, part: tuple[int, int] | None = None
    ) -> tuple[bytes, int] | None:
        """As the port; CRC32C checks the bytes, and the length those of a *part*.

        Raises:
            InvalidInputError: *part* is not within the object.
            StoredDataError: the bytes are missing or damaged.
            UnavailableError, AccessDeniedError: the bytes cannot be read.
        """
        with part_of(self._limits.deadline_s):
            seen: Row | None = None
            while True:
                found = await self._find(name)
                if found is None or generation not in {None, found.generation}:
                    return None
                start, end = (0, found.size) if part is None else part
                if not 0 <= start <= end <= found.size:
                    raise InvalidInputError(
                        f"bytes {start} to {end} are not within the {found.size} of the object; read fewer"
                    )
                data = await self._contents.read(found.content, start, end)
                if data is not None:
                    break
                if seen is not None and seen.content == found.content:
                    raise StoredDataError(f"the bytes of object {name!r} are missing; restore them")
                seen = found  # perhaps it was removed between the two steps
        if len(data) != end - start or (part is None and _crc32c(data) != found.crc32c):
            raise StoredDataError(f"the bytes of object {name!r} do not match their checksum; restore them")
        telemetry.count_content(received=len(data))
        return data, found.generation

    async def keep_until(self, prefix: str, time: datetime) -> None:
        """As the port, for objects that have a custom time."""
        moment = micros(time)
        await self._write(lambda connection: object_rows.keep_until(connection, prefix, moment))

    async def scan(self, prefix: str) -> AsyncIterator[list[ScannedObject]]:
        """As the port, in pages of 1,000."""
        after = ""

        def page(connection: sqlite3.Connection) -> list[ScannedObject]:
            found = object_rows.find_all(connection, prefix, after=after, at_most=_SCANNED_AT_ONCE)
            return [row.scanned() for row in found]

        while True:
            objects = await self._read(page)
            yield objects
            if len(objects) < _SCANNED_AT_ONCE:
                return
            after = objects[-1].name

    async def mark(self, name: str, metadata: Mapping[str, str]) -> bool:
        """As the port: it changes these keys and keeps the others."""

        def work(connection: sqlite3.Connection) -> bool:
            found = object_rows.find(connection, name)
            if found is not None:
                object_rows.mark(connection, found, metadata)
            return found is not None

        return await self._write(work)

    async def delete_unchanged(self, name: str, version: str) -> bool:
        """As the port."""
        return await self._remove(name, lambda found: found.scanned().version == version)

    async def delete(self, name: str, *, generation: int | None) -> None:
        """As the port."""
        await self._remove(name, lambda found: generation in {None, found.generation})

    async def left(self, *, every: bool) -> list[LeftFile]:
        """As the port: files that a killed process, or a loss of power, left in the folder."""
        with part_of(self._limits.deadline_s):
            return await self._sweeper.left(every=every)

    async def remove_left(self, files: Sequence[LeftFile]) -> list[LeftFile]:
        """As the port.

        Raises:
            UnavailableError, AccessDeniedError: the system refuses; call it again.
        """
        with part_of(self._limits.deadline_s):
            return await self._sweeper.remove_left(files)

    async def close(self) -> None:
        """Let running calls finish, then close the database; a later call opens it again."""
        await self._contents.close()
        await self._database.close()

    async def _remove(self, name: str, applies: Callable[[Row], bool]) -> bool:
        def work(connection: sqlite3.Connection) -> tuple[bool, list[str]]:
            found = object_rows.find(connection, name)
            if found is None:
                return True, []
            if not applies(found):
                return False, []
            unowned = object_rows.remove(connection, [found])
            self._contents.doubt(unowned)
            return True, unowned

        with part_of(self._limits.deadline_s):
            is_gone, contents = await self._write(work)
            await self._contents.remove(contents)
        return is_gone

    async def _find(self, name: str) -> Row | None:
        return await self._read(lambda connection: object_rows.find(connection, name))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        telemetry.count_storage_request()
        with part_of(self._limits.deadline_s):
            return await self._database.read(work)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        telemetry.count_storage_request()
        with part_of(self._limits.deadline_s):
            return await self._database.write(work)


class LocalUploads:
    """Uploads into a store on this machine, as :class:`gcp_adk_store.kernel.ports.Uploads` says."""

    def __init__(self, objects: LocalObjects, contents: Contents) -> None:
        self._objects = objects
        self._contents = contents

    async def create(
        self,
        name: str,
        fields: ObjectFields,
        *,
        size: int,
        read_at: ReadAt,
        on_progress: Callable[[int], None],
    ) -> None:
        """As the port; its CRC32C is that of the read bytes, and it does not report the last ones.

        Raises:
            InvalidInputError, OutcomeUnknownError: as :meth:`LocalObjects.create`.
        """
        check(name, fields)
        await self._objects.require_absent(name)
        async with self._contents.draft() as draft:
            have = 0
            while have < size:
                piece = await read_at(have, min(CHUNK_BYTES, size - have))
                if not piece:
                    raise InvalidInputError(f"the source ends after {have} of {size} bytes; save it again")
                await draft.write(piece)
                telemetry.count_content(sent=len(piece))
                have += len(piece)
                if have < size:
                    on_progress(have)
            await self._objects.insert(name, fields, await draft.finish())


def local_signer() -> NoUrls:
    """Return what refuses to sign: a store on this machine has no URLs."""
    return NoUrls(f"a store on this machine has no URLs, because no server answers for it; {_WAY_OUT}")


def check(name: str, fields: ObjectFields) -> None:
    """Refuse what Cloud Storage refuses, before anything is written.

    Raises:
        InvalidInputError: the name or the metadata is invalid.
    """
    object_rows.check_new_name(name)
    object_rows.metadata_text(fields.metadata)


def _crc32c(data: bytes) -> str:
    checksum = RunningChecksum()
    checksum.update(data)
    return checksum.base64
