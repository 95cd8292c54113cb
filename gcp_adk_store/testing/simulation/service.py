"""Give simulated processes a database and a bucket, and the store that each of them has."""

from dataclasses import replace
from typing import Unpack

from google.adk.platform import time as platform_time

from gcp_adk_store.kernel.ports import Backend
from gcp_adk_store.local.backend import contents_of, open_keys
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.local.objects import LocalObjects, LocalUploads, local_signer
from gcp_adk_store.local.sweep import Sweeper
from gcp_adk_store.settings import MEMORY, ArtifactLimits, SessionLimits
from gcp_adk_store.settings.options import StoreOptions
from gcp_adk_store.store import Store
from gcp_adk_store.testing.simulation.network import Link, Network
from gcp_adk_store.testing.simulation.storage import SimulatedDocuments, SimulatedObjects
from gcp_adk_store.testing.simulation.world import Process, World


class _Bucket(LocalObjects):
    """A bucket beside that of the store, which is in memory as long as its service."""

    async def close(self) -> None:
        """Keep the objects: another one opens the bucket again."""


class Service:
    """The database and the bucket of one world, and a bucket of anchors, in memory.

    Its processes stand at two heights. A store of :meth:`store_of` is one in the cloud: requests get lost
    below the library's own retry, and the library must recognise what landed. One of :meth:`beside` is as one
    in a folder of the same machine: nothing gets lost on the way.
    """

    def __init__(self, world: World) -> None:
        """Prepare an empty database and an empty bucket."""
        self.world = world
        self._database = Database(None)
        self._contents = contents_of(self._database, ArtifactLimits())
        self._buckets: dict[str, _Bucket] = {}
        objects = LocalObjects(self._database, self._contents, ArtifactLimits())
        self.backend = Backend(
            documents=LocalDocuments(self._database, SessionLimits()),
            objects=objects,
            uploads=LocalUploads(objects, self._contents),
            signer=local_signer(),
            open_bucket=self._bucket,
        )
        self.network = Network(world, world.process("service"))
        self._keys = open_keys(MEMORY, SessionLimits())

    def _bucket(self, name: str) -> _Bucket:
        """Return another bucket, which is there from its first use on."""
        if name not in self._buckets:
            database, limits = Database(None), ArtifactLimits()
            self._buckets[name] = _Bucket(database, contents_of(database, limits), limits)
        return self._buckets[name]

    async def expire(self) -> None:
        """Remove what has expired, as TTL policies and a bucket's lifecycle rule do at a time of theirs."""
        now = platform_time.get_time()
        sweeper = Sweeper(self._database, self._contents)
        await sweeper.sweep_documents(now=now)
        await sweeper.sweep_objects(now=now)

    def beside(self, **options: Unpack[StoreOptions]) -> Store:
        """Return a store without a network before it, also to look at what is stored."""
        return Store.from_backend(self.backend, open_keys=lambda _: self._keys, **options)

    def store_of(self, process: Process, **options: Unpack[StoreOptions]) -> Store:
        """Return a store as *process* has it in the cloud; make one for each process."""
        session_limits = options.get("session_limits") or SessionLimits()
        artifact_limits = options.get("artifact_limits") or ArtifactLimits()
        link = Link(self.network, process)

        def open_bucket(name: str) -> SimulatedObjects:
            return SimulatedObjects(link, replace(self.backend, objects=self._bucket(name)), artifact_limits)

        objects = SimulatedObjects(link, self.backend, artifact_limits)
        backend = Backend(
            documents=SimulatedDocuments(link, self.backend.documents, session_limits),
            objects=objects,
            uploads=objects.uploads,
            signer=self.backend.signer,
            open_bucket=open_bucket,
        )
        keys = SimulatedDocuments(link, self._keys, session_limits)
        return Store.from_backend(backend, open_keys=lambda _: keys, **options)
