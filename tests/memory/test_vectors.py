"""Vectors of memories: other words of one meaning are found, and an embedder that fails loses nothing.

Google's embedder talks to a server of this machine.
"""

import asyncio
import json
import logging
import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from google import genai
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.auth.credentials import AnonymousCredentials
from google.genai import types

from gcp_adk_store import (
    EmbedderError,
    ErasureReceipt,
    FunctionEmbedder,
    GenaiEmbedder,
    InvalidInputError,
    MemoryLimits,
    MemoryService,
    ReindexedMemories,
    Store,
)
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import row_key
from tests.memory.conftest import USER, content, said
from tests.support.clock import PassingTime, in_days
from tests.support.lengths import at_length
from tests.support.small_pieces import set_numbers
from tests.support.stored import change, collection, remove

KEY = UserKey(app="app", user="user")
MANY, LARGE = 24, 4096
"""So many vectors of so many dimensions are more than the head holds: a document has them."""
MEANINGS = {"hound": "dog", "puppy": "dog", "automobile": "car", "vehicle": "car", "residence": "home"}


class Meanings:
    """An embedder that knows some synonyms, and may be down, or answer what it must not."""

    def __init__(self, name: str = "meanings", dimensions: int = 32) -> None:
        self.name = name
        self.dimensions = dimensions
        self.failure: Exception | None = None
        self.answer: Any = None
        self.asked: list[tuple[str, list[str]]] = []

    async def embed(self, texts: Sequence[str], kind: str) -> Sequence[Sequence[float]]:
        """Return the sums of the vectors of the words' meanings."""
        self.asked.append((kind, [*texts]))
        if self.failure is not None:
            raise self.failure
        if self.answer is not None:
            answer: Sequence[Sequence[float]] = self.answer
            return answer
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in text.casefold().split():
            meaning = _direction(MEANINGS.get(word, word), self.dimensions)
            vector = [old + new for old, new in zip(vector, meaning, strict=True)]
        return vector


@cache
def _direction(word: str, dimensions: int) -> list[float]:
    made = random.Random(word)  # noqa: S311  # the same in every run
    return [made.gauss(0, 1) for _ in range(dimensions)]


@pytest.fixture
def embedder() -> Meanings:
    """An embedder that works."""
    return Meanings()


@pytest.fixture
def store(adk_store_local: Store) -> Store:
    """A new store."""
    return adk_store_local


