"""The embedders: google-genai against a server of this machine, functions, and how vectors are compared."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import numpy as np
import pytest
from google import genai
from google.auth.credentials import AnonymousCredentials
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from gcp_adk_store import EmbedderError, FunctionEmbedder, GenaiEmbedder, Store
from gcp_adk_store.kernel.ports import EmbeddingKind
from gcp_adk_store.memory.contents import Similarity, quantized
from gcp_adk_store.memory.embedding import Embedding
from gcp_adk_store.memory.ranking import VECTORS, fuse
from tests.memory.conftest import said
from tests.memory.test_vectors import add, search, service
from tests.support.lengths import at_length


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
    user: dict[str, Any] = {"app_name": "app", "user_id": "user"}
    await add(memory, said("x" * 90), said("a"))
    assert ["a"] == await search(memory, "b", limit=1)
    Models.status = 403
    await add(memory, said("c" * 90))
    with pytest.raises(EmbedderError, match="gemini-embedding-001 failed with ClientError 403") as caught:
        await memory.reindex_memories(**user)
    assert "secret" not in str(caught.value)
    Models.status = 200
    assert 1 == (await memory.reindex_memories(**user)).embedded
    client.close()


async def test_any_function_embeds() -> None:
    """What returns an awaitable runs in the loop, another one in a thread."""
    threads = []

    def plain(texts: Sequence[str], _kind: EmbeddingKind) -> list[list[float]]:
        threads.append(threading.current_thread())
        return [[float(len(text))] for text in texts]

    async def coroutine(texts: Sequence[str], kind: EmbeddingKind) -> list[list[float]]:
        await asyncio.sleep(0)
        return plain(texts, kind)

    class Called:
        async def __call__(self, texts: Sequence[str], kind: EmbeddingKind) -> list[list[float]]:
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


numbers = st.floats(-1e6, 1e6, allow_nan=False, width=32)


@settings(max_examples=at_length(10, 30), deadline=None)
@given(st.data(), st.integers(1, 12), st.integers(1, 300), st.integers(1, 40))
def test_the_nearest_are_those_of_floats(
    data: st.DataObject, dimensions: int, count: int, limit: int
) -> None:
    """In their order, as far as one byte a number shows; refused ones are left out."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    made = np.random.default_rng(seed)
    vectors = made.standard_normal((count, dimensions))
    query = made.standard_normal(dimensions)
    rows = quantized(vectors.tolist(), count=count, dimensions=dimensions, embedder="e")
    keyed = [number.to_bytes(8) + row for number, row in enumerate(rows)]
    half = count // 2
    near = Similarity()
    near.follow({1: b"".join(keyed[:half])}, keyed[half:], dimensions, int.from_bytes)
    (asked,) = quantized([query.tolist()], count=1, dimensions=dimensions, embedder="e")
    found = near.nearest(asked, limit=limit, accepts=lambda number: number % 3 != 0)

    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    assert all(abs(cosines[number] - score) < 0.03 for score, number in found)
    assert sorted((score for score, _ in found), reverse=True) == [score for score, _ in found]
    better = [n for n in range(count) if n % 3 and cosines[n] > 0.03]
    assert len(found) >= min(limit, len(better))
    assert len(found) <= limit
    assert all(number % 3 for _, number in found)
    if len(found) == limit:
        worst = found[-1][0]
        assert {n for n in better if cosines[n] > worst + 0.06} <= {number for _, number in found}


@settings(max_examples=at_length(15, 50), deadline=None)
@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_length_of_a_vector_does_not_count(vectors: list[list[float]]) -> None:
    """A vector and twice the vector are stored alike, in one byte a number; zeros stay zeros."""
    rows = quantized(vectors, count=len(vectors), dimensions=3, embedder="e")
    twice = [[2 * number for number in vector] for vector in vectors]

    assert rows == quantized(twice, count=len(vectors), dimensions=3, embedder="e")
    assert all(len(row) == 3 for row in rows)
    assert all((row == bytes(3)) == (not any(vector)) for row, vector in zip(rows, vectors, strict=True))


def test_words_and_vectors_are_fused_by_the_rule() -> None:
    """The best of each counts 1; a text that one of them lacks counts 0 in it."""
    fused = {number: score for score, number in fuse([(0.8, 1), (0.4, 2)], [(0.9, 2), (0.5, 3), (0.1, 4)])}

    assert {
        1: pytest.approx(1 - VECTORS),
        2: pytest.approx((1 - VECTORS) / 2 + VECTORS),
        3: pytest.approx(VECTORS / 2),
        4: 0,
    } == fused
    assert [] == fuse([], [])
    assert [(1.0, 7)] == [(round(score, 9), number) for score, number in fuse([(0.1, 7)], [(0.2, 7)])]


@pytest.mark.long
async def test_a_request_has_a_bounded_number_of_texts() -> None:
    """100, each of 8,192 characters at most."""
    from gcp_adk_store.codec.memories import encode_memory  # noqa: PLC0415
    from gcp_adk_store.model.memories import Memory  # noqa: PLC0415
    from gcp_adk_store.model.payloads import PayloadPlace  # noqa: PLC0415
    from tools.benchmarks.memory_embedder import PartsEmbedder  # noqa: PLC0415  # of this test

    embedder = PartsEmbedder(2)
    contents = [types.UserContent(f"{number} {'x' * 9000}") for number in range(250)]
    texts = [
        encode_memory(Memory(id=f"{n}", time=0.0), each, place=PayloadPlace.CHUNKS, life="l").text
        for n, each in enumerate(contents)
    ]
    made = await Embedding(embedder, timeout_s=10).stored(texts)

    assert 250 == len(made.vectors)
    assert [("document", 100), ("document", 100), ("document", 50)] == embedder.calls
