"""Upload large objects in pieces; after a lost request only the missing bytes are sent again."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from google.cloud.storage.exceptions import InvalidResponse

from gcp_adk_store.cloud.storage.calls import Once, Permission, StorageCalls
from gcp_adk_store.cloud.storage.objects import LONGEST_STALL, OTHER_BYTES, Objects
from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.codec.packing import RunningChecksum
from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.ports import CHUNK_BYTES, ReadAt

_RANGE: Final = re.compile(r"bytes=0-(\d+)")


class ResumableUploads:
    """Uploads into one bucket, as :class:`gcp_adk_store.kernel.ports.Uploads` says."""

    def __init__(self, calls: StorageCalls, objects: Objects) -> None:
        self._calls = calls
        self._objects = objects

    async def create(
        self,
        name: str,
        fields: ObjectFields,
        *,
        size: int,
        read_at: ReadAt,
        on_progress: Callable[[int], None],
    ) -> None:
        """As the port, in one request to begin and one for each piece."""
        done, crc32c = await self._calls.make(
            lambda: self._send(name, fields, size, read_at, on_progress),
            lambda: self._objects.info(name),
        )
        if done["crc32c"] != crc32c:
            await self._objects.delete(name, generation=int(done["generation"]))
            raise UnavailableError(OTHER_BYTES)

    async def _send(
        self, name: str, fields: ObjectFields, size: int, read_at: ReadAt, on_progress: Callable[[int], None]
    ) -> tuple[dict[str, Any], str]:
        """Return the resource of the stored object, and the CRC32C of the read bytes."""
        url = await self._objects.begin(name, fields, size=size)
        checksum, hashed = RunningChecksum(), 0
        have = furthest = stalled = 0
        while stalled < LONGEST_STALL:
            piece = await read_at(have, min(CHUNK_BYTES, size - have))
            checksum.update(piece[max(0, hashed - have) :])
            hashed = max(hashed, have + len(piece))
            send = self._sending(url, piece, have=have, size=size)
            done = await self._calls.write(send, Permission.CREATE, conditional=True)
            telemetry.count_content(sent=(done if isinstance(done, int) else size) - have)
            if not isinstance(done, int):
                return done, checksum.base64
            have = done
            stalled = 0 if have > furthest else stalled + 1
            furthest = max(furthest, have)
            on_progress(have)
        raise UnavailableError("Cloud Storage stored none of the sent bytes; save again later")

    def _sending(self, url: str, piece: bytes, *, have: int, size: int) -> Callable[[Any, Once], Any]:
        """Return the request for one piece; a repeated call first asks how much of it has arrived.

        It returns how many bytes of the object Cloud Storage has, or the finished object's resource.
        """
        unsure = False

        def send(_bucket: Any, once: Once) -> Any:
            nonlocal unsure
            place = f"bytes */{size}" if unsure else f"bytes {have}-{have + len(piece) - 1}/{size}"
            data = b"" if unsure else piece
            unsure = True
            # The client itself cannot send a single piece.
            answer = self._calls.session().request(
                "PUT", url, data=data, headers={"Content-Range": place}, timeout=once["timeout"]
            )
            if answer.status_code in (HTTPStatus.OK, HTTPStatus.CREATED):
                return _resource(answer)
            if answer.status_code == HTTPStatus.PERMANENT_REDIRECT:
                kept = _RANGE.fullmatch(answer.headers.get("Range", ""))
                return int(kept[1]) + 1 if kept else 0
            if answer.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
                raise UnavailableError("Cloud Storage ended the upload; save again")
            raise InvalidResponse(answer)

        return send


def _resource(answer: Any) -> dict[str, Any]:
    """Return the resource of a finished object; refuse a truncated or foreign answer."""
    resource = answer.json()
    if not (
        isinstance(resource, dict)
        and isinstance(resource.get("crc32c"), str)
        and str(resource.get("generation")).isdecimal()
    ):
        raise InvalidResponse(answer)
    return resource