@pytest.fixture
def memory(store: Store, embedder: Meanings) -> MemoryService:
    """A memory service with the embedder."""
    return service(store, embedder)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embedders are asked again at once after a failure."""
    set_numbers(monkeypatch, embedder_pause_s=0.0)


def service(store: Store, embedder: Any = None) -> MemoryService:
    """Return a memory service that knows nothing yet, as in another process."""
    patient = MemoryLimits(embed_timeout_s=600)  # a guard against hanging, however slow the machine is
    return MemoryService(store.sessions.storage, embedder=embedder, limits=patient)


async def add(memory: MemoryService, *events: Event, **options: Any) -> None:
    """Remember *events*."""
    await memory.add_events_to_memory(events=events, **USER, **options)


async def search(memory: MemoryService, query: str, **options: Any) -> list[str | None]:
    """Return what a search finds."""
    found = await memory.search_memories(query=query, **USER, **options)
    return [(each.memory.content.parts or [])[0].text for each in found]


async def stored_bytes(store: Store) -> bytes:
    """Return all bytes and texts that the documents of memories hold."""
    found = b""
    for name in ("adk_memories", "adk_shards", "adk_vectors"):
        documents = await store.sessions.storage.documents.query("", name, all_descendants=True)
        for document in documents:
            for value in document.fields.values():
                values = value if isinstance(value, list) else [value]
                found += b"".join(each if isinstance(each, bytes) else str(each).encode() for each in values)
    return found


async def parts_of(store: Store) -> list[str]:
    """Return the paths of all documents of vectors."""
    return [*await collection(store, "adk_vectors")]


async def texts_of(store: Store) -> list[str]:
    """Return the stored texts of all memories."""
    snapshot = await service(store)._keeper.reader.read(KEY)
    return [] if snapshot is None else [*snapshot.texts]


async def test_other_words_of_the_same_meaning_are_found(
    store: Store, memory: MemoryService, embedder: Meanings
) -> None:
    """By every process with the embedder, first; a process without it finds words."""
    await add(memory, said("my hound barks"), said("my aunt sings"), said("rain falls"))

    for reader in (memory, service(store, embedder)):
        assert "my hound barks" == (await search(reader, "dog"))[0]
        assert ["my hound barks"] == await search(reader, "dog", limit=1)
    assert [] == await search(service(store), "dog")
    assert ["my hound barks"] == await search(service(store), "hound")


async def test_an_embedder_gets_no_lone_surrogate(store: Store) -> None:
    """Which no request can hold: it would fail, and rest for all users."""
    embedder = Meanings()

    async def sent(texts: Sequence[str], kind: str) -> Sequence[Sequence[float]]:
        assert all(text.encode() for text in texts)
        assert not any("d83d" in text for text in texts)  # as the half is stored
        return await embedder.embed(texts, kind)

    memory = service(store, FunctionEmbedder(sent, name="meanings", dimensions=32))
    await add(memory, said("my hound barks \ud83d"), said("rain falls"))
    await add(memory, said("\ud83d" + "long " * 10_000))

    assert ["my hound barks \ud83d"] == await search(memory, "dog \ud83d", limit=1)
    assert {None} == await lacks_of(memory)


async def test_words_and_vectors_rank_together(memory: MemoryService) -> None:
    """A memory that both find comes first; scores fall from 1; filters hold for both."""
    await add(memory, said("the dog sleeps"), said("the puppy sleeps"), session_id="a")
    await add(memory, said("a hound", timestamp=5.0), session_id="b")
    found = await memory.search_memories(query="dog sleeps", **USER)

    assert "the dog sleeps" == (found[0].memory.content.parts or [])[0].text
    assert 1 == found[0].score
    assert sorted((each.score for each in found), reverse=True) == [each.score for each in found]
    assert ["a hound"] == await search(memory, "dog", session_id="b")
    assert ["a hound"] == await search(memory, "dog", before=6.0)
    assert [] == await search(memory, "dog", author="nobody")
    assert 1 == len(await search(memory, "dog sleeps", min_score=0.99))


async def test_an_embedder_that_is_down_loses_nothing(
    store: Store,
    memory: MemoryService,
    embedder: Meanings,
    impatient: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Memories are stored and found by their words; a later call makes the vectors."""
    assert impatient is None
    await add(memory, said("my hound barks"))
    embedder.failure = ConnectionError("secret of the embedder")
    with caplog.at_level(logging.WARNING):
        await add(memory, said("our automobile is red"))
        assert ["our automobile is red"] == await search(memory, "automobile")
    assert 2 == sum("ConnectionError" in line for line in caplog.messages)
    assert "secret" not in caplog.text
    embedder.failure = None

    assert "our automobile is red" not in await search(memory, "car", limit=1)
    dry = await memory.reindex_memories(**USER, dry_run=True)
    assert ReindexedMemories(memories=2, missing=1, embedded=0) == dry
    progress: list[tuple[int, int]] = []
    done = await memory.reindex_memories(**USER, on_progress=lambda *at: progress.append(at))
    assert ReindexedMemories(memories=2, missing=1, embedded=1) == done
    assert [(1, 1)] == progress
    assert "our automobile is red" == (await search(service(store, embedder), "car"))[0]
    assert 0 == (await memory.reindex_memories(**USER)).missing


async def test_a_failed_embedder_is_left_alone_for_a_time(memory: MemoryService, embedder: Meanings) -> None:
    """So one that hangs does not delay each call; reindexing asks at once."""
    embedder.failure = TimeoutError()
    await add(memory, said("one"))
    embedder.failure = None
    await add(memory, said("two"))
    await search(memory, "three")

    assert [("document", ["one"])] == embedder.asked
    assert 2 == (await memory.reindex_memories(**USER)).embedded


async def test_an_embedder_that_hangs_has_failed(store: Store, passing: PassingTime) -> None:
    """After MemoryLimits.embed_timeout_s."""
    limits = MemoryLimits()

    async def hang(_texts: Sequence[str], _kind: str) -> list[list[float]]:
        passing.after(limits.embed_timeout_s)
        await asyncio.Event().wait()
        return []

    hanging = FunctionEmbedder(hang, name="hangs", dimensions=2)
    memory = MemoryService(store.sessions.storage, limits=limits, embedder=hanging)
    await add(memory, said("my dog"))

    assert ["my dog"] == await search(memory, "dog")
    with pytest.raises(EmbedderError, match="hangs failed with TimeoutError"):
        await memory.reindex_memories(**USER)


