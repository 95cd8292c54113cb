"""Embedders: the models of google-genai, and any function."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from google import genai
from google.genai import types

from gcp_adk_store.errors import EmbedderError
from gcp_adk_store.kernel.concurrency import fan_out
from gcp_adk_store.kernel.ports import EmbeddingKind

_Vectors: TypeAlias = Sequence[Sequence[float]]

_TASKS: Final[dict[EmbeddingKind, str]] = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}
_AT_ONCE: Final = 8
"""Requests of one call that run at a time."""


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

        Vertex AI takes one text in a request of a Gemini model: then 8 requests run at a time.
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
        models = self._client.aio.models
        config = types.EmbedContentConfig(task_type=_TASKS[kind], output_dimensionality=self.dimensions)

        async def request(part: list[str]) -> _Vectors:
            async with permits:
                contents: Any = part
                answer = await models.embed_content(model=self.name, contents=contents, config=config)
            return [each.values or [] for each in answer.embeddings or []]

        return [vector for found in await fan_out(map(request, parts)) for vector in found]


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
            function: Returns one vector for each text. A plain function runs in a thread.
            name: Names the model: after a change of it, ``gcp-adk-store memory reindex`` makes vectors anew.
            dimensions: Numbers in each vector.
        """
        self.name: Final = name
        self.dimensions: Final = dimensions
        self._function = function

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> _Vectors:
        """Return one vector for each of *texts*."""
        function: Any = self._function
        if inspect.iscoroutinefunction(function):
            made: _Vectors = await function(texts, kind)
        else:
            made = await asyncio.to_thread(function, texts, kind)
        return made
