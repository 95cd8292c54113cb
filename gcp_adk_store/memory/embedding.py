"""Turn texts into vectors with the caller's or Google's embedder, and keep those of memories."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from google import genai
from google.genai import types

from gcp_adk_store import machine
from gcp_adk_store.codec.memories import decode_memory, searchable_text
from gcp_adk_store.errors import EmbedderError, InvalidInputError, require_number, shown
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Lru, gather, offload
from gcp_adk_store.kernel.ports import Embedder, EmbeddingKind
from gcp_adk_store.memory.contents import Snapshot, quantized, require_numpy
from gcp_adk_store.memory.vectors import PART_BYTES, Embedded, missing
from gcp_adk_store.model.keys import whole_text
from gcp_adk_store.model.memories import DIGEST_BYTES, Vectors

_Vectors: TypeAlias = Sequence[Sequence[float]]

_TASKS: Final[dict[EmbeddingKind, str]] = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}
_AT_ONCE: Final = 8
"""Requests of one call that run at a time."""
_LONGEST_MS: Final = 60_000
"""Of a request that nobody waits for any more: its thread ends then."""


class GenaiEmbedder:
    """Vectors by an embedding model of the Gemini API or of Vertex AI, over ``google-genai``."""

    def __init__(
        self,
        client: genai.Client | None = None,
        *,
        model: str = "gemini-embedding-001",
        dimensions: int = 256,
    ) -> None:
        """Prepare; it contacts nothing before the first call.

        Args:
            client: The client, which the caller closes; by default one from the environment, as ADK's models
                make it (``GOOGLE_API_KEY``, or ``GOOGLE_GENAI_USE_VERTEXAI`` with project and location).
            model: The model's name.
            dimensions: Numbers in each vector. 10,000 memories take 2.6 MB with 256.
        """
        self.name: Final = model
        self.dimensions: Final = dimensions
        self._client = client

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> _Vectors:
        """Return one vector for each of *texts*, in one request to the Gemini API.

        Vertex AI takes one text in a request of a Gemini model: then 8 requests run at a time. Requests run
        in threads, since a connection of the client's ``aio`` belongs to one event loop.
        """
        if self._client is None:
            try:
                self._client = genai.Client()
            except Exception as exc:
                raise EmbedderError(
                    "google-genai has no credentials: set GOOGLE_API_KEY, or GOOGLE_GENAI_USE_VERTEXAI=true "
                    "with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or pass client="
                ) from exc
        one_each = self._client.vertexai and "gemini" in self.name
        parts = [[text] for text in texts] if one_each else [[*texts]]
        permits = asyncio.Semaphore(_AT_ONCE)
        send = self._client.models.embed_content
        config = types.EmbedContentConfig(
            task_type=_TASKS[kind],
            output_dimensionality=self.dimensions,
            http_options=types.HttpOptions(timeout=_LONGEST_MS),
        )

        async def request(part: list[str]) -> _Vectors:
            async with permits:
                contents: Any = part
                answer = await asyncio.to_thread(send, model=self.name, contents=contents, config=config)
            return [each.values or [] for each in answer.embeddings or []]

        return [vector for found in await gather(map(request, parts)) for vector in found]


class FunctionEmbedder:
    """Vectors by a function, or a coroutine function, of the caller."""

    def __init__(
        self,
        function: Callable[[Sequence[str], EmbeddingKind], _Vectors]
        | Callable[[Sequence[str], EmbeddingKind], Awaitable[_Vectors]],
        *,
        name: str,
        dimensions: int,
    ) -> None:
        """Prepare.

        Args:
            function: Returns one vector for each text. It is called in a thread; what it returns may be
                awaitable. A ``ValueError`` refuses a text of these: the others are asked for again.
            name: Names the model: after a change of it, ``gcp-adk-store memory reindex`` makes vectors anew.
            dimensions: Numbers in each vector.

        Raises:
            InvalidInputError: *function* cannot be called.
        """
        if not callable(function):
            raise InvalidInputError(f"function must be a function, not {type(function).__name__}")
        self.name: Final = name
        self.dimensions: Final = dimensions
        self._function = function

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> _Vectors:
        """Return one vector for each of *texts*."""
        made: Any = await asyncio.to_thread(self._function, texts, kind)
        vectors: _Vectors = await made if inspect.isawaitable(made) else made
        return vectors


logger = logging.getLogger(__name__)


class _TextRefusedError(EmbedderError):
    """The embedder does not take a text, as far as its error shows: others may be fine."""


MAX_DIMENSIONS: Final = 4096
MAX_NAME: Final = 200
MAX_TEXT: Final = 8192
"""Characters of a text that an embedder gets."""
AT_ONCE: Final = 100
"""Texts of one call of an embedder: the most that the Gemini API takes."""
_REFUSALS: Final = (400, 413, 422)
"""Status codes of a model that does not take a text."""
_ALL_REFUSED: Final = 8
"""An embedder that takes none of more texts than these does not refuse texts: it fails."""
_PAUSE_S: Final = 30.0
"""Seconds after a failure in which additions and searches do not ask the embedder."""
_QUERIES: Final = 256
"""Queries whose vectors a process keeps: ADK's preload_memory asks one again before each call of a model."""