async def test_a_query_is_embedded_once(memory: MemoryService, embedder: Meanings) -> None:
    """And not at all for a user without vectors."""
    await search(memory, "dog")
    assert [] == embedder.asked
    await add(memory, said("my hound"))
    await search(memory, "dog")
    await search(memory, " dog ")

    assert [("document", ["my hound"]), ("query", ["dog"])] == embedder.asked


async def test_vectors_of_another_embedder_are_replaced_by_reindexing_alone(
    store: Store, embedder: Meanings, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then, what one process embeds another one does not remove; the new one searches by words."""
    embedder.dimensions = LARGE
    memory = service(store, embedder)
    await add(memory, *(said(f"my hound number {number}") for number in range(MANY)))
    assert await parts_of(store)
    newer = Meanings(name="newer", dimensions=16)
    upgraded = service(store, newer)
    with caplog.at_level(logging.WARNING):
        await add(upgraded, said("our automobile"))
        assert [] == await search(upgraded, "dog")
    assert "vectors are of meanings (4096 dimensions), not of newer (16 dimensions)" in caplog.text
    assert "my hound" in str((await search(service(store, embedder), "dog"))[0])

    assert MANY + 1 == (await upgraded.reindex_memories(**USER)).embedded
    assert "our automobile" == (await search(upgraded, "car"))[0]
    assert [] == await search(service(store, embedder), "dog")
    snapshot = await service(store, newer)._keeper.reader.read(KEY, vectors=True)
    assert snapshot is not None
    assert ("newer", 16, MANY + 1) == (
        snapshot.head.vectors.embedder,
        snapshot.head.vectors.dimensions,
        snapshot.head.vectors.count,
    )
    assert len(snapshot.head.vectors.parts) == len(await parts_of(store))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([[1.0] * 31], "vectors of 31 numbers; it must return 1 vectors of 32"),
        ([[1.0] * 32, [1.0] * 32], "returned 2 vectors"),
        ([], "returned 0 vectors"),
        ([[math.nan] * 32], "NaN"),
        ([[math.inf] * 32], "NaN or infinity"),
        ([["x"] * 32], "no vectors of one length"),
        ([1.0], "vectors of no numbers"),
    ],
)
async def test_a_wrong_answer_of_an_embedder_is_an_error(
    store: Store, memory: MemoryService, embedder: Meanings, answer: Any, says: str
) -> None:
    """In additions, which store nothing, in searches and in reindexing."""
    await add(service(store), said("without vectors"))
    embedder.answer = answer
    with pytest.raises(EmbedderError, match=says):
        await add(memory, said("my dog"))
    with pytest.raises(EmbedderError, match=says):
        await memory.reindex_memories(**USER)
    embedder.answer = None
    await add(memory, said("my hound"))
    embedder.answer = answer
    with pytest.raises(EmbedderError, match=says):
        await search(memory, "dog")

    assert 2 == len(await texts_of(store))


@pytest.mark.parametrize(
    "wrong",
    [
        Meanings(name=""),
        Meanings(name="x" * 201),
        Meanings(dimensions=0),
        Meanings(dimensions=4097),
        lambda _texts: [],
    ],
)
def test_what_is_no_embedder_is_refused(store: Store, wrong: Any) -> None:
    """When the service is made."""
    with pytest.raises(InvalidInputError, match="embedder"):
        service(store, wrong)
    with pytest.raises(InvalidInputError, match="function must be a function, not Meanings"):
        FunctionEmbedder(Meanings(), name="x", dimensions=2)  # type: ignore[arg-type]  # which has embed()


async def lacks_of(memory: MemoryService) -> set[Any]:
    """Return what the results of a search say of vectors."""
    found = await memory.search_memory(query="dog", **USER)
    assert found.memories
    return {each.custom_metadata.get("adk_store_vectors") for each in found.memories}


@pytest.mark.usefixtures("impatient")
async def test_a_search_says_what_has_no_vector_and_how_to_make_it(
    store: Store, memory: MemoryService, embedder: Meanings
) -> None:
    """What was added while the embedder was slow, all of another embedder, and a query without an answer."""
    picture = types.Part(inline_data=types.Blob(data=b"png", mime_type="image/png"))
    await memory.add_memory(memories=[MemoryEntry(content=types.Content(parts=[picture]))], **USER)
    embedder.failure = TimeoutError()
    await add(memory, said("dog one"), said("dog two"))
    embedder.failure = None
    reindex = "have no vector, so words alone rank them: `gcp-adk-store memory reindex` makes the vectors"
    assert {f"2 memories {reindex}"} == await lacks_of(memory)
    await add(memory, said("dog three"))
    assert {f"2 memories {reindex}"} == await lacks_of(memory)

    embedder.failure = TimeoutError()
    down = service(store, embedder)
    assert {"the embedder does not answer: words alone rank all memories"} == await lacks_of(down)
    embedder.failure = None
    assert {f"3 memories {reindex}"} == await lacks_of(service(store, Meanings("newer")))
    assert {None} == await lacks_of(service(store))
    await memory.reindex_memories(**USER)
    assert {None} == await lacks_of(memory)


async def test_two_calls_that_reindex_at_once_store_each_vector_once(store: Store) -> None:
    """The second one finds what the first one stored meanwhile, also in documents."""
    count = at_length(250, 300)
    first = service(store, Meanings(dimensions=LARGE))
    await add(service(store), *(said(f"dog {number}") for number in range(count)))

    class Slow(Meanings):
        async def embed(self, texts: Sequence[str], kind: str) -> Sequence[Sequence[float]]:
            if not self.asked:
                await first.reindex_memories(**USER)
            return await super().embed(texts, kind)

    await service(store, Slow(dimensions=LARGE)).reindex_memories(**USER)
    (head,) = (await collection(store, "adk_memories")).values()

    assert count == len(head["fresh"]) + sum(part["count"] for part in head["vectors"])


async def test_a_vector_that_is_stored_twice_counts_once(store: Store, memory: MemoryService) -> None:
    """In the scores, and in what a search says of memories without a vector; earlier releases left such."""
    await add(memory, said("dog one"), said("dog two"), said("my aunt sings"))
    ((path, head),) = (await collection(store, "adk_memories")).items()
    await change(store, path, {"fresh": head["fresh"] * 2})
    found = await service(store, Meanings()).search_memories(query="dog one", **USER)

    assert ["dog one", "dog two"] == [(each.memory.content.parts or [])[0].text for each in found][:2]
    assert 1 == found[0].score
    assert {None} == await lacks_of(service(store, Meanings()))


@pytest.mark.sample(2)
@pytest.mark.parametrize("sealed", [False, True], ids=["in the head", "in documents"])
@pytest.mark.parametrize("knows", [True, False], ids=["with the embedder", "without it"])
async def test_vectors_are_erased_with_their_memories(
    store: Store, embedder: Meanings, *, sealed: bool, knows: bool
) -> None:
    """One memory, a session's, a changed one, and all of a user; no document holds what was made of them."""
    embedder.dimensions = LARGE
    writer = service(store, embedder)
    await add(writer, *(said(f"note {number}") for number in range(MANY if sealed else 5)))
    await add(writer, said("secret one", id="one"), said("secret change", id="change"))
    await add(writer, said("secret session"), said("secret talk"), session_id="private")
    if sealed:
        await add(writer, *(said(f"more {number}") for number in range(MANY)))
    secrets = [text for text in await texts_of(store) if "secret" in text]
    vectors = (await writer._keeper.embedding.stored(secrets)).vectors  # type: ignore[union-attr]
    before = await stored_bytes(store)
    assert all(row_key(text) + vector in before for text, vector in vectors.items())
    assert sealed == bool(await parts_of(store))

    eraser = service(store, embedder if knows else None)
    await eraser.delete_memory(memory_id="one", **USER)
    await eraser.delete_session_memory(session_id="private", **USER)
    new = types.Content(role="user", parts=[types.Part(text="changed hound")])
    assert await eraser.update_memory(memory_id="change", content=new, **USER)

    after = await stored_bytes(store)
    assert not any(row_key(text) in after or vector in after for text, vector in vectors.items())
    assert ("changed hound" == (await search(service(store, embedder), "dog"))[0]) == knows
    missing = (await writer.reindex_memories(**USER, dry_run=True)).missing
    assert (0 if knows else 1) == missing  # the others kept theirs
    await eraser.delete_user_memory(**USER)
    assert b"" == await stored_bytes(store)


async def test_many_large_vectors_are_erased_in_several_commits(store: Store) -> None:
    """Each writes a part of them again, and the texts go with the last one."""
    count, row = at_length(640, 1600), [1.0] * LARGE

    async def embed(texts: Sequence[str], _kind: str) -> list[list[float]]:
        return [[float(len(text)), *row[1:]] for text in texts]

    memory = service(store, FunctionEmbedder(embed, name="large", dimensions=LARGE))
    every = [said(f"note {number}", id=f"e{number}") for number in range(count)]
    for first in range(0, count, 80):
        await add(memory, *every[first : first + 80], session_id=f"s{first % 160}")
    assert len(await parts_of(store)) > 2
    await memory.delete_session_memory(session_id="s0", **USER)

    kept = {row_key(text) for text in await texts_of(store)}
    snapshot = await service(store)._keeper.reader.read(KEY, vectors=True)
    assert snapshot is not None
    rows = [body[at : at + 8] for body in snapshot.vectors.values() for at in range(0, len(body), LARGE + 8)]
    assert count // 2 == len(kept)
    assert kept == {*rows, *(row[:8] for row in snapshot.head.vectors.fresh)}


async def test_vectors_of_memories_that_ended_go(store: Store, embedder: Meanings) -> None:
    """With the commit that drops their texts; Firestore may remove their documents, too."""
    embedder.dimensions = LARGE
    memory = service(store, embedder)
    ending = [said(f"hound {number} {'x' * 300}", timestamp=time.time()) for number in range(MANY)]
    await add(memory, *ending, custom_metadata={"ttl_seconds": 50_000})
    gone = [row_key(text) for text in await texts_of(store)]
    documents = store.sessions.storage.documents
    for document in await documents.query("", "adk_vectors", all_descendants=True):
        assert "expire_at" in document.fields
    before = await stored_bytes(store)
    assert all(key in before for key in gone)
    await add(memory, said("lasting"))
    with in_days(1):
        assert "lasting" == (await search(memory, "dog"))[0]
        await add(service(store, embedder), *(said(f"{number} {'y' * 3000}") for number in range(MANY)))

        after = await stored_bytes(store)
        assert not any(key in after for key in gone)
        assert 0 == (await memory.reindex_memories(**USER)).missing


async def test_a_deletion_takes_along_what_ended(store: Store, embedder: Meanings) -> None:
    """Texts that ended alone have left, but their vectors may share a document with lasting ones."""
    embedder.dimensions = LARGE
    memory = service(store, embedder)
    ending = [said(f"hound {number} {'x' * 3000}", id=f"e{number}") for number in range(MANY)]
    await add(memory, *ending, custom_metadata={"ttl_seconds": 50_000})
    gone = [row_key(text) for text in await texts_of(store)]
    await add(memory, *(said(f"lasting {number}") for number in range(9)))
    assert 1 == len(await parts_of(store))
    with in_days(1):
        assert 9 == len(await texts_of(store))
        before = await stored_bytes(store)
        assert all(key in before for key in gone)

        await service(store, embedder).delete_memory(memory_id="e7", **USER)

        after = await stored_bytes(store)
        assert not any(key in after for key in gone)
        assert 9 == len(await texts_of(store))
        assert 0 == (await service(store, embedder).reindex_memories(**USER)).missing


async def test_a_deletion_removes_everything_once_all_has_ended(store: Store, embedder: Meanings) -> None:
    """Also texts and payloads: no reader finds them, but they are stored until Firestore removes them."""
    await add(
        service(store, embedder), said("hound"), said("x" * 400_000), custom_metadata={"ttl_seconds": 9}
    )
    payloads = store.sessions.storage.payloads.in_bucket
    assert payloads is not None
    with in_days(1):
        snapshot = await service(store)._keeper.reader.read(KEY)
        assert snapshot is not None
        assert row_key(snapshot.head.tail[0]) in await stored_bytes(store)
        assert 1 == len([each async for page in payloads.scan() for each in page])

        await service(store, embedder).delete_memory(memory_id="another", **USER)

        assert b"" == await stored_bytes(store)
        assert [] == [each async for page in payloads.scan() for each in page]


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "damaged"])
async def test_lost_or_damaged_vectors_are_made_anew(
    store: Store, embedder: Meanings, caplog: pytest.LogCaptureFixture, *, is_lost: bool
) -> None:
    """Searches go on by words, and deletion works."""
    embedder.dimensions = LARGE
    memory = service(store, embedder)
    await add(memory, *(said(f"my hound number {number}", id=f"e{number}") for number in range(MANY)))
    path = (await parts_of(store))[0]
    if is_lost:
        await remove(store, path)
    else:
        await change(store, path, {"body": b"x"})
    reader = service(store, embedder)
    with caplog.at_level(logging.WARNING):
        assert "my hound number 17" in (await search(reader, "number 17"))[:1]
    assert "memory reindex" in caplog.text
    await reader.delete_memory(memory_id="e17", **USER)
    found = await reader.reindex_memories(**USER)
    assert found.missing == found.embedded > 0
    assert 0 == (await service(store, embedder).reindex_memories(**USER)).missing
    assert MANY - 1 == len(await texts_of(store))


