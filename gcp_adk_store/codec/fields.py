"""Read typed fields of a document; errors name a wrong field and its kind, never its content."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from gcp_adk_store.codec.values import kind_of
from gcp_adk_store.errors import StoredDataError

T = TypeVar("T")

MAX_COUNT: Final = 10**18 - 1
"""The highest count that fits the marker of a handle."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of the document at *path*.

    Each method raises :class:`StoredDataError` with the path and the name of a field that is missing, has
    another kind, or is out of range.
    """

    path: str
    values: Mapping[str, Any]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str) -> str:
        """Return a text."""
        return self._of(name, str)

    def bytes(self, name: str) -> bytes:
        """Return bytes."""
        return self._of(name, bytes)

    def map(self, name: str) -> Mapping[str, Any]:
        """Return a map."""
        found: Mapping[str, Any] = self._of(name, dict)
        return found

    def count(self, name: str, *, limit: int = MAX_COUNT) -> int:
        """Return a whole number from 0 to *limit*."""
        found = self._of(name, int)
        if not 0 <= found <= limit:
            raise self.wrong(name)
        return found

    def number(self, name: str) -> float:
        """Return a finite number."""
        found = self._value(name)
        if type(found) not in (int, float):
            raise self._of_another_kind(name, found)
        if not math.isfinite(found):
            raise self.wrong(name)
        return float(found)

    def number_or_none(self, name: str) -> float | None:
        """Return a finite number, or ``None`` for null."""
        return None if self._value(name) is None else self.number(name)

    def time(self, name: str) -> int:
        """Return a time since 1970 as Unix time in whole seconds."""
        found = int(self._of(name, datetime).timestamp())
        if found < 0:
            raise self.wrong(name)
        return found

    def texts(self, name: str) -> Sequence[str]:
        """Return a list of texts."""
        found: list[str] = self._of(name, list)
        for index, item in enumerate(found):
            if type(item) is not str:
                raise self._of_another_kind(f"{name}[{index}]", item)
        return found

    def wrong(self, name: str) -> StoredDataError:
        """Return the error for a field with an impossible value."""
        return StoredDataError(f"{self.path} has a field that cannot be right: {name}")

    def _of(self, name: str, kind: type[T]) -> T:
        found = self._value(name)
        if type(found) is not kind:  # refuses True as a number
            raise self._of_another_kind(name, found)
        return found

    def _value(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise StoredDataError(f"{self.path} lacks {name}") from None

    def _of_another_kind(self, name: str, found: object) -> StoredDataError:
        return StoredDataError(f"{self.path} has a field of a wrong kind: {name} is {kind_of(found)}")
