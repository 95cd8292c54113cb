"""Read and write the runtime's objects: camelCase or snake_case in, camelCase out."""

import base64
import binascii
from typing import Any, ClassVar, Final, TypeVar

import pydantic
from pydantic.alias_generators import to_camel

from .plain import MAX_DEPTH, NotJsonError, plain

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
        if info.context is _FROM_HOST and isinstance(given, dict) and not cls._known.issuperset(given):
            made.__dict__[_UNREAD] = {name: value for name, value in given.items() if name not in cls._known}
        return made


def decode_base64(data: bytes | str | None) -> bytes:
    """Return the bytes that *data* spells, in either alphabet of base64.

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
        pydantic.ValidationError: a field holds what its class does not: code may have put anything there.
        NotJsonError: a value in it cannot be JSON.
    """
    if depth == 0:
        raise NotJsonError(f"{where[:200]}: refers to itself")
    wire: dict[str, Any] = plain(model.__dict__.get(_UNREAD, {}), where)
    given = {name: getattr(model, name) for name in type(model).model_fields}
    checked = type(model).model_validate(given)
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
