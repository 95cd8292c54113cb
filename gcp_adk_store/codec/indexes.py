"""Declare the indexes, the index exemptions and the TTL policies of a database."""

from dataclasses import dataclass
from typing import Final, Literal

from gcp_adk_store.codec.segments import LABEL_SET

Order = Literal["ascending", "descending", "contains"]
Scope = Literal["collection", "collection-group"]

UNINDEXED_FIELDS: Final = {
    "apps": ("state",),
    "users": ("state",),
    "sessions": (
        "state",
        "initial",
        "initial_payload",
        "tail",
        "chain",
        "chain_sealed",
        "digests",
        "origin",
        "create_time",
        "sealed_max",
        "cut",
        "expire_at",
        "parts_expire_at",
        "turns",
        "last_turn",
        "title",
        "labels",
        "label_set",
        "last_text",
        "turn",
        "inbox",
        "archived",
        "conflicts",
    ),
    "segments": (
        "body",
        "initial",
        "initial_payload",
        "chain_begin",
        "chain_end",
        "digests",
        "running_max",
        "window",
        "archive",
        "conflicts",
        "expire_at",
    ),
    "chunks": ("body", "put_time", "expire_at"),
    "memories": ("tail", "gone", "shards", "until", "embedder", "fresh", "vectors", "expire_at"),
    "shards": ("body", "ids", "expire_at"),
    "vectors": ("body", "expire_at"),
    "tasks": ("owner", "context_id", "state", "seconds", "nanos", "save", "sha256", "body", "expire_at"),
    "pieces": ("body", "expire_at"),
    "configs": ("body", "expire_at"),
    "pushes": ("save", "expire_at"),
}
"""Collection, without the prefix -> fields that no query asks for.

Each write would pay for their index entries, and an index of increasing times limits the write rate of a
collection.
"""

_TTL_FIELD: Final = "expire_at"
TTL_FIELDS: Final = {name: _TTL_FIELD for name, fields in UNINDEXED_FIELDS.items() if _TTL_FIELD in fields}
"""Collection, without the prefix -> the field of its TTL policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeIndex:
    """An index over several fields of the collections of one id."""

    collection: str
    fields: tuple[tuple[str, Order], ...]
    scope: Scope = "collection-group"
    """Whether it serves queries of one such collection, or of all of them at once."""

    @property
    def command(self) -> str:
        """The command that creates it; another database than the default needs ``--database``."""
        fields = (
            f"--field-config=field-path={path},{'array-config' if order == 'contains' else 'order'}={order}"
            for path, order in self.fields
        )
        return (
            f"gcloud firestore indexes composite create --collection-group={self.collection} "
            f"--query-scope={self.scope} {' '.join(fields)}"
        )


def page_index(prefix: str, *, descending: bool, of_app: bool, labelled: bool) -> CompositeIndex:
    """Return the index for pages of sessions in one of two orders.

    Pages of all users of an app need one, and so do pages of sessions with a label; documents without labels
    are not in the index of the latter.
    """
    order: Order = "descending" if descending else "ascending"
    fields: list[tuple[str, Order]] = [("last_update_time", order)]
    if labelled:
        fields.insert(0, (LABEL_SET, "contains"))
    if of_app:
        fields.insert(0, ("app", "ascending"))
    return CompositeIndex(
        collection=f"{prefix}_sessions",
        fields=tuple(fields),
        scope="collection-group" if of_app else "collection",
    )


def page_indexes(prefix: str) -> list[CompositeIndex]:
    """Return all composite indexes of a store."""
    return [
        page_index(prefix, descending=descending, of_app=of_app, labelled=labelled)
        for of_app, labelled in ((True, False), (True, True), (False, True))
        for descending in (True, False)
    ]
