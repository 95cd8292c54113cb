"""Check the kinds of arguments by the annotations of a method, before it does anything."""

import functools
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
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import require_text

T = TypeVar("T")

_IDS: Final = ("app_name", "filename", "owner", "anchors")
"""Ids, and with them all whose names end with ``_id``."""


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


class _Kind(NamedTuple):
    name: str
    classes: tuple[type, ...]
    """What a value may be an instance of; empty for anything."""
    says: str
    items: "_Kind | None" = None
    """The kind of what a sequence holds."""

    def accepts(self, value: object) -> bool:
        if not self.classes or type(value) in self.classes:
            return True
        if isinstance(value, bool) and bool not in self.classes:
            return False
        if isinstance(value, str | bytes) and Sequence in self.classes:
            return False
        return isinstance(value, self.classes)


def require_kinds(method: Callable[..., object], args: Sequence[object], given: Mapping[str, object]) -> None:
    """Check the arguments of a call of *method*; those that its annotation cannot decide pass.

    Raises:
        InvalidInputError: an argument is of another kind; the message names it and both kinds.
    """
    kinds = _kinds_of(method)
    for kind, value in zip(kinds.values(), args, strict=False):
        _require(kind, value)
    for name, value in given.items():
        if name in kinds:
            _require(kinds[name], value)


def checks_kinds(service: type[T]) -> type[T]:
    """Let a class check the arguments of its constructor and its public methods when they are called.

    Operations do so already.
    """
    for name, method in [*vars(service).items()]:
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(method, classmethod):
            setattr(service, name, classmethod(_checked(method.__func__)))
        elif inspect.isfunction(method) and not hasattr(method, "checks_kinds"):
            setattr(service, name, _checked(method))
    return service


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **given: Any) -> Any:
        require_kinds(method, args, given)
        return method(*args, **given)

    return call


def _require(kind: _Kind, value: object) -> None:
    if not kind.accepts(value):
        raise InvalidInputError(f"{kind.name} must be {kind.says}, not {type(value).__name__}")
    if isinstance(value, str) and (kind.name in _IDS or kind.name.endswith("_id")):
        require_text(value, kind.name)
    if kind.items is not None and isinstance(value, Sequence):
        for item in value:
            _require(kind.items, item)


@functools.cache
def _kinds_of(method: Callable[..., object]) -> dict[str, _Kind]:
    hints = _hints_of(method)
    kinds = {}
    for name, parameter in inspect.signature(method).parameters.items():
        hint = hints.get(name, Any)
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            kinds[name] = _kind(name, hint)
        for options in get_args(hint) if get_origin(hint) is Unpack else ():
            kinds |= {option: _kind(option, each) for option, each in get_type_hints(options).items()}
    return kinds


def _hints_of(method: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of *method*; a class that only type checkers import is anything."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(method, localns=unknown)
        except NameError as exc:
            unknown[exc.name or ""] = Any


def _kind(name: str, hint: Any) -> _Kind:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    classes = [_class_of(part) for part in parts]
    if None in classes:
        return _Kind(name, (), "anything")
    known = tuple(each for each in classes if each is not None)
    told = [each for each in known if each is not types.EllipsisType]  # "leave as it is" by default
    says = " or ".join(_SAYS.get(each, _with_article(each.__name__)) for each in told)
    held = get_args(parts[0]) if classes[0] is Sequence else ()
    items = _kind(f"each of {name}", held[0]) if held else None
    return _Kind(name, (*known, int) if float in known else known, says, items)


def _class_of(hint: Any) -> type | None:
    """Return the class of values with *hint*; ``None`` if there is none to ask."""
    found = type(None) if hint is None else get_origin(hint) or hint
    if not isinstance(found, type) or found in (object, Any) or _is_unchecked(found):
        return None
    return _WIDER.get(found, found)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _is_unchecked(found: type) -> bool:
    return getattr(found, "_is_protocol", False) and not getattr(found, "_is_runtime_protocol", False)
