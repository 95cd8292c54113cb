"""Name what is wrong with stored documents, each kind by a code."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.writes import Delete, Document, Write, update
from gcp_adk_store.model.appends import digests_of, fold


class Help(enum.Enum):
    """Who repairs a fault that has no repair of its own."""

    PERSON = "person"
    """A person decides: the stored data does not show which of two values is right."""
    BACKUP = "backup"
    """Only a backup, or point-in-time recovery, has what is lost."""
    UPGRADE = "upgrade"
    """A newer release may read it; otherwise a backup."""
    GC = "gc"
    """``gcp-adk-store gc`` removes it."""
    REPAIR = "repair"
    """``gcp-adk-store fsck --repair``, where the rest proves the right value; otherwise a person."""


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of fault."""

    invariant: str
    """What holds in a healthy store."""
    help: Help


CODES: Final[Mapping[str, Code]] = {
    # Session document
    "FSCK101": Code(
        "a session document has a known format, all its fields, and each of its kind", Help.UPGRADE
    ),
    "FSCK102": Code("`rev` is the number of events", Help.REPAIR),
    "FSCK103": Code("`tail_bytes` is the size of the tail", Help.REPAIR),
    "FSCK104": Code("`last_update_time` is the timestamp of the last event, or `create_time`", Help.REPAIR),
    "FSCK105": Code("`sealed_max` is `running_max` of the newest segment", Help.REPAIR),
    "FSCK106": Code("`state` is the initial state with the events' changes", Help.REPAIR),
    "FSCK107": Code(
        "`chain` is the head after the events, and `chain_sealed` the one before the tail", Help.REPAIR
    ),
    "FSCK108": Code("`spilled` names each place where a payload of the session is", Help.REPAIR),
    "FSCK109": Code(
        "the initial state is in the session document until the first seal, then in the first live segment",
        Help.REPAIR,
    ),
    "FSCK110": Code(
        "`parts_expire_at` is set with the first part, and never before `expire_at`", Help.PERSON
    ),
    "FSCK111": Code("each event is the JSON of an ADK event with a timestamp", Help.UPGRADE),
    "FSCK112": Code("`turns`, `last_turn` and `last_text` follow from the events", Help.REPAIR),
    "FSCK113": Code("`label_set` has each of `labels`, as `name=value`", Help.REPAIR),
    "FSCK114": Code(
        "`restores` counts at most the numbers in `cut`, and comes with `cut` and `restore_id`", Help.PERSON
    ),
    "FSCK115": Code(
        "`origin` names another session of the app, and no more events than the fork took over", Help.PERSON
    ),
    "FSCK116": Code("`title` and `labels` are within their limits", Help.PERSON),
    "FSCK117": Code("`digests` has the start of the hash of each event that the chain covers", Help.REPAIR),
    "FSCK118": Code(
        "`turn` has a holder and the end of a lease of at most a day, or neither, and a number above 0",
        Help.PERSON,
    ),
    "FSCK119": Code(
        "each message in `inbox` can be read, is there once, and all are within their limits", Help.PERSON
    ),
    "FSCK120": Code(
        "each marker of a redaction is the one that a later event of the chain reports", Help.PERSON
    ),
    "FSCK121": Code(
        "`archived` counts at most the session's events, and no segment with events after these", Help.REPAIR
    ),
    # Segments
    "FSCK201": Code("segments have all numbers below `sealed` that `cut` does not name", Help.BACKUP),
    "FSCK202": Code("a segment has a known format, all its fields, and a body that unpacks", Help.UPGRADE),
    "FSCK203": Code("`count` is the number of a segment's events", Help.REPAIR),
    "FSCK204": Code("`running_max` is the newest timestamp up to the end of a segment", Help.REPAIR),
    "FSCK205": Code(
        "the chain goes from `chain_begin` over a segment's events to `chain_end`, and on", Help.PERSON
    ),
    "FSCK206": Code(
        "a session has no segment that it does not count: it would stop the next seal", Help.PERSON
    ),
    "FSCK207": Code("a segment ends with a session, or a deletion note names it", Help.PERSON),
    "FSCK208": Code("a part expires if its session does, and never before `parts_expire_at`", Help.REPAIR),
    "FSCK209": Code("a segment that a restore cut off is gone, or a note of a restore names it", Help.PERSON),
    "FSCK210": Code("`window` of a segment has events of the segments before it alone", Help.REPAIR),
    # Payloads
    "FSCK301": Code("each reference has its payload", Help.BACKUP),
    "FSCK302": Code("a payload has the size that its reference says", Help.BACKUP),
    "FSCK303": Code("a payload has the SHA-256 that its reference says (`--full`)", Help.BACKUP),
    "FSCK304": Code("a chunk has a known format, all its fields, and a name of this form", Help.UPGRADE),
    "FSCK305": Code("a payload has a reference a day after it was written", Help.GC),
    "FSCK306": Code("a payload that is a value, an event or an initial state unpacks to one", Help.BACKUP),
    "FSCK307": Code("a file in `objects/` of a folder has an object a day after it was written", Help.GC),
    # Shared state
    "FSCK401": Code("the document of an app or a user has a known format and a state", Help.UPGRADE),
    # Notes of deletions, forks and restores
    "FSCK501": Code("a note of a deletion or a fork has a known format and all its fields", Help.PERSON),
    "FSCK502": Code("such a note names no living session: its segments would be removed", Help.REPAIR),
    "FSCK503": Code("a deletion or a fork is complete after a day", Help.GC),
    "FSCK504": Code(
        "a note of a restore has a known format, all its fields, and something to do", Help.PERSON
    ),
    "FSCK505": Code("such a note names no live segment: it would be removed", Help.PERSON),
    "FSCK506": Code("a restore is complete after a day", Help.GC),
    # Memories
    "FSCK601": Code(
        "the head of a user's memories has a known format, all its fields, and memories that can be read",
        Help.UPGRADE,
    ),
    "FSCK602": Code("each shard and each document of vectors that the head names is there", Help.BACKUP),
    "FSCK603": Code(
        "a shard has a known format, all its fields, and memories; a document of vectors has whole rows",
        Help.UPGRADE,
    ),
    "FSCK604": Code("`shards` and `vectors` have the counts and sizes of the documents", Help.REPAIR),
    "FSCK605": Code("`until` is when the last memory ends", Help.REPAIR),
    "FSCK606": Code(
        "`next` is above each number that is used, and `spilled` is true with payloads", Help.REPAIR
    ),
    "FSCK607": Code("a memory is there once, and `ids` of its shard has its digest", Help.PERSON),
    "FSCK608": Code(
        "the head, a shard or a document of vectors expires after its last memory ends, or never", Help.REPAIR
    ),
}
"""All kinds of faults by their codes, which never change their meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One violated invariant."""

    code: str
    """A key of :data:`CODES`."""
    path: str
    """Path of the document, or name of the object: ids, never content."""
    item: str = ""
    """What of it: a field, a number, or the SHA-256 of a payload."""
    says: str
    """What was found: counts, sizes and hashes, never content."""
    repair: Sequence[Write | Delete] = ()
    """The writes that repair it, each under the update time that was seen; empty if its help is another."""

    @property
    def help(self) -> Help:
        """Who repairs it."""
        help_ = CODES[self.code].help
        if self.repair:
            return Help.REPAIR
        return Help.PERSON if help_ is Help.REPAIR else help_

    @property
    def identity(self) -> tuple[str, str, str]:
        """What stays the same when two looks find the same fault."""
        return self.code, self.path, self.item


