"""Let ``async with`` close what has connections."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from gcp_adk_store.operations.forks import OfOneProcess


class Closing(OfOneProcess, ABC):
    """Closes at the end of an ``async with`` block, and belongs to one process."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections that this object opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