async def test_reindexing_goes_on_beside_writers(store: Store, embedder: Meanings) -> None:
    """Both lose nothing, and what another call made is not made twice."""
    count = at_length(200, 1200)
    await add(service(store), *(said(f"note {number}", id=f"e{number}") for number in range(count)))
    indexer, writer = service(store, embedder), service(store, embedder)

    async def write() -> None:
        for number in range(10):
            await add(writer, said(f"new {number}"))
            await writer.delete_memory(memory_id=f"e{number}", **USER)

    await asyncio.gather(
        indexer.reindex_memories(**USER), write(), service(store, embedder).reindex_memories(**USER)
    )
    assert count == len(await texts_of(store))
    assert 0 == (await service(store, embedder).reindex_memories(**USER)).missing
    kept = {row_key(text) for text in await texts_of(store)}
    snapshot = await service(store)._keeper.reader.read(KEY, vectors=True)
    assert snapshot is not None
    rows = {body[at : at + 8] for body in snapshot.vectors.values() for at in range(0, len(body), 40)}
    assert kept == rows | {row[:8] for row in snapshot.head.vectors.fresh}


@pytest.mark.long
async def test_large_dimensions_lie_in_documents_of_their_own(store: Store) -> None:
    """Below 1 MiB each, and in the order of additions; the head stays small."""
    memory = service(store, Meanings(dimensions=1024))
    await add(memory, *(said(f"note {number}") for number in range(2500)))
    snapshot = await service(store)._keeper.reader.read(KEY, vectors=True)
    assert snapshot is not None
    vectors = snapshot.head.vectors

    assert 2500 == vectors.count
    assert 3 <= len(vectors.parts) <= 4  # 2.6 MB
    assert max(part.size for part in vectors.parts) <= 900 * 1024
    assert sum(map(len, vectors.fresh)) <= 64 * 1024
    head = f"adk_apps/app/adk_users/user/adk_memories/head/adk_vectors/{snapshot.head.epoch}"
    assert {f"{head}-{part.number}" for part in vectors.parts} == {*await parts_of(store)}


