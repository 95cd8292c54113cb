"""Save artifacts from files, and load them to files or in parts."""

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any, BinaryIO

from gcp_adk_store import machine
from gcp_adk_store.artifacts.files import (
    ArtifactReader,
    OnProgress,
    Progress,
    opened_source,
    opened_target,
    write_to,
)
from gcp_adk_store.artifacts.methods import ArtifactMethods, StoredArtifactVersion, custom_time
from gcp_adk_store.codec.objects import StoredObject, encode_file
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.artifacts import require_storage_class
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.ports.objects import CHUNK_BYTES


class FileMethods(ArtifactMethods):
    """The methods of the artifact service that move artifacts of any size in little memory."""

    @operation
    async def save_artifact_file(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        source: str | os.PathLike[str] | BinaryIO,
        session_id: str | None = None,
        mime_type: str | None = None,
        display_name: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
        expires_after: timedelta | None = None,
        storage_class: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Save a file as a new version, of any size in little memory, and return its number.

        The version is the same as if :meth:`save_artifact` saved the bytes inline. A file over 8 MiB is sent
        by a resumable upload with 8 MiB a request. After a failure only the missing bytes are sent again. A
        call that is cancelled stops after the running request; if that was the last one, the version exists.
        The CRC32C of the stored bytes is compared with that of the bytes that were read.

        Args:
            app_name: The app.
            user_id: The user.
            filename: As for :meth:`save_artifact`.
            source: A path, or a binary file that can seek. A file is read from its start and stays open.
                Bytes that others append during the call are not saved.
            session_id: As for :meth:`save_artifact`.
            mime_type: Content type, ``application/octet-stream`` by default.
            display_name: Display name of the part that is loaded.
            custom_metadata: As for :meth:`save_artifact`.
            expires_after: As for :meth:`save_artifact`.
            storage_class: As for :meth:`save_artifact`.
            on_progress: Called in the event loop with the number of bytes sent so far and the number of all
                bytes; in the last call both are equal. If it raises, the error is logged and it is not called
                again.

        Raises:
            InvalidInputError: as for :meth:`save_artifact`, or *source* cannot be used.
            OSError: *source* cannot be read.
            ArtifactConflictError, OutcomeUnknownError: as for :meth:`save_artifact`.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        key.require_savable()
        save_id = machine.random_bytes(16).hex()
        fields = encode_file(
            mime_type=mime_type,
            display_name=display_name,
            custom_metadata=custom_metadata,
            save_id=save_id,
            custom_time=custom_time(expires_after),
            storage_class=require_storage_class(storage_class) or self._storage_class,
        )
        async with opened_source(source) as opened:
            progress = Progress(opened.size, on_progress)

            async def create(name: str) -> None:
                if opened.size <= CHUNK_BYTES:
                    upload = replace(fields, data=await opened.read_at(0, opened.size))
                    await self._objects.create(name, upload)
                else:
                    await self._uploads.create(
                        name, fields, size=opened.size, read_at=opened.read_at, on_progress=progress
                    )

            version = await self._versions.save(key, create, save_id=save_id)
            progress(opened.size)
            return version

    @operation
    async def load_artifact_to(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        target: str | os.PathLike[str] | BinaryIO,
        session_id: str | None = None,
        version: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> StoredArtifactVersion | None:
        """Write a version's bytes to a file, of any size in little memory; return ``None`` if absent.

        Each request reads 8 MiB, and only a request that fails is repeated. The CRC32C of all bytes is
        checked. Follows references, as :meth:`load_artifact` does.

        Args:
            app_name: The app.
            user_id: The user.
            filename: The artifact.
            target: A path, or a binary file. The file at a path appears or is replaced when all bytes are
                there. A binary file is written from its position on and stays open.
            session_id: The session, for an artifact of its own.
            version: By default the latest.
            on_progress: Called in the event loop with the number of bytes received so far and the number of
                all bytes.

        Returns:
            The version that was written; after a reference, the version that it led to.

        Raises:
            InvalidInputError: the artifact is a file outside of the bucket, or a reference leaves its scope.
            StoredDataError: the version was deleted meanwhile, or is damaged; a file at a path is unchanged.
            OSError: *target* cannot be written.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._content(key, version, session_id)
        if stored is None:
            return None
        reader = ArtifactReader(self._objects, stored)
        described = self._describe(stored)  # before the target is replaced: the version may be damaged
        async with opened_target(target) as file:
            packed = stored.content_encoding == "gzip"
            await write_to(reader, file, compressed=packed, on_progress=on_progress)
        return described

    @operation
    async def open_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactReader | None:
        """Return a reader of parts of a version, by default the latest; return ``None`` if absent.

        Takes 1 request, and 1 for each part that is read. Follows references.

        Raises:
            InvalidInputError: the artifact is a file outside of the bucket, or is stored compressed, or a
                reference leaves its scope.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._content(key, version, session_id)
        if stored is None:
            return None
        if stored.content_encoding is not None:
            raise InvalidInputError(f"the version is stored as {stored.content_encoding}; load it as a whole")
        return ArtifactReader(self._objects, stored)

    async def _content(
        self, key: ArtifactKey, version: int | None, session: str | None
    ) -> StoredObject | None:
        """Return the object that holds a version's content, ``None`` if absent; refuse files elsewhere."""
        stored = await self._resolve(key, version, session)
        if stored is not None and stored.file_uri is not None:
            raise InvalidInputError("the content lies outside of the bucket; load_artifact returns its URI")
        return stored
