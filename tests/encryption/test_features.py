"""Every feature works on an encrypted store as it does on another one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from a2a.server.tasks import TaskStore
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import FunctionEmbedder, MemoryService, Point, SessionService, Store
from gcp_adk_store.moving import copy
from gcp_adk_store.testing.conformance import MemoryServiceConformance, SessionServiceConformance
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.conformance.tasks import TaskStoreConformance
from tests.encryption.conftest import LIMITS, CountingWrapper, envelope
from tests.erasure.conftest import APP, USER, canary, fill, said
from tests.support.stored import change, fields_of, session_path

THERE: Any = {"app_name": APP, "user_id": USER, "session_id": "s"}


@pytest.fixture
def sealed() -> Iterator[Store]:
    """A store for any event loop."""
    store = Store.local(":memory:", session_limits=LIMITS, encryption=envelope())
    yield store
    asyncio.run(store.close())


@pytest.mark.sample(1)
class TestEncryptedSessions(SessionServiceConformance):
    """ADK's contract of sessions."""

    @pytest.fixture
    def session_service(self, sealed: Store) -> SessionService:
        return sealed.sessions


@pytest.mark.sample(1)
class TestEncryptedMemories(MemoryServiceConformance):
    """ADK's contract of memories."""

    @pytest.fixture
    def memory_service(self, sealed: Store) -> MemoryService:
        return sealed.memory


@pytest.mark.sample(1)
class TestEncryptedTasks(TaskStoreConformance):
    """The contract of A2A tasks."""

    @pytest.fixture
    def task_store(self) -> contextlib.AbstractAsyncContextManager[TaskStore]:
        @contextlib.asynccontextmanager
        async def opened() -> AsyncIterator[TaskStore]:
            async with Store.local(":memory:", encryption=envelope()) as store:
                yield store.tasks

        return opened()


async def test_a_check_and_the_collector_find_nothing(store: Store) -> None:
    """Sizes, digests, chains and references of payloads fit."""
    await fill(store)
    await store.restore_session(**THERE, at=Point.position(4))

    faults = [fault async for fault in store.sessions.check(full=True)]

    assert {"FSCK305"} >= {fault.code for fault in faults}, faults  # of the session that was half deleted
    assert [] == [fault for fault in faults if "gone" not in fault.path and "/gone" not in fault.says]


async def test_a_copy_is_the_same_and_has_keys_of_its_own(store: Store, tmp_path: Path) -> None:
    """Sessions move between encrypted stores, and into one from the clear."""
    await fill(store)
    async with Store.local(tmp_path, encryption=envelope(CountingWrapper(b"o" * 32))) as other:
        report = await copy(store.sessions, other.sessions, app_name=APP, verify=True)
        expected = await read(store.sessions, THERE)
        found = await read(other.sessions, THERE)

    assert report.is_complete
    assert report.verified == report.copied > 0
    assert expected.events == found.events
    assert expected.state == found.state


async def test_a_follower_gets_what_another_process_appends(tmp_path: Path) -> None:
    """It decrypts each version of the document."""
    wrapper = CountingWrapper()
    async with (
        Store.local(tmp_path, encryption=envelope(wrapper)) as writer,
        Store.local(tmp_path, encryption=envelope(wrapper)) as reader,
    ):
        session = await writer.sessions.create_session(**THERE)
        events = [said(f"event {number}") for number in range(3)]

        async def write() -> None:
            for event in events:
                await writer.sessions.append_event(session, event)

        async with (
            aclosing(reader.sessions.iter_events(**THERE, follow=True)) as following,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(write())
            found = []
            async for each in following:
                found.append(each.event.id)
                if len(found) == len(events):
                    break

    assert [event.id for event in events] == found


async def test_memories_are_found_by_words_and_by_vectors(tmp_path: Path) -> None:
    """Ranking runs in the process, so neither words nor vectors are stored in the clear."""

    async def embed(texts: Sequence[str], _: str) -> list[list[float]]:
        return [[1.0 if "cat" in text or "feline" in text else -1.0, 0.5] for text in texts]

    embedder = FunctionEmbedder(embed, name="test", dimensions=2)
    who: Any = {"app_name": APP, "user_id": USER}
    async with Store.local(tmp_path, encryption=envelope(), embedder=embedder) as store:
        entries = [
            MemoryEntry(content=types.Content(parts=[types.Part(text=text)]))
            for text in ("a cat", "a dog " + canary("memory"), "x" * 40_000)
        ]
        await store.memory.add_memory(**who, memories=entries)
        by_words = await store.memory.search_memory(**who, query=canary("memory"))
        by_vectors = await store.memory.search_memory(**who, query="feline")

    def texts(found: Any) -> list[str]:
        return [each.content.parts[0].text for each in found.memories]

    assert "a dog " + canary("memory") == texts(by_words)[0]
    assert "a cat" == texts(by_vectors)[0]


async def test_a_check_mends_content(store: Store) -> None:
    """What it writes is encrypted for the session, as what stood there."""
    session = await store.sessions.create_session(**THERE, state={"kept": 1})
    await store.sessions.append_event(session, said("the last text", delta={"a": 1}))
    epoch = (await fields_of(store, session_path(THERE)))["epoch"]
    damage = {"state": {"kept": 1, "a": 2}, "last_text": "another", "rev": 7}
    await change(store, session_path(THERE), damage, life=epoch)
    faults = [fault async for fault in store.check()]

    repaired = await store.repair(faults)

    assert {"FSCK102", "FSCK106", "FSCK112"} == {fault.code for fault in repaired}
    assert [] == [fault async for fault in store.check()]
    found = await read(store.sessions, THERE)
    info = await store.sessions.get_session_info(**THERE)
    assert info is not None
    assert ({"kept": 1, "a": 1}, "the last text") == (found.state, info.last_text)