async def test_an_erased_user_has_no_vectors(store: Store, embedder: Meanings) -> None:
    """And they count as a part of the memories."""
    embedder.dimensions = LARGE
    await add(service(store, embedder), *(said(f"secret {number}") for number in range(MANY)))
    assert await parts_of(store)
    shown = [each async for each in store.erase_user(**USER)]

    assert b"" == await stored_bytes(store)
    receipt = shown[-1]
    assert isinstance(receipt, ErasureReceipt)
    assert MANY == receipt.erased["memories"].count
    assert 0 == (receipt.erased["others"].count if "others" in receipt.erased else 0)


async def test_memories_that_begin_anew_have_their_vectors(store: Store) -> None:
    """Documents of vectors are numbered anew then: a process that held the older ones reads the new ones."""
    embedder = Meanings(dimensions=LARGE)
    other, memory = service(store, embedder), service(store, embedder)
    events = [said(f"dog {number}") for number in range(2 * MANY)]
    await add(other, *events[:MANY])
    assert {None} == await lacks_of(memory)
    await other.delete_user_memory(**USER)
    await add(other, *events)

    assert {None} == await lacks_of(memory)


class Models(BaseHTTPRequestHandler):
    """The embedding methods of the Gemini API and of Vertex AI, as far as their REST documents show them."""

    protocol_version = "HTTP/1.1"  # connections stay, as those of Google do
    asked: ClassVar[list[tuple[str, Any]]] = []
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        """Answer with vectors that show the lengths of the texts."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.path, body))
        if self.path.endswith(":batchEmbedContents"):
            texts = [each["content"]["parts"][0]["text"] for each in body["requests"]]
            answer: Any = {"embeddings": [{"values": [len(text), 1.0]} for text in texts]}
        else:
            answer = {
                "predictions": [
                    {"embeddings": {"values": [len(each["content"]), 1.0], "statistics": {"token_count": 1}}}
                    for each in body["instances"]
                ]
            }
        sent = json.dumps(answer if self.status == 200 else {"error": {"message": "secret"}}).encode()
        self.send_response(self.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", f"{len(sent)}")
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def models() -> Iterator[str]:
    """The address of the server."""
    Models.asked, Models.status = [], 200
    server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def gemini(address: str) -> genai.Client:
    """Return a client of the Gemini API."""
    return genai.Client(api_key="key", vertexai=False, http_options=types.HttpOptions(base_url=address))


async def test_texts_of_one_call_go_in_one_request(models: str) -> None:
    """With the kind of text and the dimensions, as the Gemini API has them."""
    client = gemini(models)
    embedder = GenaiEmbedder(client, dimensions=2)
    assert [[5.0, 1.0], [3.0, 1.0]] == await embedder.embed(["first", "two"], "document")
    assert [[6.0, 1.0]] == await embedder.embed(["asking"], "query")
    client.close()

    (path, first), (_, second) = Models.asked
    assert "/v1beta/models/gemini-embedding-001:batchEmbedContents" == path
    assert ["first", "two"] == [each["content"]["parts"][0]["text"] for each in first["requests"]]
    assert {("RETRIEVAL_DOCUMENT", 2)} == {
        (each["taskType"], each["outputDimensionality"]) for each in first["requests"]
    }
    assert "RETRIEVAL_QUERY" == second["requests"][0]["taskType"]


def test_one_embedder_serves_event_loops_after_each_other_and_at_once(models: str) -> None:
    """As ``Runner.run`` has them: each call begins a loop of its own, and closes it."""
    embedder = GenaiEmbedder(gemini(models), dimensions=2)

    def ask() -> Sequence[Sequence[float]]:
        return asyncio.run(embedder.embed(["first"], "document"))

    assert [[[5.0, 1.0]]] * 3 == [ask() for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        assert [[[5.0, 1.0]]] * 6 == [*threads.map(lambda _: ask(), range(6))]


async def test_vertex_ai_gets_one_text_in_a_request(models: str) -> None:
    """The vectors keep the order of the texts."""
    client = genai.Client(
        vertexai=True,
        project="demo",
        location="here",
        credentials=_Credentials(),  # type: ignore[no-untyped-call]
        http_options=types.HttpOptions(base_url=models),
    )
    texts = ["x" * size for size in range(1, 20)]
    found = await GenaiEmbedder(client, dimensions=2).embed(texts, "document")
    client.close()

    assert [float(len(text)) for text in texts] == [vector[0] for vector in found]
    assert len(texts) == len(Models.asked)
    assert all(1 == len(body["instances"]) for _, body in Models.asked)
    assert {"RETRIEVAL_DOCUMENT"} == {body["instances"][0]["task_type"] for _, body in Models.asked}


class _Credentials(AnonymousCredentials):
    def refresh(self, _request: Any) -> None:
        self.token = "token"  # noqa: S105  # of a server of this machine

    @property
    def expired(self) -> bool:
        return False


async def test_memories_are_found_by_vectors_of_a_model(models: str, adk_store_local: Store) -> None:
    """And stored without them while it refuses; the error of reindexing has the status, and no content."""
    client = gemini(models)
    memory = service(adk_store_local, GenaiEmbedder(client, dimensions=2))
    await add(memory, said("x" * 90), said("a"))
    assert ["a"] == await search(memory, "b", limit=1)
    Models.status = 403
    await add(memory, said("c" * 90))
    with pytest.raises(EmbedderError, match="gemini-embedding-001 failed with ClientError 403") as caught:
        await memory.reindex_memories(**USER)
    assert "secret" not in str(caught.value)
    Models.status = 200
    assert 1 == (await memory.reindex_memories(**USER)).embedded
    client.close()


def _without_long_ones(texts: Sequence[str], _kind: str) -> list[list[float]]:
    if max(map(len, texts)) > 50:
        raise ValueError("secret: too many tokens")
    return [[float(len(text))] for text in texts]


async def test_a_text_that_the_embedder_refuses_keeps_no_other_from_its_vector(
    adk_store_local: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Reindexing names it, each time; additions and searches of others go on at once."""
    picky = FunctionEmbedder(_without_long_ones, name="picky", dimensions=1)
    plain = service(adk_store_local)
    await add(plain, *(said("x" * 90 if number in {7, 11, 12} else f"{number}") for number in range(40)))
    await add(plain, said("y" * 90))
    memory = service(adk_store_local, picky)
    done = await memory.reindex_memories(**USER)
    again = await memory.reindex_memories(**USER)
    await add(memory, said("z" * 90), said("short"))
    await search(memory, "q" * 90)
    last = await memory.reindex_memories(**USER)

    assert (done.missing - len(done.refused), [*done.refused]) == (done.embedded, [*again.refused])
    assert 0 == again.embedded
    found = {each.id: each.content for each in (await memory.list_memories(**USER, page_size=100)).memories}
    assert [content("x" * 90)] * 3 + [content("y" * 90)] == sorted(
        (found[each] for each in done.refused), key=str
    )
    assert (len(done.refused) + 1, 0) == (len(last.refused), last.embedded)
    assert "refused 1 memories" in caplog.text
    assert "secret" not in caplog.text


