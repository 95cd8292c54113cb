"""Tell how code changed the variables of its session."""

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .context import CallbackContext
from .contract import StateDelta
from .plain import NotJsonError, plain, same_json


class VariableTooLargeError(ValueError):
    """A variable is larger than the platform takes; the whole turn would fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a run changed of the variables."""

    delta: StateDelta
    nested: list[str]
    """Names of variables that were not set again: something inside of them changed."""
    large: list[str]
    """Names of variables that were there, and are larger than one may be that is set."""


@dataclass(slots=True)
class Variables:
    """The variables of a context, beside what they were."""

    context: CallbackContext
    before: dict[str, Any]
    """Plain JSON; never handed to the code."""
    withheld: Collection[str] = ()
    """Names of further ones, which were not sent."""
    given: dict[str, Any] = field(init=False)
    """Copies of those values, as the code got them."""

    def __post_init__(self) -> None:
        self.given = plain(self.before, "variables")
        self.context.state = dict(self.given)
        self.context._withheld = set(self.withheld)  # noqa: SLF001  # no name of the platform's

    def as_json(self, *, lenient: bool) -> dict[str, Any]:
        """Return the variables as the code left them so far, as JSON.

        Args:
            lenient: Whether pydantic may convert values that are not JSON.

        Raises:
            NotJsonError: a variable cannot be JSON, or the variables are not a dict.
        """
        current: object = self.context.state
        if not isinstance(current, dict):
            raise NotJsonError(f"variables: {type(current).__name__} is not a dict")
        state: dict[str, Any] = plain(current, "variables", lenient=lenient)
        return state

    def apply(self, delta: StateDelta) -> None:
        """Change the variables as *delta* says."""
        self.context.state.update(delta["changed"])
        for name in delta["removed"]:
            with suppress(KeyError):
                self.context.remove_variable(name)

    def changes(self, *, lenient: bool, nested: bool, max_bytes: int | None) -> Changes:
        """Return how the variables changed.

        Args:
            lenient: Whether pydantic may convert values that are not JSON.
            nested: Whether changes inside of a variable count that was not set again.
            max_bytes: The largest JSON that a changed variable may have, in UTF-8; None is any.

        Raises:
            NotJsonError: a variable cannot be JSON.
            VariableTooLargeError: one is too large.
        """
        state = self.as_json(lenient=lenient)
        current = self.context.state
        changed = {name: value for name, value in state.items() if self._differs(name, value)}
        inside = [name for name in changed if name in self.given and current[name] is self.given[name]]
        if not nested:
            for name in inside:
                del changed[name]
        for name, value in changed.items():
            _check_size(name, value, max_bytes)
        there = (*self.before, *sorted(self.context._removed))  # noqa: SLF001  # no name of the platform's
        removed = [name for name in there if name not in state]
        large = [
            name for name in self.before if name not in changed and _is_large(self.before[name], max_bytes)
        ]
        return Changes(delta={"changed": changed, "removed": removed}, nested=inside, large=large)

    def _differs(self, name: str, value: Any) -> bool:
        return name not in self.before or not same_json(self.before[name], value)


def _check_size(name: str, value: Any, max_bytes: int | None) -> None:
    if max_bytes is not None and _is_large(value, max_bytes):
        size = _size(value)
        raise VariableTooLargeError(
            f"variable {name!r} has {size:,} bytes of JSON, the limit is {max_bytes:,} (max_variable_bytes): "
            "the platform ends such a turn with FAILED_PRECONDITION"
        )


def _is_large(value: Any, max_bytes: int | None) -> bool:
    return max_bytes is not None and _size(value) > max_bytes


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
