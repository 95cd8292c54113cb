"""Measure the largest sessions and the memories of users, and judge them."""

import shlex
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import pairwise
from statistics import median
from typing import Any, Final

from gcp_adk_store.codec.documents import Layout, ids_of
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.doctor.findings import Answer, Facts, Finding, MemoryCounts, Probe, fail, ok, skipped, warn
from gcp_adk_store.errors import StoredDataError, StoreError
from gcp_adk_store.kernel.ports import Reads
from gcp_adk_store.model.keys import quoted

_SLOW_MS: Final = 100.0
_OFF_S: Final = 2.0
_FAR_OFF_S: Final = 60.0
_EDGES_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


def written(probe: Probe, where: str) -> Finding:
    """Check writing, reading, listing and deleting."""
    if probe.succeeded:
        return ok(f"written, read, listed and deleted in {where}")
    left = f"; {probe.left} could not be deleted: delete it by hand" if probe.left else ""
    return fail(f"{probe.failure or 'not deleted'}{left}")


def latency(probe: Probe, facts: Facts) -> Finding:
    """Check the latency of a read from this machine."""
    if not probe.samples_ms:
        return skipped("nothing could be read")
    says = took(probe.samples_ms)
    if median(probe.samples_ms) <= _SLOW_MS:
        return ok(says)
    return warn(
        f"{says}: each turn waits for several; let the agent run beside its data",
        f"gcloud run deploy SERVICE --region={shlex.quote(facts.database_location or 'REGION')}",
    )


def took(samples_ms: Sequence[float]) -> str:
    """Say how long reads took."""
    typical, worst = median(samples_ms), max(samples_ms)
    return f"half of {len(samples_ms)} reads took less than {typical:.1f} ms, none more than {worst:.1f} ms"


def histogram(samples_ms: Sequence[float]) -> list[tuple[str, int]]:
    """Return the number of samples between steps of 1, 2 and 5, from the first nonempty step to the last."""
    counts = [0] * (len(_EDGES_MS) + 1)
    for sample in samples_ms:
        counts[sum(sample >= edge for edge in _EDGES_MS)] += 1
    between = (f"{low:g} to {high:g} ms" for low, high in pairwise(_EDGES_MS))
    labels = [f"below {_EDGES_MS[0]:g} ms", *between, f"{_EDGES_MS[-1]:g} ms and more"]
    used = [number for number, count in enumerate(counts) if count] or [0, -1]
    return list(zip(labels, counts, strict=True))[used[0] : used[-1] + 1]


def clock(facts: Facts) -> Finding | None:
    """Compare this machine's clock with Firestore's, or with the answers' dates, in whole seconds."""
    if not facts.answers:
        return None
    skews = [skew for skew in map(_skew_s, facts.answers.values()) if skew is not None]
    whose = "Google's"
    if facts.documents is not None and facts.documents.clock_ahead_s is not None:
        skews, whose = [facts.documents.clock_ahead_s], "Firestore's"
    if not skews:
        return skipped("no answer had a date")
    skew = min(skews, key=abs)
    if abs(skew) <= _OFF_S:
        return ok(f"agrees with {whose} within two seconds")
    says = (
        f"{abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} {whose}: "
        "sessions end by Firestore's time, but create times, expires_after of artifacts and the age of "
        "uploads are wrong"
    )
    if abs(skew) <= _FAR_OFF_S:
        return warn(says, "sudo timedatectl set-ntp true")
    return fail(f"{says}, and keys and signed URLs are refused", "sudo timedatectl set-ntp true")


def _skew_s(answer: Answer) -> float | None:
    """Return the seconds that this machine is behind; 0 if the date lies within the time of the request."""
    try:
        date = parsedate_to_datetime(answer.date)
    except (TypeError, ValueError):
        return None
    server_time = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if server_time + 1 < answer.asked_at:
        return server_time + 1 - answer.asked_at
    return max(0.0, server_time - answer.answered_at)


_USERS: Final = 100
"""Users whose memories are looked at: the head of each may have 128 KiB."""
_FIELDS: Final = ("tail", "shards", "fresh", "vectors", "embedder", "ending")
_SHOWN: Final = 3
_USER_IDS: Final = 4
"""Parts of a path that name a user: two collections and two ids."""


async def count_memories(documents: Reads, prefix: str) -> MemoryCounts:
    """Return the counts of at most 100 users; 1 query."""
    page = Page(field=None, descending=False, limit=_USERS, after=None)
    collection = MemoryLayout(Layout(prefix)).collection
    try:
        heads = await documents.query("", collection, fields=_FIELDS, all_descendants=True, page=page)
    except StoreError as exc:
        return MemoryCounts(failure=str(exc))
    counts = [(head, *_counted(head)) for head in heads if head.fields.get("ending") is not True]
    lacking = [
        (_owner_of(head), memories - vectors) for head, memories, vectors in counts if memories > vectors
    ]
    return MemoryCounts(
        users=len(counts),
        memories=sum(memories for _, memories, _ in counts),
        vectors=sum(vectors for _, _, vectors in counts),
        without=sum(missing for _, missing in lacking),
        lacking=[owner for owner, _ in lacking if owner is not None][:_SHOWN],
    )


def vectors(counts: MemoryCounts, at: str) -> Finding:
    """Check that memories have vectors; *at* are the options that name the store."""
    if counts.failure:
        return skipped(f"memories could not be read: {counts.failure}")
    looked_at = f"{counts.memories:,} memories of {_people(counts.users)}"
    if not counts.vectors:
        return ok(f"{looked_at} have no vectors: the store has no embedder, or it never answered")
    if not counts.without:
        return ok(f"{looked_at} have vectors, as far as they have words")
    return warn(
        f"{counts.without:,} of {looked_at} have no vector, so words alone rank them, if they have any",
        *(
            f"gcp-adk-store memory reindex {at} --app={quoted(app)} --user={quoted(user)}"
            for app, user in counts.lacking
        ),
    )


def _people(users: int) -> str:
    return f"the first {users} users" if users == _USERS else f"{users} users"


def _counted(head: Document) -> tuple[int, int]:
    """Return how many memories and how many vectors a head says that a user has."""
    fields = head.fields
    return (
        _length(fields.get("tail")) + _sum(fields.get("shards")),
        _length(fields.get("fresh")) + _sum(fields.get("vectors")),
    )


def _length(found: Any) -> int:
    return len(found) if isinstance(found, list) else 0


def _sum(parts: Any) -> int:
    counts = (
        [part.get("count") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    )
    return sum(count for count in counts if isinstance(count, int))


def _owner_of(head: Document) -> tuple[str, str] | None:
    try:
        app, user = ids_of("/".join(head.path.split("/")[:_USER_IDS]))
    except StoredDataError:
        return None
    return app, user
