"""The embedders: google-genai against a server of this machine, and functions."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from google import genai
from google.auth.credentials import AnonymousCredentials
from google.genai import types

from gcp_adk_store import EmbedderError, FunctionEmbedder, GenaiEmbedder, Store
from tests.memory.conftest import USER, content, said
from tests.memory.test_vectors import add, search, service


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
