"""Say which fields of which documents hold content, and whose key encrypts them. Pure."""

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from gcp_adk_store.codec.names import escape_name, unescape_segment


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
    "segments": {"body": Form.WHOLE, "initial": Form.VALUES, "initial_payload": Form.WHOLE},
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
"""Collections whose documents may be made anew under the same name; the field ``epoch`` tells them apart.

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
    """Whether its field ``epoch`` tells it from an earlier document of its name."""


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