def merged(faults: Iterable[Fault]) -> list[list[Write | Delete]]:
    """Return the repairs of *faults*, one commit for each document, whose update time changes with it."""
    by_path: dict[str, Write | Delete] = {}
    for fault in faults:
        for item in fault.repair:
            before = by_path.get(item.path)
            by_path[item.path] = item if before is None else _joined(before, item)
    return [[item] for item in by_path.values()]


def _joined(before: Write | Delete, item: Write | Delete) -> Write | Delete:
    if isinstance(before, Delete) or isinstance(item, Delete) or before.must != item.must:
        return before
    mask = [*(before.mask or ()), *(path for path in item.mask or () if path not in (before.mask or ()))]
    fields = {**before.fields, **item.fields}
    mine, more = before.fields.get("state"), item.fields.get("state")
    if isinstance(mine, dict) and isinstance(more, dict):
        fields["state"] = {**mine, **more}
    life = before.life or item.life
    return Write(path=item.path, fields=fields, mask=mask, must=item.must, life=life)


def digest_faults(
    document: Document,
    texts: Sequence[str],
    found: Sequence[bytes] | None,
    *,
    begin: bytes,
    end: bytes,
) -> list[Fault]:
    """Return a fault if *found* are not the digests of *texts*, which the chain proves.

    They show which event was changed where the chain proves that one was, so they stay as they are then.
    """
    if fold(begin, texts) != end:
        return []
    right = digests_of(texts)
    if found is not None and [*found] == right:
        return []
    in_segment = "chain_begin" in document.fields
    repaired: FieldValue = b"".join(right) if in_segment else [*right]
    says = f"are not those of the {len(texts)} events"
    repair = (update(document.path, {"digests": repaired}, must=document.update_time),)
    return [Fault(code="FSCK117", path=document.path, item="digests", says=says, repair=repair)]
