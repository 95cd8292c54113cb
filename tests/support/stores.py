"""The stores that tests run on: the emulators of the cloud's, and a folder of this machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from grpc.aio import ClientInterceptor, insecure_channel

from gcp_adk_store import ArtifactLimits, SessionLimits, SessionService, Store
from gcp_adk_store.cloud.firestore.channels import Connection, connect
from gcp_adk_store.cloud.firestore.documents import Documents, open_documents
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.local.backend import open_backend
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.sessions.read.storage import SessionStorage

STORES: Final = (pytest.param("emulators", marks=pytest.mark.emulators), "folder")
"""For the ``params`` of a fixture that makes a store; `make quick` leaves out the emulators."""

At = Mapping[str, str]
"""A store: ``project`` and ``bucket`` on the emulators, or ``folder``."""


def open_store(at: At, **options: Any) -> Store:
    """Return the store *at* its place."""
    if "folder" in at:
        return Store.local(at["folder"], **options)
    return Store.connect(project=at["project"], bucket=at.get("bucket"), **options)


def firestore_documents(project: str, interceptors: Sequence[ClientInterceptor] = ()) -> Documents:
    """Return the documents of a project's default database."""
    return open_documents(
        project=project,
        database="(default)",
        credentials=None,
        client=None,
        interceptors=interceptors,
        limits=SessionLimits(),
    )


def bucket_objects(bucket: str, client: Any) -> Objects:
    """Return the objects of *bucket*, which a lent *client* asks for."""
    calls = StorageCalls(bucket, project=None, client=client, credentials=None, limits=ArtifactLimits())
    return Objects(calls)


def documents_at(address: str, *, emulator: str | None = None) -> Documents:
    """Return the documents of a server of the cloud's kind, whatever the emulators' variables say."""
    return Documents(_Plain(address, emulator), SessionLimits())  # type: ignore[arg-type]  # as it connects


class _Plain:
    def __init__(self, address: str, emulator: str | None) -> None:
        self._channel = insecure_channel(address)
        self._emulator = emulator

    async def connection(self) -> Connection:
        return connect(
            self._channel, project="p", database="(default)", extra_metadata=[], emulator=self._emulator
        )

    async def close(self) -> None:
        await self._channel.close()


def sessions_in(
    folder: Path,
    *,
    bucket: object = None,
    limits: SessionLimits | None = None,
    prefix: str = "adk",
    **options: Any,
) -> SessionService:
    """Return a service on *folder*, which keeps large content in files if it is given a *bucket*."""
    backend = open_backend(f"{folder}", limits or SessionLimits(), ArtifactLimits())
    objects = backend.objects if bucket else None
    return sessions_over(backend.documents, objects, limits=limits, prefix=prefix, **options)


def sessions_over(
    documents: Any, objects: Any, *, limits: SessionLimits | None = None, prefix: str = "adk", **options: Any
) -> SessionService:
    """Return a service over *documents*, which keeps large content in *objects* if these are not None."""
    layout = Layout(prefix)
    storage = SessionStorage(documents, Payloads(documents, objects, layout), layout)
    return SessionService(storage, limits=limits, **options)


async def remove_payloads(store: Store) -> None:
    """Remove the payloads of all sessions, which stay as they are."""
    payloads = store.sessions.storage.payloads
    async for found in payloads.scan():
        for payload in found:
            await payloads.at(payload.place).remove_unchanged(payload.versions)
