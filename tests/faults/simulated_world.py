"""A simulated service for every case, and what goes wrong with its requests."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from gcp_adk_store import ArtifactLimits, ArtifactService, SessionLimits, SessionService, Store
from gcp_adk_store.codec.names import UPLOADS
from gcp_adk_store.testing.simulation import Fate, Faults, Service, simulate
from gcp_adk_store.testing.simulation import World as Schedule
from gcp_adk_store.testing.simulation.faults import Way
from tests.faults.world import NOW, Holdings, Tasks, World, meaning
from tests.support.folder import DOCUMENTS, documents_in
from tests.support.stored import plain_text
from tests.support.stores import sessions_over

_WAY_S: Final = 0.01
"""Of each message, in one direction."""
_SOON_S: Final = 0.0001
_SETTLED_S: Final = 300.0
"""After so long nothing that a caller began is under way."""

Plan = Callable[[int], Fate]
"""Returns the fate of a request, by its number from the moment on that the plan is in force."""


class SimulatedWorld(World):
    """A service that no other case has seen, and one process whose requests can go wrong.

    The time of day stands still, as in a folder; deadlines pass.
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.process = schedule.process("acts")
        self._schedule = schedule
        self._service = Service(schedule)

    @contextmanager
    def suffering(self, plan: Plan, *, ends_at: int = -1) -> Iterator[tuple[list[str], asyncio.Event]]:
        """Let the requests of the process meet what *plan* says; yield their kinds, and the event of an end.

        The event is set while the request *ends_at* is on its way, or once it is done if its answer is lost.
        """
        kinds: list[str] = []
        reached, loop = asyncio.Event(), asyncio.get_running_loop()
        way_of = self._schedule.fates.way

        def way(sender: str, what: str, about: str) -> Way:
            way = way_of(sender, what, about)
            if sender != self.process.name:
                return way
            kinds.append(what)
            fate = plan(len(kinds) - 1)
            if len(kinds) - 1 == ends_at:
                after_s = _WAY_S if fate is Fate.ANSWER_LOST else 0.0
                self._schedule.at(self._schedule.now + after_s + _SOON_S, lambda: loop.call_soon(reached.set))
            return replace(way, fate=fate)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._schedule.fates, "way", way)
            yield kinds, reached

    async def put_upload(self, name: str) -> None:
        await self._service.backend.objects.create(name, plain_text(b"put"))

    async def settle(self) -> None:
        """Wait for what services still do for callers that are gone."""
        await asyncio.sleep(_SETTLED_S)

    async def holdings(self) -> Holdings:
        read = self._service._database.read
        documents = documents_in(await read(lambda database: database.execute(DOCUMENTS).fetchall()))
        backend, payloads = self._service.backend.objects, {}
        for name in await backend.names("adk-payloads/", delimiter=None):
            found = await backend.read(name, generation=None)
            payloads[name.rpartition("/")[2]] = found[0] if found else b""
        objects = "SELECT name, md5, content_type, metadata FROM objects"
        return meaning(documents, payloads) | {
            name.decode(): {"md5Hash": md5, "contentType": content_type, "metadata": json.loads(metadata)}
            for name, md5, content_type, metadata in await read(
                lambda database: database.execute(objects).fetchall()
            )
            if not name.startswith(f"{UPLOADS}/".encode())
        }

    def _store(self, *, acting: bool, **options: Any) -> Store:
        return self._service.store_of(self.process, **options) if acting else self._service.beside(**options)

    def _open_sessions(
        self, limits: SessionLimits, *, bucket: bool, acting: bool, options: dict[str, Any]
    ) -> SessionService:
        store = self._store(acting=acting, session_limits=limits)
        objects = store.artifacts.storage.objects if bucket else None
        return sessions_over(store.sessions.storage.documents, objects, limits=limits, **options)

    def _open_artifacts(self, limits: ArtifactLimits, *, acting: bool) -> ArtifactService:
        return self._store(acting=acting, artifact_limits=limits).artifacts

    def _open_tasks(self, kind: type[Tasks], limits: SessionLimits, *, acting: bool) -> Tasks:
        store = self._store(acting=acting, session_limits=limits)
        return kind(store.sessions.storage.documents, prefix="adk", limits=limits)


def in_a_world(case: Callable[[SimulatedWorld], Coroutine[Any, Any, None]]) -> None:
    """Run *case* in a world of its own."""
    worlds: list[SimulatedWorld] = []

    async def scenario(schedule: Schedule) -> None:
        worlds.append(SimulatedWorld(schedule))
        await case(worlds[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Schedule, "_time", lambda _: worlds[-1].now if worlds else NOW)
        simulate(scenario, seeds=[0], faults=Faults(latency_s=(_WAY_S, _WAY_S)))
