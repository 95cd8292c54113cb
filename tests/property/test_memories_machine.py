"""Let processes add, change, remove and search memories in any order, and compare them with a dictionary."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gcp_adk_store import MemoryService, Store
from gcp_adk_store.codec.memories import decode_memory
from gcp_adk_store.codec.memory_documents import rows_in
from gcp_adk_store.kernel.ports import EmbeddingKind
from gcp_adk_store.memory import changes, embedding, vectors
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import row_key
from tools.benchmarks.memory_embedder import PartsEmbedder

T = TypeVar("T")

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
KEY = UserKey(app="app", user="user")
PROCESSES = st.integers(0, 2)
NUMBERS = st.integers(0, 11)
SESSIONS = ("a", "b", "c")
TTL_S = 100


@dataclass
class Kept:
    """A memory as a reader should find it."""

    text: str
    until: float | None


class Weak(PartsEmbedder):
    """An embedder that is down at times."""

    is_down = False

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> list[list[float]]:
        """Return vectors, or fail."""
        if self.is_down:
            raise ConnectionError
        return await super().embed(texts, kind)


class MemoriesMachine(RuleBasedStateMachine):
    """Two processes with an embedder, and one without; the model knows texts, ends and all ids taken in."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._store = Store.local(":memory:")
        self._passed_s, self._began = 0.0, time.time()
        self._embedder = Weak(8)
        self._services = [self._service(process) for process in range(3)]
        self._kept: dict[int, Kept] = {}
        self._taken: set[int] = set()
        self._number_of: dict[bytes, int] = {}
        """Each stored text that was seen, by what stands for it in a row -> the number of its memory."""
        self._changed: set[bytes] = set()
        """Those that were changed or removed since."""

    def teardown(self) -> None:
        """Fill in all vectors, then remove everything: no document is left."""
        self._embedder.is_down = False
        self.reindex()
        self.forget_user(2)
        self._run(self._store.close())
        self._runner.close()

    def _service(self, process: int) -> MemoryService:
        embedder = self._embedder if process < 2 else None  # two of three have it
        return MemoryService(self._store.sessions.storage, embedder=embedder)

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        async def timed() -> T:
            platform_time.set_time_provider(lambda: self._now)
            return await call

        return self._runner.run(timed())

    @property
    def _now(self) -> float:
        return self._began + self._passed_s

    def _living(self) -> dict[int, Kept]:
        return {n: kept for n, kept in self._kept.items() if kept.until is None or kept.until > self._now}

    @rule(process=PROCESSES, numbers=st.lists(NUMBERS, min_size=1, max_size=6, unique=True))
    def add(self, process: int, numbers: list[int]) -> None:
        """Add events, some of them known; every third ends."""
        for ends, session in ((ends, session) for ends in (False, True) for session in SESSIONS):
            chosen = [n for n in numbers if (n % 3 == 0) == ends and SESSIONS[n % len(SESSIONS)] == session]
            if chosen:
                metadata = {"ttl_seconds": TTL_S} if ends else None
                self._run(
                    self._services[process].add_events_to_memory(
                        events=[_event(n, at=self._began) for n in chosen],
                        session_id=session,
                        custom_metadata=metadata,
                        **USER,
                    )
                )
            until = self._began + TTL_S if ends else None
            for number in chosen:
                if number not in self._taken and (until is None or until > self._now):
                    self._taken.add(number)
                    self._kept[number] = Kept(text=_text(number), until=until)

    @rule(process=PROCESSES, number=NUMBERS)
    def remove(self, process: int, number: int) -> None:
        """Remove one, which may be missing."""
        self._run(self._services[process].delete_memory(memory_id=f"e{number}", **USER))
        self._gone({number})

    @rule(process=PROCESSES, session=st.sampled_from(SESSIONS))
    def remove_session(self, process: int, session: str) -> None:
        """Remove those of a session."""
        self._run(self._services[process].delete_session_memory(session_id=session, **USER))
        self._gone({number for number in self._kept if SESSIONS[number % len(SESSIONS)] == session})

    @rule(process=PROCESSES, number=NUMBERS, word=st.sampled_from(["tea", "rum"]))
    def change(self, process: int, number: int, word: str) -> None:
        """Replace the content of one, which may be missing."""
        content = types.UserContent(f"{_text(number)} {word}")
        call = self._services[process].update_memory(memory_id=f"e{number}", content=content, **USER)
        is_there = number in self._living()
        assert is_there == self._run(call)
        if is_there and self._kept[number].text != f"{_text(number)} {word}":
            self._outdate({number})
            self._kept[number].text = f"{_text(number)} {word}"

    @rule(process=PROCESSES)
    def forget_user(self, process: int) -> None:
        """Remove all, and every trace."""
        self._run(self._services[process].delete_user_memory(**USER))
        self._kept, self._taken = {}, set()
        self._number_of, self._changed = {}, set()
        for collection in ("adk_memories", "adk_shards", "adk_vectors"):
            found = self._store.sessions.storage.documents.query("", collection, all_descendants=True)
            assert [] == self._run(found)

    @rule(process=PROCESSES)
    def begin_anew(self, process: int) -> None:
        """A process ends, and another one takes its place."""
        self._services[process] = self._service(process)

    @rule(is_down=st.booleans())
    def break_or_mend(self, *, is_down: bool) -> None:
        """The embedder goes down or comes back."""
        self._embedder.is_down = is_down

    @rule(seconds=st.sampled_from([1, 40, 2 * TTL_S]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self._passed_s += seconds

    @precondition(lambda self: not self._embedder.is_down)
    @rule()
    def reindex(self) -> None:
        """All memories get a vector, and a second run finds nothing to do."""
        self._run(self._services[0].reindex_memories(**USER))
        assert 0 == self._run(self._services[1].reindex_memories(**USER)).missing

    @rule(process=PROCESSES, number=NUMBERS)
    def search(self, process: int, number: int) -> None:
        """What is there is found first by a word of its own."""
        found = self._run(self._services[process].search_memories(query=f"word{number}x", limit=20, **USER))
        living = self._living()
        assert {each.memory.id for each in found} <= {f"e{each}" for each in living}
        if number in living:
            assert f"e{number}" == found[0].memory.id

    @rule(process=PROCESSES)
    def compare(self, process: int) -> None:
        """A listing has all that is there, with its text."""
        page = self._run(self._services[process].list_memories(page_size=100, **USER))
        listed = {each.id: (each.content.parts or [])[0].text for each in page.memories}
        assert {f"e{number}": kept.text for number, kept in self._living().items()} == listed

    @invariant()
    def no_vector_outlives_its_memory(self) -> None:
        """Of all that was changed or removed, no row is left."""
        snapshot = self._run(
            MemoryService(self._store.sessions.storage)._keeper.reader.read(KEY, vectors=True)
        )
        if snapshot is None:
            return
        for text in snapshot.texts:
            self._number_of[row_key(text)] = int(decode_memory(text).id[1:])
            self._changed.discard(row_key(text))
        stored = snapshot.head.vectors
        rows = [row for body in snapshot.vectors.values() for row in rows_in(body, stored.dimensions)]
        keys = [row[:8] for row in (*rows, *stored.fresh)]
        assert len(keys) == len(set(keys)) == stored.count
        assert not self._changed & set(keys)
        assert set(keys) <= set(self._number_of)

    def _gone(self, numbers: set[int]) -> None:
        self._outdate(numbers)
        for number in numbers:
            self._kept.pop(number, None)

    def _outdate(self, numbers: set[int]) -> None:
        self._changed |= {key for key, number in self._number_of.items() if number in numbers}


def _text(number: int) -> str:
    return f"word{number}x {'filler ' * 12}"


def _event(number: int, *, at: float) -> Event:
    return Event(id=f"e{number}", author="user", timestamp=at, content=types.UserContent(_text(number)))


def test_memories_are_what_a_dictionary_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """With limits so small that documents seal and merge all the time."""
    monkeypatch.setattr(changes, "SEAL_BYTES", 700)
    monkeypatch.setattr(vectors, "FRESH_BYTES", 40)
    monkeypatch.setattr(vectors, "PART_BYTES", 80)
    monkeypatch.setattr(vectors, "_FULL_BYTES", 72)
    monkeypatch.setattr(vectors, "_REWRITTEN_BYTES", 100)
    monkeypatch.setattr(embedding, "_PAUSE_S", 0.0)
    try:
        run_state_machine_as_test(
            MemoriesMachine, settings=settings(max_examples=20, stateful_step_count=25, deadline=None)
        )
    finally:
        platform_time.reset_time_provider()