async def test_an_embedder_that_refuses_all_of_many_texts_has_failed(adk_store_local: Store) -> None:
    """As one with a wrong key does; the error has its status."""
    await add(service(adk_store_local), *(said("x" * (60 + number)) for number in range(20)))
    picky = FunctionEmbedder(_without_long_ones, name="picky", dimensions=1)
    with pytest.raises(EmbedderError, match="picky failed with ValueError"):
        await service(adk_store_local, picky).reindex_memories(**USER)


async def test_any_function_embeds() -> None:
    """What returns an awaitable runs in the loop, another one in a thread."""
    threads = []

    def plain(texts: Sequence[str], _kind: str) -> list[list[float]]:
        threads.append(threading.current_thread())
        return [[float(len(text))] for text in texts]

    async def coroutine(texts: Sequence[str], kind: str) -> list[list[float]]:
        await asyncio.sleep(0)
        return plain(texts, kind)

    class Called:
        async def __call__(self, texts: Sequence[str], kind: str) -> list[list[float]]:
            return await coroutine(texts, kind)

    functions: list[Any] = [plain, coroutine, Called(), lambda texts, _kind: coroutine(texts, "query")]
    for function in functions:
        embedder = FunctionEmbedder(function, name="length", dimensions=1)
        assert [[2.0], [0.0]] == await embedder.embed(["ab", ""], "query")
    assert threading.main_thread() not in threads[:1]
    assert [threading.main_thread()] * 3 == threads[1:]


