"""Encrypt the content of a write, and decrypt that of a document. Pure, but for random numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gcp_adk_store.codec.values import FieldValue, Foreign
from gcp_adk_store.codec.writes import Document, Write
from gcp_adk_store.encryption.places import Form
from gcp_adk_store.encryption.sealing import DataKey, NotForHereError, OtherKeyError, from_bytes, to_bytes
from gcp_adk_store.errors import KeyDestroyedError

_OF_BYTES: Final = frozenset({"body", "fresh"})
"""Fields whose content is bytes also where it is not encrypted."""

_NOT_FOR_HERE: Final = Foreign("ciphertext that was changed or made for another place")
_OTHER_KEY: Final = Foreign("ciphertext of a key that was destroyed, or of another user", KeyDestroyedError)
_PLAINTEXT: Final = Foreign("plaintext, which a store with encryption reads only with accept_plaintext")

_EMPTY: Final[tuple[Any, ...]] = (None, {}, [])

Forms = Mapping[str, Form]


def has_content(item: Write, forms: Forms) -> bool:
    """Return whether *item* writes fields of *forms*; empty maps and arrays have no content."""
    for name in forms:
        value = item.fields.get(name)
        if name in item.union or value not in _EMPTY:
            return True
    return False


def is_sealed(document: Document, forms: Forms) -> bool:
    """Return whether *document* has content that is encrypted, by its kind alone."""
    return any(_holds_bytes(document.fields.get(name)) for name in forms.keys() - _OF_BYTES)


def _holds_bytes(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = [*value.values()]
    inner = value if isinstance(value, list) else [value]
    return any(isinstance(each, bytes) for each in inner)


def sealed(item: Write, forms: Forms, key: DataKey, life: str) -> Write:
    """Return *item* with its content encrypted, for a document of one *life*."""
    start = f"{item.path}\0{life}\0"
    fields = dict(item.fields)
    for name, form in forms.items():
        if (value := fields.get(name)) is not None:
            fields[name] = _sealed_field(value, form, key, f"{start}{name}")
    union: Mapping[str, Sequence[FieldValue]] = item.union
    if union and not forms.keys().isdisjoint(union):
        union = {
            name: _sealed_field(values, Form.UNION, key, f"{start}{name}") if name in forms else values
            for name, values in union.items()
        }
    return Write(
        path=item.path, fields=fields, mask=item.mask, union=union, increment=item.increment, must=item.must
    )


def opened(
    document: Document, forms: Forms, key: DataKey | None, life: str, *, accept_plaintext: bool
) -> Document:
    """Return *document* with its content decrypted; without a *key* it cannot be.

    A :class:`Foreign` stands for what must not be read: readers of the field refuse it, with its error.
    """
    start = f"{document.path}\0{life}\0"
    fields = dict(document.fields)
    for name, form in forms.items():
        value = fields.get(name)
        if value is None:
            continue
        opener = _Opener(key, accept_plaintext=accept_plaintext, of_bytes=name in _OF_BYTES)
        where = f"{start}{name}"
        if form is Form.VALUES and isinstance(value, dict):
            fields[name] = {inner: opener.open(each, f"{where}\0{inner}") for inner, each in value.items()}
        elif form is Form.UNION and isinstance(value, list):
            made_for = where.encode()
            fields[name] = [opener.open_equal(each, made_for) for each in value]
        elif form is Form.ITEMS and isinstance(value, list):
            fields[name] = [opener.open(each, f"{where}\0{at}") for at, each in enumerate(value)]
        else:
            fields[name] = opener.open(value, where)
    return replace(document, fields=fields)


def _sealed_field(value: Any, form: Form, key: DataKey, where: str) -> Any:
    match form:
        case Form.UNION:
            made_for = where.encode()
            return [key.seal_equally(to_bytes(each), made_for) for each in value]
        case Form.ITEMS:
            return [key.seal(to_bytes(each), f"{where}\0{at}".encode()) for at, each in enumerate(value)]
        case Form.VALUES:
            return {
                name: key.seal(to_bytes(each), f"{where}\0{name}".encode()) for name, each in value.items()
            }
        case Form.WHOLE:
            return key.seal(to_bytes(value), where.encode())


class _Opener:
    """Decrypts the values of one field."""

    def __init__(self, key: DataKey | None, *, accept_plaintext: bool, of_bytes: bool) -> None:
        self._key = key
        self._accept_plaintext = accept_plaintext
        self._of_bytes = of_bytes

    def open(self, value: Any, where: str) -> Any:
        return self._opened(value, lambda key, data: key.open(data, where.encode()))

    def open_equal(self, value: Any, made_for: bytes) -> Any:
        return self._opened(value, lambda key, data: key.open_equal(data, made_for))

    def _opened(self, value: Any, decrypt: Callable[[DataKey, bytes], bytes]) -> Any:
        if not isinstance(value, bytes) or self._is_plaintext(value):
            return value if self._accept_plaintext else _PLAINTEXT
        if self._key is None:
            return _OTHER_KEY
        try:
            found = from_bytes(decrypt(self._key, value))
        except OtherKeyError:
            return _OTHER_KEY
        except (NotForHereError, ValueError, RecursionError):
            return _NOT_FOR_HERE
        return found if isinstance(found, bytes) is self._of_bytes else _NOT_FOR_HERE

    def _is_plaintext(self, value: bytes) -> bool:
        """Return whether bytes are content that is not encrypted: nobody can guess the id of a key."""
        return self._of_bytes and self._accept_plaintext and (self._key is None or not self._key.made(value))
