"""Let an operation run in a process of its own, to be killed in the middle."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from tests.faults.operations import OPERATIONS, use_small_pieces
from tests.faults.world import CloudWorld, Emulators
from tests.support.ready_processes import READY

_READY_S = 60.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class Acting:
    """A process that has all at hand and waits for its word."""

    process: BaseProcess
    pipe: Connection

    async def act(self) -> None:
        """Let it act; return when it is done, or gone."""
        self.pipe.send("go")
        await asyncio.to_thread(self._await_its_end)

    def _await_its_end(self) -> None:
        while self.process.is_alive() and not self.pipe.poll(_LOOK_S):
            pass

    def kill(self) -> None:
        """End it where it is, and wait until it is gone."""
        self.process.kill()
        self.process.join()


@contextlib.asynccontextmanager
async def act_in_a_process(name: str, world: CloudWorld) -> AsyncIterator[Acting]:
    """Start a process that is about to do the operation *name* in *world*."""
    ours, theirs = READY.Pipe()
    variables = {variable: os.environ[variable] for variable in (FIRESTORE_VARIABLE, STORAGE_VARIABLE)}
    places = (world.project, world.bucket, world.emulators.firestore, world.emulators.storage, world.now)
    process = READY.Process(target=_main, args=(theirs, name, variables, places), daemon=True)
    await asyncio.to_thread(process.start)
    theirs.close()
    try:
        assert await asyncio.to_thread(ours.poll, _READY_S), "the process is not ready"
        world.now = ours.recv()
        yield Acting(process, ours)
    finally:
        process.kill()
        await asyncio.to_thread(process.join)
        ours.close()


def _main(
    pipe: Connection, name: str, variables: dict[str, str], places: tuple[str, str, str, str, float]
) -> None:
    os.environ.update(variables)
    use_small_pieces()
    project, bucket, firestore, storage, now = places
    with FirestoreProxy(firestore) as clock:
        emulators = Emulators(clock.address, storage)
        clock.clock = emulators.time_of
        world = CloudWorld(emulators, project=project, bucket=bucket)
        world.now = now
        asyncio.run(_act(pipe, name, world))


async def _act(pipe: Connection, name: str, world: CloudWorld) -> None:
    operation = OPERATIONS[name]
    with world.keeping_time():
        held = await operation.attach(world)
        pipe.send(world.now)
        await asyncio.to_thread(pipe.recv)
        await operation.act(held)
        pipe.send("done")
