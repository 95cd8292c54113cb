"""What memories require of what makes vectors of texts."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

EmbeddingKind: TypeAlias = Literal["document", "query"]
"""What a text is: one that is kept, or one that asks for such texts."""


class Embedder(Protocol):
    """Makes vectors of texts, so that texts of similar meaning have vectors of similar direction."""

    @property
    def name(self) -> str:
        """The model, in at most 200 characters; vectors of different names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Numbers in each vector, 1 to 4,096."""
        ...

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Sequence[Sequence[float]]:
        """Return one vector for each of *texts*, in their order; only the direction of a vector counts.

        Texts are at most 8,192 characters long, and none is empty. It may raise anything.
        """
        ...
