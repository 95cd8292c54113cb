"""Check that values are of the kinds that annotations name."""

import functools
import importlib
import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Any,
    BinaryIO,
    Final,
    NamedTuple,
    Protocol,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from gcp_adk_store.errors import InvalidInputError


@runtime_checkable
class _File(Protocol):
    """What every file has, also one that only behaves like those of :mod:`io`."""

    def close(self) -> None:
        """Close the file."""
        ...


_WIDER: Final[Mapping[type, type]] = {dict: Mapping, list: Sequence, BinaryIO: _File}
_SAYS: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "True or False",
    bytes: "bytes",
    int: "a whole number",
    float: "a number",
    type(None): "None",
    os.PathLike: "a path",
    _File: "a binary file",
    Mapping: "a mapping",
    Sequence: "a sequence",
    Callable: "a function",  # type: ignore[dict-item]  # a class at run time
}


class Kind(NamedTuple):
    """What an annotation says of a value."""

    name: str
    """Of the value, for messages."""
    classes: tuple[type, ...]
    """What a value may be an instance of; empty for anything."""
    says: str
    """It as messages have it."""
    items: "Kind | None" = None
    """The kind of what a sequence holds."""

    def accepts(self, value: object) -> bool:
        """Return whether *value* itself is of this kind; True and False are no numbers."""
        if not self.classes or type(value) in self.classes:
            return True
        if isinstance(value, bool) and bool not in self.classes:
            return False
        if isinstance(value, str | bytes) and Sequence in self.classes:
            return False
        return isinstance(value, self.classes)

    def require(self, value: object) -> None:
        """Check *value*, and all that it holds.

        Raises:
            InvalidInputError: it is of another kind; the message names it and both kinds.
        """
        if not self.accepts(value):
            raise InvalidInputError(f"{self.name} must be {self.says}, not {type(value).__name__}")
        if self.items is not None and isinstance(value, Sequence):
            for item in value:
                self.items.require(item)


@functools.cache
def kinds_of(method: Callable[..., object]) -> dict[str, Kind]:
    """Return the kinds of the arguments of *method*, by name."""
    hints = _hints_of(method)
    kinds = {}
    for name, parameter in inspect.signature(method).parameters.items():
        hint = hints.get(name, Any)
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            kinds[name] = _kind(name, hint)
        for options in get_args(hint) if get_origin(hint) is Unpack else ():
            kinds |= kinds_of_members(options)
    return kinds


@functools.cache
def kinds_of_members(of_class: type) -> dict[str, Kind]:
    """Return the kinds of the members that *of_class* declares, by name."""
    return {name: _kind(name, hint) for name, hint in get_type_hints(of_class).items()}


def require_members(holder: object) -> None:
    """Check all members that the class of *holder* declares; raises as :meth:`Kind.require`."""
    for name, kind in kinds_of_members(type(holder)).items():  # type: ignore[arg-type]  # as if not hashable
        kind.require(getattr(holder, name))


def _hints_of(method: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of *method*.

    A class that only type checkers import is anything, unless its module has it in ``IMPORTED_LATER``.
    """
    homes: Mapping[str, str] = inspect.unwrap(method).__globals__.get("IMPORTED_LATER", {})
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(method, localns=unknown)
        except NameError as exc:
            name = exc.name or ""
            unknown[name] = getattr(importlib.import_module(homes[name]), name) if name in homes else Any


def _kind(name: str, hint: Any) -> Kind:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    classes = [_class_of(part) for part in parts]
    if None in classes:
        return Kind(name, (), "anything")
    known = tuple(each for each in classes if each is not None)
    named = [each for each in known if each is not types.EllipsisType]  # "leave as it is" by default
    says = " or ".join(_SAYS.get(each, _with_article(each.__name__)) for each in named)
    held = get_args(parts[0]) if classes[0] is Sequence else ()
    items = _kind(f"each of {name}", held[0]) if held else None
    return Kind(name, (*known, int) if float in known else known, says, items)


def _class_of(hint: Any) -> type | None:
    """Return the class of values with *hint*; ``None`` if the hint names no class."""
    found = type(None) if hint is None else get_origin(hint) or hint
    if not isinstance(found, type) or found in (object, Any) or _is_unchecked(found):
        return None
    return _WIDER.get(found, found)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _is_unchecked(found: type) -> bool:
    return getattr(found, "_is_protocol", False) and not getattr(found, "_is_runtime_protocol", False)