@pytest.mark.parametrize(
    "answer", [None, 1.0, {"a": 1}, iter([[1.0]])], ids=["none", "number", "map", "iterator"]
)
async def test_an_answer_that_is_no_sequence_of_vectors_is_refused(answer: Any) -> None:
    """With what it must be; a memory is not stored, as after vectors of another size."""
    embedder = FunctionEmbedder(lambda _texts, _kind: answer, name="wrong", dimensions=1)
    async with Store.local(":memory:", embedder=embedder) as store:
        with pytest.raises(
            EmbedderError, match=r"the embedder wrong returned .*it must return 1 vectors of 1"
        ):
            await add(store.memory, said("tea"))

        assert [] == await search(store.memory, "tea")


@pytest.mark.long
async def test_a_request_has_a_bounded_number_of_texts() -> None:
    """100, each of 8,192 characters at most."""
    from tools.benchmarks.memory_embedder import PartsEmbedder  # noqa: PLC0415  # of this test

    embedder = PartsEmbedder(2)
    async with Store.local(":memory:") as store:
        await add(service(store), *(said(f"{number} {'x' * 9000}") for number in range(250)))
        made = await service(store, embedder).reindex_memories(**USER)

    assert 250 == made.embedded
    assert [("document", 100), ("document", 100), ("document", 50)] == embedder.calls
