"""Decide what a change of a user's memories writes: pure functions from one snapshot to the next."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from gcp_adk_store.codec.memories import EncodedMemory
from gcp_adk_store.codec.memory_documents import NewPart, ShardContent, new_shard, new_shards
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, StoreError
from gcp_adk_store.memory.contents import Snapshot, decoded
from gcp_adk_store.model.memories import (
    DIGEST_BYTES,
    SEAL_BYTES,
    Memory,
    MemoryHead,
    Part,
    digests_in,
    end_of_all,
    merged_with,
)

_GONE_BYTES: Final = 1000 * DIGEST_BYTES
"""Digests of removed memories that the head holds before they go into a shard."""
_REWRITTEN_BYTES: Final = 2 * 1024 * 1024
"""Bytes of new shards in one commit: the emulator takes 4 MiB."""

Rewrite = Callable[[str], str | None]
"""Returns the text of a memory, changed or not, or ``None`` to remove it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The next state of a user's memories."""

    head: MemoryHead
    added: Sequence[NewPart] = ()
    embedded: Sequence[NewPart] = ()
    is_all: bool = True
    """Whether a further change of the same kind would find nothing to do."""
    is_prior: bool = False
    """Whether it only makes way for what was decided, which comes with a further change."""
    embeds_again: bool = False
    """Whether it brings vectors of memories that may have one by now."""

    def shards_after(self, before: Snapshot | None) -> dict[int, ShardContent]:
        """Return the shards of the next snapshot."""
        kept = before.shards if before is not None and before.head.epoch == self.head.epoch else {}
        added = {new.part.number: new.content for new in self.added}
        both = {**kept, **added}
        return {shard.number: both[shard.number] for shard in self.head.shards if shard.number in both}

    def vectors_after(self, before: Snapshot | None) -> dict[int, bytes]:
        """Return the documents of vectors of the next snapshot, as far as they are known."""
        kept = before.vectors if before is not None and before.head.epoch == self.head.epoch else {}
        both = {**kept, **{new.part.number: new.body for new in self.embedded}}
        return {part.number: both[part.number] for part in self.head.vectors.parts if part.number in both}

    def texts_after(self, before: Snapshot | None) -> list[str]:
        """Return the texts of all memories of the next snapshot."""
        sealed = self.shards_after(before).values()
        return [*(text for content in sealed for text in content.texts), *self.head.tail]


def taking_in(
    before: Snapshot | None,
    encoded: Sequence[EncodedMemory],
    *,
    epoch: str,
    at_most: int,
    now: float,
    sources: Sequence[bytes] = (),
    later: Sequence[EncodedMemory] = (),
) -> Change | None:
    """Return the change that adds the memories that were never taken in; ``None`` without any.

    A user without memories gets a new life, *epoch*. *now* is the Unix time in seconds. *sources* are digests
    of ids that count as taken in from then on; if one of them was taken in before, nothing is added. *later*
    are memories that further changes add.

    Raises:
        InvalidInputError: the user would have more than *at_most* memories that have not ended, with *later*.
    """
    is_new = before is None or before.is_empty
    head = MemoryHead(epoch=epoch) if before is None or is_new else before.head
    known = set() if before is None else set(before.known)
    if not known.isdisjoint(sources):
        return None
    new: list[EncodedMemory] = []
    for each in encoded:
        if each.memory.digest not in known:
            known.add(each.memory.digest)
            new.append(each)
    unseen = [digest for digest in dict.fromkeys(sources) if digest not in known]
    if not (new or unseen):
        return None
    tail = (*head.tail, *(each.text for each in new))
    added = len(new) + sum(each.memory.digest not in known for each in later)
    count = len(head.tail) + added + sum(shard.count for shard in head.living)
    if count > at_most and before is not None:  # without those that ended, and go with a later seal
        living = sum(not memory.has_ended(now) for memory in decoded(before.texts))
        count = living + added
    if count > at_most:
        raise InvalidInputError(
            f"the user would have {count} memories, MemoryLimits.max_memories is {at_most}; raise it, delete "
            "memories, or give them a time to live"
        )
    head = replace(
        head,
        revision=head.revision + 1,
        read_time=now,
        tail=tail,
        gone=head.gone + b"".join(unseen),
        spilled=head.spilled or any(each.payloads for each in new),
        update_time="",
    )
    if head.tail_bytes <= SEAL_BYTES and len(head.gone) <= _GONE_BYTES:
        return Change(head=_with_end(head, decoded(tail)))
    return _sealed(head, {} if before is None or is_new else before.shards)