class Embedding:
    """Vectors of one embedder, as they are stored and compared."""

    def __init__(self, embedder: Embedder, *, timeout_s: float) -> None:
        """Prepare; a call of *embedder* that takes longer than *timeout_s* has failed.

        Raises:
            InvalidInputError: the embedder's name or dimensions are invalid, or it has no method ``embed``.
            ModuleNotFoundError: the extra ``vectors`` is not installed.
        """
        require_numpy()
        name: Any = getattr(embedder, "name", None)
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
            raise InvalidInputError(f"the embedder's name must be a text of 1 to {MAX_NAME} characters")
        dimensions: Any = getattr(embedder, "dimensions", None)
        require_number("the number of dimensions", dimensions)
        is_number = isinstance(dimensions, int) and not isinstance(dimensions, bool)
        if not is_number or not 1 <= dimensions <= MAX_DIMENSIONS:
            raise InvalidInputError(
                f"the embedder's dimensions are {shown(dimensions, 40)}, they must be 1 to {MAX_DIMENSIONS}"
            )
        if not callable(getattr(embedder, "embed", None)):
            raise InvalidInputError(
                "embedder= needs an object with name, dimensions and embed(); wrap a function in "
                "FunctionEmbedder(function, name=..., dimensions=...)"
            )
        self.name: Final[str] = name
        self.dimensions: Final[int] = dimensions
        self.rows_at_once: Final = max(1, PART_BYTES // (DIGEST_BYTES + dimensions))
        """Rows that one commit takes."""
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._paused_until = 0.0
        self._has_warned = False
        self._queries = Lru[str, bytes](_QUERIES)

    async def stored(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of memories with these stored *texts*, without those that have no words.

        A text that the embedder refuses while others are fine has none; the result names it.

        Raises:
            EmbedderError: the embedder failed, or its answer has another size or is not finite.
        """
        said = {text: searchable_text(text, decode_memory(text))[:MAX_TEXT].strip() for text in texts}
        worded = [text for text in said if said[text]]
        vectors: dict[str, bytes] = {}
        for first in range(0, len(worded), AT_ONCE):
            some = worded[first : first + AT_ONCE]
            made = await self._taken([said[text] for text in some])
            vectors.update((text, row) for text, row in zip(some, made, strict=True) if row is not None)
        refused = [text for text in worded if text not in vectors]
        return Embedded(embedder=self.name, dimensions=self.dimensions, vectors=vectors, refused=refused)

    async def _taken(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return a vector of each of *texts*: ``None`` of one that the embedder refuses.

        Raises:
            EmbedderError: as :meth:`stored`; also if it refuses all of many.
        """
        try:
            return [*await self._ask(texts, "document")]
        except _TextRefusedError:
            half = len(texts) // 2
            if not half:
                return [None]
            made = [*await self._taken(texts[:half]), *await self._taken(texts[half:])]
            if len(texts) > _ALL_REFUSED and not any(made):
                raise
            return made

    async def stored_if_able(self, texts: Sequence[str]) -> Embedded | None:
        """Return what :meth:`stored` does; ``None``, and a warning, if the embedder fails.

        Raises:
            EmbedderError: its answer has another size or is not finite.
        """
        if self._is_paused:
            return None
        try:
            embedded = await self.stored(texts)
        except EmbedderError as exc:
            self._rest(exc, "memories are stored without vectors; `gcp-adk-store memory reindex` adds them")
            return None
        if embedded.refused:
            says = "the embedder %s refused %d memories: they are stored without vectors"
            logger.warning(says, self.name, len(embedded.refused))
        return embedded

    async def query(self, text: str) -> bytes | None:
        """Return the vector of a query; ``None``, and a warning, if the embedder fails.

        Raises:
            EmbedderError: as :meth:`stored_if_able`.
        """
        text = text.strip()[:MAX_TEXT]
        known = self._queries.lookup(text)
        telemetry.count_lookups("queries", hits=int(known is not None), misses=int(known is None))
        if known is not None or self._is_paused:
            return known
        try:
            (vector,) = await self._ask([text], "query")
        except _TextRefusedError as exc:
            telemetry.warn(logger, "a search goes by words alone", exc)
            return None
        except EmbedderError as exc:
            self._rest(exc, "searches go by words alone")
            return None
        self._queries.put(text, vector)
        return vector

    def made(self, vectors: Vectors) -> bool:
        """Return whether *vectors* can be compared with a query: they are there, and of this embedder."""
        is_own = vectors.is_of(self.name, self.dimensions)
        if not is_own and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "vectors are of %s (%d dimensions), not of %s (%d dimensions): searches go by words until "
                "`gcp-adk-store memory reindex`",
                *(vectors.embedder, vectors.dimensions, self.name, self.dimensions),
            )
        return is_own and vectors.count > 0

    def missing(self, snapshot: Snapshot) -> list[str]:
        """Return the texts of *snapshot* that have words, and no vector of this embedder."""
        without = missing(snapshot, self.name, self.dimensions)
        return [text for text in without if searchable_text(text, decode_memory(text)).strip()]

    @property
    def _is_paused(self) -> bool:
        return machine.monotonic() < self._paused_until

    def _rest(self, exc: EmbedderError, so: str) -> None:
        """Leave the embedder alone for a time.

        Raises:
            EmbedderError: *exc*, if it answered what is wrong: then a later answer is, too.
        """
        if exc.__cause__ is None:
            raise exc
        self._paused_until = machine.monotonic() + _PAUSE_S
        telemetry.warn(logger, f"for {_PAUSE_S:.0f} s, {so}", exc.__cause__)

    async def _ask(self, texts: Sequence[str], kind: EmbeddingKind) -> list[bytes]:
        texts = [whole_text(text) for text in texts]  # a request with a lone surrogate fails, and all rest
        try:
            async with asyncio.timeout(self._timeout_s):
                made = await self._embedder.embed(texts, kind)
        except EmbedderError:
            raise
        except Exception as exc:
            code = getattr(exc, "code", None)  # of an answer over HTTP
            says = type(exc).__name__ + (f" {code}" if isinstance(code, int) else "")
            is_refusal = code in _REFUSALS or (code is None and isinstance(exc, ValueError))
            raise (_TextRefusedError if is_refusal else EmbedderError)(
                f"the embedder {self.name} failed with {says}; call again once it works"
            ) from exc
        return await offload(
            lambda: quantized(made, count=len(texts), dimensions=self.dimensions, embedder=self.name),
            light=len(texts) * self.dimensions < 20_000,  # noqa: PLR2004  # a millisecond
        )


def lack(without_vector: int, *, is_made: bool, has_query: bool) -> str:
    """Return why words alone ranked memories in a search; empty if they did not.

    *without_vector* have none of this embedder; *is_made* says whether others have, and *has_query* whether
    the query has one.
    """
    if is_made and not has_query:
        return "the embedder does not answer: words alone rank all memories"
    if not without_vector:
        return ""
    return (
        f"{without_vector} memories have no vector, so words alone rank them: "
        "`gcp-adk-store memory reindex` makes the vectors"
    )
