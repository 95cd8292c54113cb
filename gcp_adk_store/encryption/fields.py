"""Say which fields of documents hold content, and encrypt those."""

import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.names import escape_name, unescape_segment
from gcp_adk_store.codec.writes import Document, Write
from gcp_adk_store.encryption.sealing import (
    DataKey,
    LostKey,
    NotForHereError,
    OtherKeyError,
    from_bytes,
    to_bytes,
)
from gcp_adk_store.errors import KeyDestroyedError


class Form(enum.Enum):
    """How a field is encrypted."""

    WHOLE = "whole"
    """The field as one value."""
    VALUES = "values"
    """Each value of a map by itself: names of state keys stay clear, and appends write single ones."""
    ITEMS = "items"
    """Each item of an array with its position."""
    UNION = "union"
    """Each item of an array, equal ones equally: Firestore adds an item only if the array lacks it."""


CONTENT: Final[Mapping[str, Mapping[str, Form]]] = {
    "apps": {"state": Form.VALUES},
    "users": {"state": Form.VALUES},
    "sessions": {
        "state": Form.VALUES,
        "initial": Form.VALUES,
        "initial_payload": Form.WHOLE,
        "tail": Form.UNION,
        "last_text": Form.WHOLE,
        "title": Form.WHOLE,
        "inbox": Form.ITEMS,
    },
    "segments": {
        "body": Form.WHOLE,
        "archive": Form.WHOLE,
        "initial": Form.VALUES,
        "initial_payload": Form.WHOLE,
        "window": Form.WHOLE,
    },
    "chunks": {"body": Form.WHOLE},
    "memories": {"tail": Form.UNION, "fresh": Form.UNION},
    "shards": {"body": Form.WHOLE},
    "vectors": {"body": Form.WHOLE},
    "tasks": {"body": Form.WHOLE},
    "pieces": {"body": Form.WHOLE},
    "configs": {"body": Form.WHOLE},
}
"""Collection without the prefix -> its fields with content. All other fields and documents stay clear."""

_NOTHING: Final[Mapping[str, Form]] = {}

OF_ONE_LIFE: Final = frozenset({"sessions", "memories"})
"""Collections whose documents may be made anew under the same name; the field ``epoch`` distinguishes them.

The names of other documents contain the epoch, or they are never made anew.
"""


@dataclass(frozen=True, slots=True)
class Scope:
    """What has a data key of its own."""

    kind: str
    """``user``, ``app`` or ``owner``, of A2A tasks."""
    path: str
    """Path of the document that everything of it lies below."""

    @property
    def name(self) -> str:
        """The name of its key: a digest, since names of documents have at most 1,500 bytes."""
        return hashlib.sha256(f"{self.kind}\0{self.path}".encode()).hexdigest()


class Place(NamedTuple):
    """Where a document with content is."""

    forms: Mapping[str, Form]
    """Its fields with content."""
    scope: Scope
    is_of_one_life: bool
    """Whether its field ``epoch`` distinguishes it from an earlier document of its name."""


_KNOWN: Final = 4096
"""Paths whose places are remembered: each append asks for that of its session."""


class Places:
    """The places of one prefix."""

    def __init__(self, prefix: str) -> None:
        self._start = f"{prefix}_"
        self._apps, self._users = f"{prefix}_apps", f"{prefix}_users"
        self._owners, self._pushes = f"{prefix}_owners", f"{prefix}_pushes"
        self.at = lru_cache(_KNOWN)(self._at)
        """Return the place of the document at a path; ``None`` if all of it is clear."""

    def collection(self, path: str) -> str:
        """Return the collection of the document at *path*, without the prefix."""
        return path.rsplit("/", 2)[-2].removeprefix(self._start)

    def forms(self, collection: str) -> Mapping[str, Form]:
        """Return the fields with content of the documents of a *collection*, without the prefix."""
        return CONTENT.get(collection, _NOTHING)

    def scope(self, path: str) -> Scope:
        """Return what the content of the document at *path* belongs to.

        Raises:
            ValueError: no document with content is there.
        """
        names = path.split("/")
        match names:
            case [self._apps, _, self._users, _, *_]:
                return Scope("user", "/".join(names[:4]))
            case [self._apps, _, *_]:
                return Scope("app", "/".join(names[:2]))
            case [self._owners, owner, *_] | [self._pushes, _, self._owners, owner, *_]:
                return Scope("owner", f"{self._owners}/{owner}")
        raise ValueError(f"no content belongs to {path}")

    def artifact_scope(self, name: str) -> Scope:
        """Return whose key encrypts the artifact in the object *name*: its user's, in any session.

        Raises:
            InvalidInputError: an id is too long for a name in Firestore.
            ValueError: *name* is not the name of an artifact.
        """
        app, user, _ = name.split("/", 2)
        below_app = f"{self._apps}/{escape_name(unescape_segment(app), what='app_name')}"
        below_user = f"{self._users}/{escape_name(unescape_segment(user), what='user_id')}"
        return Scope("user", f"{below_app}/{below_user}")

    def _at(self, path: str) -> Place | None:
        collection = self.collection(path)
        forms = self.forms(collection)
        return Place(forms, self.scope(path), collection in OF_ONE_LIFE) if forms else None