def rewriting(before: Snapshot, rewrite: Rewrite, *, now: float) -> Change | None:
    """Return the change of each memory's text by *rewrite*; ``None`` if it changes nothing.

    Shards whose memories have all ended go, too, and with them their vectors. What has grown moves on: a tail
    becomes a shard, and a shard several. A change of many shards takes several commits: then the result has
    not ``is_all``. The ids of memories that end sooner stay, as those of removed ones. *now* is the Unix time
    in seconds.
    """
    if before.is_empty:
        return None
    head = replace(before.head, read_time=now)
    shards: list[Part] = []
    added: list[NewPart] = []
    number, size, is_all = head.next_number, 0, True
    sooner: list[bytes] = []
    for shard in head.living:
        content = before.shards.get(shard.number)
        kept = None if content is None else _rewritten(content.texts, rewrite)
        if content is None or kept is None:
            shards.append(shard)
        elif size > _REWRITTEN_BYTES:
            shards.append(shard)
            is_all = False
        else:
            new = new_shards(number, kept, content.ids, decoded(kept))
            sooner += _ending_sooner(content.texts, kept)
            added += new
            shards += (each.part for each in new)
            number += len(new)
            size += sum(each.part.packed for each in new)
    tail = _rewritten(head.tail, rewrite)
    if tuple(shards) == head.shards and tail is None:
        return None
    gone = head.gone
    if tail is not None:
        left = {memory.digest for memory in decoded(tail)}
        gone += b"".join(memory.digest for memory in decoded(head.tail) if memory.digest not in left)
        sooner += _ending_sooner(head.tail, tail)
    changed = [*decoded(tail or ()), *(memory for new in added for memory in decoded(new.content.texts))]
    after = replace(
        head,
        revision=head.revision + 1,
        spilled=head.spilled or any(memory.life is not None for memory in changed),
        tail=head.tail if tail is None else tuple(tail),
        gone=gone + b"".join(sooner),
        shards=tuple(shards),
        next_number=number,
        update_time="",
    )
    if after.tail_bytes <= SEAL_BYTES:
        return Change(head=_with_end(after, decoded(after.tail)), added=added, is_all=is_all)
    sealed = _sealed(after, {**before.shards, **{new.part.number: new.content for new in added}})
    listed = {shard.number for shard in sealed.head.shards}
    added = [new for new in added if new.part.number in listed]
    return replace(sealed, added=[*added, *sealed.added], is_all=is_all)


def _sealed(head: MemoryHead, contents: Mapping[int, ShardContent]) -> Change:
    """Return the change that moves the tail of *head* into new shards, with neighbours that are small.

    It leaves out what has ended.
    """
    now = head.read_time
    shards = head.living
    memories = decoded(head.tail)
    ids = head.gone + b"".join(memory.digest for memory in memories)
    alone = new_shard(head.next_number, head.tail, ids, memories)
    kept_shards = len(shards) - len(merged_with(shards, size=alone.part.size, packed=alone.part.packed))
    older = [contents[shard.number] for shard in shards[kept_shards:]]
    texts = [text for content in older for text in content.texts] + list(head.tail)
    removed = digests_in(head.gone).union(
        *(digests_in(each.ids) - {memory.digest for memory in decoded(each.texts)} for each in older)
    )
    # What has ended is too old to be added again.
    both = zip(texts, decoded(texts), strict=True)
    lasting = [(text, memory) for text, memory in both if not memory.has_ended(now)]
    kept = [text for text, _ in lasting]
    known = removed | {memory.digest for _, memory in lasting}
    new = new_shards(head.next_number, kept, b"".join(sorted(known)), decoded(kept))
    after = replace(
        head,
        tail=(),
        gone=b"",
        shards=(*shards[:kept_shards], *(each.part for each in new)),
        next_number=head.next_number + len(new),
    )
    return Change(head=_with_end(after, []), added=new)


def _rewritten(texts: Sequence[str], rewrite: Rewrite) -> list[str] | None:
    """Return *texts* after *rewrite*; ``None`` if it changes none of them."""
    after = [rewrite(text) for text in texts]
    if after == list(texts):
        return None
    return [text for text in after if text is not None]


def _ending_sooner(before: Sequence[str], after: Sequence[str]) -> list[bytes]:
    """Return the digests of memories that *after* ends sooner: their events may be added again after that."""
    old, new = set(before), set(after)
    former = decoded(text for text in before if text not in new)
    ends = {memory.digest: memory.until or inf for memory in former}
    changed = decoded(text for text in after if text not in old)
    return [each.digest for each in changed if each.until is not None and each.until < ends[each.digest]]


def _with_end(head: MemoryHead, tail: Sequence[Memory]) -> MemoryHead:
    return replace(head, until=end_of_all(tail, head.shards, head.gone))


def gone(before: Snapshot | None, change: Change | None) -> list[str]:
    """Return the texts of *before* that are not there after *change*."""
    if before is None or change is None:
        return []
    kept = set(change.texts_after(before))
    return [text for text in before.texts if text not in kept]


@contextmanager
def half_done(parts: Sized) -> Iterator[None]:
    """Report an unknown outcome if the block fails after *parts* of the change were written.

    Raises:
        OutcomeUnknownError: the block raised a StoreError when there were parts.
    """
    try:
        yield
    except StoreError as exc:
        if not len(parts) or isinstance(exc, OutcomeUnknownError):
            raise
        says = f"some memories are changed, and not all; call it again: {exc}"
        raise OutcomeUnknownError.since(exc, says) from exc
