"""Declare the indexes, the index exemptions and the TTL policies of a database."""

from dataclasses import dataclass
from typing import Final, Literal

Order = Literal["ascending", "descending"]

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
        "create_time",
        "sealed_max",
        "expire_at",
        "parts_expire_at",
    ),
    "segments": (
        "body",
        "initial",
        "initial_payload",
        "chain_begin",
        "chain_end",
        "running_max",
        "expire_at",
    ),
    "chunks": ("body", "put_time", "expire_at"),
    "memories": ("tail", "gone", "shards", "until", "expire_at"),
    "shards": ("body", "ids", "expire_at"),
}
"""Collection, without the prefix -> fields that no query asks for.

Each write would pay for their index entries, and an index of increasing times limits the write rate of a
collection.
"""

TTL_FIELDS: Final = {
    "sessions": "expire_at",
    "segments": "expire_at",
    "chunks": "expire_at",
    "memories": "expire_at",
    "shards": "expire_at",
}
"""Collection, without the prefix -> the field of its TTL policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeIndex:
    """An index over several fields of all collections of one id."""

    collection: str
    fields: tuple[tuple[str, Order], ...]

    @property
    def command(self) -> str:
        """The command that creates it; another database than the default needs ``--database``."""
        fields = (f"--field-config=field-path={path},order={order}" for path, order in self.fields)
        return (
            f"gcloud firestore indexes composite create --collection-group={self.collection} "
            f"--query-scope=collection-group {' '.join(fields)}"
        )


def page_index(prefix: str, *, descending: bool) -> CompositeIndex:
    """Return the index for pages of all sessions of an app, in one of two orders."""
    order: Order = "descending" if descending else "ascending"
    return CompositeIndex(
        collection=f"{prefix}_sessions", fields=(("app", "ascending"), ("last_update_time", order))
    )
