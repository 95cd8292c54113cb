"""The kinds of values that annotations declare, for checks of arguments and of members."""

import functools
import importlib
import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    Any,
    BinaryIO,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from gcp_adk_store.errors import InvalidInputError, require_number, shown


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

_ANY_TAKES: Final = 10**300
"""Each number below it is one that some argument may take."""


class Kind(NamedTuple):
    """What an annotation says of a value."""

    name: str
    """The name of the value in messages."""
    classes: tuple[type, ...]
    """What a value may be an instance of; empty for anything."""
    says: str
    """How messages describe it, such as ``a string or None``."""
    items: "Kind | None" = None
    """The kind of what a sequence holds."""
    choices: tuple[object, ...] = ()
    """The values of a ``Literal``, and ``None`` if that is one; empty for others."""

    def accepts(self, value: object) -> bool:
        """Return whether *value* itself is of this kind; True and False are not numbers."""
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
            InvalidInputError: it is of another kind, or a number that none takes; the message names it.
        """
        if isinstance(value, int | float) and not abs(value) < _ANY_TAKES:
            require_number(self.name, value)
        if self.choices and not any(isinstance(value, type(one)) and value == one for one in self.choices):
            raise InvalidInputError(f"{self.name} is {shown(value, 40)}, it must be {self.says}")
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


def arguments_of(
    method: Callable[..., object], args: Iterable[object], given: Mapping[str, object]
) -> Iterator[tuple[Kind, object]]:
    """Yield the arguments of a call of *method*, each behind its kind; unknown ones are left out."""
    kinds = kinds_of(method)
    yield from zip(kinds.values(), args, strict=False)
    yield from ((kinds[name], value) for name, value in given.items() if name in kinds)


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
    if all(get_origin(part) is Literal or part is type(None) for part in parts):
        choices = [choice for part in parts for choice in get_args(part) or (None,)]
        *others, last = map(repr, choices)
        return Kind(name, (), f"{', '.join(others)} or {last}" if others else last, choices=(*choices,))
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
    is_protocol = getattr(found, "_is_protocol", False) and not getattr(found, "_is_runtime_protocol", False)
    if not isinstance(found, type) or found in (object, Any) or is_protocol:
        return None
    return _WIDER.get(found, found)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def require_count(name: str, given: Any, *, most: int) -> None:
    """Check the size of a page or of an answer.

    Raises:
        InvalidInputError: *given* is no whole number from 1 to *most*.
    """
    if not is_count(given) or given > most:
        raise InvalidInputError(f"{name} is {shown(given, 40)}, it must be 1 to {most}")


def is_count(given: object) -> bool:
    """Return whether *given* is a whole number from 1 on."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= 1
