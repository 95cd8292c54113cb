"""Refuse a name that nothing reads, and suggest the nearest one that something does."""

import difflib
import functools
from collections.abc import Iterable
from typing import Any, TypeVar

from gcp_adk_store.errors import InvalidInputError

T = TypeVar("T")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the known name that *name* is most like, as a question, or else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name[:80], known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"the known ones are {', '.join(known)}"


def require_known(names: Iterable[str], known: Iterable[str], *, of: str) -> None:
    """Check that all *names* are among the *known* ones of an option.

    Raises:
        InvalidInputError: a name is unknown; the message suggests a similar known name.
    """
    known = frozenset(known)
    for name in names:
        if name not in known:
            raise InvalidInputError(f"{of}: unknown option {name[:80]!r}; {suggestion(name, known)}")


def fields_only(settings: type[T]) -> type[T]:
    """Let a dataclass of settings refuse unknown fields as every option is refused; a decorator over it."""
    make = settings.__init__

    @functools.wraps(make)
    def init(self: T, *args: Any, **given: Any) -> None:
        require_known(given, settings.__dataclass_fields__, of=settings.__name__)  # type: ignore[attr-defined]
        make(self, *args, **given)

    settings.__init__ = init  # type: ignore[assignment]
    return settings
