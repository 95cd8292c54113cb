"""Lay out the documents of erasures, outside of every user's tree.

::

    {prefix}_erasures/key          the key of the subjects
    {prefix}_erasures/{subject}    an erasure that is not complete

docs/data-model.md lists every field.
"""

import hmac
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from gcp_adk_store.codec.documents import UNCHANGED_FORMAT
from gcp_adk_store.codec.stored import Count, DocumentFields, Number, read_fields
from gcp_adk_store.codec.writes import Document, Must, Write
from gcp_adk_store.model.erasures import Erased, Tally, total
from gcp_adk_store.model.keys import UserKey

KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An erasure that is not complete."""

    begun_at: float
    passes: int = 0
    """Passes that were completed."""
    erased: Tally
    commit_id: str = ""
    """Random id of its last write."""
    update_time: str | None = None
    """``None`` before its first write."""

    def plus(self, more: Tally, *, passes: int = 0, commit_id: str) -> "Intent":
        """Return the intent after *more* was erased, and *passes* completed."""
        erased = total(self.erased, more)
        return replace(self, passes=self.passes + passes, erased=erased, commit_id=commit_id)


class _Key(DocumentFields):
    key: Annotated[bytes, Field(min_length=KEY_BYTES, max_length=KEY_BYTES)]


class _Erased(BaseModel):
    model_config = ConfigDict(strict=True)

    count: Count
    bytes: Count


class _Intent(DocumentFields):
    begun_at: Number
    passes: Count
    commit_id: str
    erased: dict[str, _Erased]


class ErasureLayout:
    """Paths and writes of erasures below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.collection = f"{prefix}_erasures"
        """Id of the collection."""
        self.key = f"{self.collection}/key"
        """Path of the document with the key."""

    def intent(self, subject: str) -> str:
        """Path of the intent to erase a subject."""
        return f"{self.collection}/{subject}"

    def put_key(self, key: bytes) -> Write:
        """Return the write of a new key."""
        return Write(path=self.key, fields={"format": UNCHANGED_FORMAT, "key": key}, must=Must.BE_ABSENT)

    def put_intent(self, subject: str, intent: Intent) -> Write:
        """Return the write of *intent*, under the update time at which it was read."""
        erased: dict[str, Any] = {kind: asdict(erased) for kind, erased in intent.erased.items()}
        return Write(
            path=self.intent(subject),
            fields={
                "format": UNCHANGED_FORMAT,
                "begun_at": intent.begun_at,
                "passes": intent.passes,
                "commit_id": intent.commit_id,
                "erased": erased,
            },
            must=intent.update_time or Must.BE_ABSENT,
        )


def subject_of(key: bytes, user: UserKey) -> str:
    """Return the name of a user that only holders of the *key* can compute: 64 hex digits."""
    app = user.app.encode()
    return hmac.digest(key, b"%d:%b%b" % (len(app), app, user.user.encode()), "sha256").hex()


def read_key(document: Document) -> bytes:
    """Return the key of the subjects."""
    return read_fields(_Key, document).key


def read_intent(document: Document) -> Intent:
    """Return the intent in *document*."""
    fields = read_fields(_Intent, document)
    return Intent(
        begun_at=fields.begun_at,
        passes=fields.passes,
        commit_id=fields.commit_id,
        erased={kind: Erased(each.count, each.bytes) for kind, each in fields.erased.items()},
        update_time=document.update_time,
    )
