"""Read and write the runtime's objects, camelCase or snake_case in and camelCase out, and plain JSON."""

import base64
import binascii
import json
import math
from typing import Any, ClassVar, Final, TypeVar

import pydantic
from pydantic.alias_generators import to_camel

MAX_DEPTH: Final = 90
"""Levels of lists and dicts; a value that contains itself goes deeper. A frame around it has some of its own,
and ``frame_depth`` is 100."""

_MAX_INT_BITS: Final = 14_000  # Python turns integers into text up to 4,300 digits.


class OfRuntime(BaseException):
    """An error of the runtime, which tracebacks show as one of Python's: by its name, without a module."""

    def __init_subclass__(cls) -> None:
        cls.__module__ = "builtins"


class RequestError(OfRuntime, ValueError):
    """The request is not valid."""


class CallbackResultError(OfRuntime, TypeError):
    """Code returned, or made of what it got, something that is not allowed there."""


class NotJsonError(OfRuntime, TypeError):
    """A value cannot be JSON; the message says which and where."""


def plain(value: Any, where: str, *, depth: int = MAX_DEPTH) -> Any:
    """Return a deep copy of *value* of None, bool, int, float, str, list and dict alone.

    Tuples become lists, subclasses what they derive from. Messages call it *where*.

    Raises:
        NotJsonError: a part of *value* is not JSON, or is deeper than *depth* levels.
    """
    if value is None or isinstance(value, bool | str | int | float):
        return _scalar(value, where)
    if depth == 0:
        raise NotJsonError(f"{where[:200]}: nested deeper than {MAX_DEPTH} levels, or refers to itself")
    if isinstance(value, dict):
        return {
            (name := _key(key, where)): plain(below, f"{where}[{name!r}]", depth=depth - 1)
            for key, below in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(below, f"{where}[{index}]", depth=depth - 1) for index, below in enumerate(value)]
    raise NotJsonError(f"{where}: Object of type {type(value).__name__} is not JSON serializable")


def sendable(text: str) -> str:
    """Return *text* with lone surrogates, which UTF-8 cannot hold, as Python escapes them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def same_json(one: Any, other: Any) -> bool:
    """Return whether two plain values are the same JSON, in which 1, 1.0 and True differ."""
    if type(one) is not type(other):
        return False
    if not isinstance(one, dict | list):
        return bool(one == other)
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _scalar(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJsonError(f"{where}: {value} is not a number of JSON")
        return float.__float__(value)
    bits = int.bit_length(value)
    if bits > _MAX_INT_BITS:
        raise NotJsonError(f"{where}: an integer of {bits} bits is too large")
    return int.__int__(value)


def _text(value: str, where: str) -> str:
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise NotJsonError(f"{where}: {text[exc.start]!r} at {exc.start} is a lone surrogate") from None
    return text


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise NotJsonError(f"{where}: the key {key!r} is {type(key).__name__}, JSON has only str")
    return _text(key, f"{where}, a key")


def fault_of(error: pydantic.ValidationError) -> str:
    """Return where the first fault of *error* is, and what is wrong, without the value: logs keep errors."""
    first = error.errors(include_input=False, include_url=False)[0]
    names = [str(each) for each in first["loc"] if "[" not in str(each)]  # pydantic adds the type of a union
    return ": ".join(filter(None, (".".join(names), first["msg"])))


_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")

_FROM_HOST: Final = object()
"""Context of reading what the host sent."""

_UNREAD: Final = "_unread"
"""Where an object keeps what it does not know: pydantic compares, shows and writes fields alone."""


class Model(pydantic.BaseModel):
    """A value of the runtime; unknown names are ignored."""

    model_config = pydantic.ConfigDict(
        extra="ignore", validate_by_name=True, validate_by_alias=True, alias_generator=to_camel
    )


M = TypeVar("M", bound=Model)


class MessageModel(Model):
    """A value that travels back to the host.

    What the host sent that it does not know, such as a thought signature, is invisible and travels along.
    What code gives it is dropped then.
    """

    _known: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        aliases = {field.alias for field in cls.model_fields.values() if field.alias}
        cls._known = frozenset(cls.model_fields) | aliases

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _keep_unread(cls, given: Any, handler: Any, info: pydantic.ValidationInfo) -> Any:
        made = handler(given)
        if is_from_host(info) and isinstance(given, dict) and not cls._known.issuperset(given):
            made.__dict__[_UNREAD] = {name: value for name, value in given.items() if name not in cls._known}
        return made


def is_from_host(info: pydantic.ValidationInfo) -> bool:
    """Return whether the host sent what is validated, or it was validated before."""
    return info.context is _FROM_HOST


def decode_base64(data: bytes | str | None) -> bytes:
    """Return the bytes that *data* encodes, in either alphabet of base64.

    Raises:
        TypeError: *data* is None.
    """
    text = data.encode() if isinstance(data, str) else data
    if text is None:
        raise TypeError("the blob has no data")
    return base64.b64decode(base64_text(text))


def from_wire(of_class: type[M], given: object) -> M:
    """Return what the host sent as an object.

    Raises:
        pydantic.ValidationError: the value does not fit the model.
    """
    return of_class.model_validate(given, context=_FROM_HOST)


def to_wire(model: MessageModel, where: str, depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return *model* as JSON; what is None is left out.

    Raises:
        CallbackResultError: a field holds what its class does not: code may have put anything there.
        NotJsonError: a value in it cannot be JSON.
    """
    if depth == 0:
        raise NotJsonError(f"{where[:200]}: refers to itself")
    wire: dict[str, Any] = plain(model.__dict__.get(_UNREAD, {}), where)
    given = {name: getattr(model, name) for name in type(model).model_fields}
    try:
        checked = type(model).model_validate(given, context=_FROM_HOST)
    except pydantic.ValidationError as exc:
        says = f"{where} is not a valid {type(model).__name__}: {fault_of(exc)}"
        raise CallbackResultError(says) from None
    for name, field in type(model).model_fields.items():
        value = getattr(checked, name)
        if value is not None:
            wire[field.alias or name] = _member(value, f"{where}.{name}", depth - 1)
    return wire


def _member(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, MessageModel):
        return to_wire(value, where, depth)
    if isinstance(value, list):
        return [_member(below, f"{where}[{index}]", depth) for index, below in enumerate(value)]
    if isinstance(value, bytes):
        return base64_text(value)
    return plain(value, where)


def base64_text(data: bytes) -> str:
    """Return base64, for which raw bytes that were never encoded are encoded."""
    standard = data.translate(_URL_SAFE)
    try:
        base64.b64decode(standard, validate=True)
    except binascii.Error:
        standard = base64.b64encode(data)
    return standard.decode()