_OF_BYTES: Final = frozenset({"body", "fresh", "window"})
"""Fields whose content is bytes also where it is not encrypted."""

_NOT_FOR_HERE: Final = Foreign("ciphertext that was changed or made for another place")
_OTHER_KEY: Final = Foreign("ciphertext of a key that was destroyed, or of another user", KeyDestroyedError)
_PLAINTEXT: Final = Foreign("plaintext, which a store reads only with KmsEnvelope(accept_plaintext=True)")

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
    document: Document, forms: Forms, key: DataKey | LostKey | None, life: str, *, accept_plaintext: bool
) -> Document:
    """Return *document* with its content decrypted; without a *key* that is unwrapped it cannot be.

    A :class:`Foreign` stands for what must not be read: readers of the field refuse it, with its error.
    """
    start = f"{document.path}\0{life}\0"
    fields = dict(document.fields)
    for name, form in forms.items():
        value = fields.get(name)
        if value is not None:
            change = partial(
                _opened_value,
                key=key,
                form=form,
                accept_plaintext=accept_plaintext,
                of_bytes=name in _OF_BYTES,
            )
            fields[name] = _each(value, form, f"{start}{name}", change)
    return replace(document, fields=fields)


def _sealed_field(value: Any, form: Form, key: DataKey, where: str) -> Any:
    seal = key.seal_equally if form is Form.UNION else key.seal
    return _each(value, form, where, lambda each, place: seal(to_bytes(each), place.encode()))


def _each(value: Any, form: Form, where: str, change: Callable[[Any, str], Any]) -> Any:
    """Return *value* with each part that *form* encrypts by itself as *change* makes it, at its place."""
    match form, value:
        case Form.UNION, [*items]:
            return [change(item, where) for item in items]
        case Form.ITEMS, [*items]:
            return [change(item, f"{where}\0{at}") for at, item in enumerate(items)]
        case Form.VALUES, Mapping():
            return {name: change(item, f"{where}\0{name}") for name, item in value.items()}
    return change(value, where)


def _opened_value(
    value: Any,
    where: str,
    *,
    key: DataKey | LostKey | None,
    form: Form,
    accept_plaintext: bool,
    of_bytes: bool,
) -> Any:
    """Return a value of one field decrypted; *of_bytes* says whether its content is bytes."""
    is_ciphertext = isinstance(value, bytes)
    if is_ciphertext and of_bytes and accept_plaintext and not isinstance(key, LostKey):
        is_ciphertext = key is not None and key.made(value)  # nobody can guess the id of a key
    if not is_ciphertext:
        return value if accept_plaintext else _PLAINTEXT
    if key is None:
        return _OTHER_KEY
    if isinstance(key, LostKey):
        return Foreign(f"ciphertext, and {key.says}")
    decrypt = key.open_equal if form is Form.UNION else key.open
    try:
        found = from_bytes(decrypt(value, where.encode()))
    except OtherKeyError:
        return _OTHER_KEY
    except (NotForHereError, ValueError, RecursionError):
        return _NOT_FOR_HERE
    return found if isinstance(found, bytes) is of_bytes else _NOT_FOR_HERE
