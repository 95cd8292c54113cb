"""Each mutation of each field of a stored session is found, or listed here with the reason why not."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import pytest

from gcp_adk_store import Fault
from tests.fsck.corpus import CORPUS
from tests.fsck.mutations import mutations
from tests.support.clock import in_days
from tests.support.documents import ROOT
from tests.support.lengths import at_length

_UNKNOWN: Final = "a newer release, or the deployment, may add fields; readers ignore them"
_SHOWN: Final = "nothing else in the store shows when the session was created"
_SHARED: Final = "the history of all sessions would have to show it, and deleted ones are gone"
_OVERWRITTEN: Final = "an event changed the key; nothing else has its first value"
_MARK: Final = "only changes the version that a collector compares"
_UNUSED: Final = "nothing refers to the chunk any more"
_SAME: Final = "names the same places"
_LONGER: Final = "the session lives longer, or its parts do; no time that is stored contradicts it"
_IGNORED: Final = "a reader of references ignores further keys"
_EXPIRES: Final = "it expires, and Firestore removes it then"


def each(place: str, hows: str, why: str) -> dict[str, str]:
    """Return mutations of one place, which a comma divides, with their reason."""
    return {f"{place}{how.strip()}": why for how in hows.split(",")}


_UNCOUNTED: Final = each("session.", "turns: dropped, last_text: dropped", "absent means unknown")
_SESSION: Final = {
    **_UNCOUNTED,
    **each("session.create_time: ", "earlier, later", _SHOWN),
    "session: unknown field": _UNKNOWN,
}
_ALONE: Final = {"session: removed": "nothing is left of a session without segments and payloads"}
_SEGMENTS: Final = {"segment 0: unknown field": _UNKNOWN, "segment: unknown field": _UNKNOWN}
_CHANGED: Final = "another kind, dropped, null, one less, one more"
_APP_AND_USER: Final = {
    f"{scope}{how}": why
    for scope in ("app", "user")
    for how, why in {".state: key added": _SHARED, ": unknown field": _UNKNOWN}.items()
}
_SMALL_SHARED: Final = {
    f"{place}{how}": _SHARED
    for place, key in (("app", "x"), ("user", "y"))
    for how in (
        ": removed",
        ": copied to another id",
        ".state: dropped",
        *(f".state: {key} {how}" for how in _CHANGED.split(", ")),
    )
}
_SHARED_REFERENCES: Final = {
    **_APP_AND_USER,
    **each("app.state: big payload key ", "added, that no one encodes so", _IGNORED),
    **each("user.state: big payload key ", "added, that no one encodes so", _IGNORED),
}
_REFERENCES: Final = {
    **_SHARED_REFERENCES,
    **each("session.state: large payload key ", "added, that no one encodes so", _IGNORED),
    **each("segment 0.initial: large payload key ", "added, that no one encodes so", _IGNORED),
    "session.spilled: first twice": _SAME,
}
_PUT_TIME: Final = "another kind, dropped, earlier, later, null"


def chunks(*kinds: str) -> dict[str, str]:
    """Return the harmless mutations of kinds of chunks."""
    found = {f"{kind}: unknown field": _UNKNOWN for kind in kinds}
    for kind in kinds:
        found |= each(f"{kind}.put_time: ", _PUT_TIME, _MARK)
    return found


_SEALED: Final = {
    **_SESSION,
    **_SEGMENTS,
    **each("segment 0.initial: changed ", _CHANGED, _OVERWRITTEN),
}
_NONE: Final = "absent means none, and there is none"
_TAKEN_BACK: Final = {
    "session.restores: one more": "each of two restores may have cut off some of the numbers",
}
_RESTORED: Final = {**_SEALED, **_TAKEN_BACK}
_SOURCE: Final = "the source may be gone; nothing in the fork has its ids or its length"
HARMLESS: Final[dict[str, dict[str, str]]] = {
    "no event": {
        **_UNCOUNTED,
        "session: unknown field": _UNKNOWN,
        "session.digests: dropped": _NONE,
        **_ALONE,
    },
    "tail": {
        **_SESSION,
        **_ALONE,
        **_APP_AND_USER,
        **_SMALL_SHARED,
        "user.state: y 0": _SHARED,
        **each("session.initial: changed ", _CHANGED, _OVERWRITTEN),
    },
    "sealed": _SEALED,
    "chunks": {
        **_SESSION,
        **_SEGMENTS,
        **_REFERENCES,
        **chunks("app's chunk", "user's chunk", "session's chunk", "unused session's chunk"),
        **each("unused session's chunk.body: ", "another kind, dropped, null, one bit, shorter", _UNUSED),
        **each("unused session's chunk.format: ", _CHANGED, _UNUSED),
        "unused session's chunk: removed": _UNUSED,
    },
    "large initial": {
        **_SESSION,
        **chunks("session's chunk"),
        **each("session.initial_payload: key ", "added, that no one encodes so", _IGNORED),
        "session.spilled: first twice": _SAME,
    },
    "bucket": {
        **_SESSION,
        **_SEGMENTS,
        **_REFERENCES,
        "session.spilled: one more": "a deletion looks in one place more",
    },
    "expiring": {
        **_SESSION,
        **_SEGMENTS,
        **_REFERENCES,
        **chunks("app's chunk", "user's chunk", "session's chunk"),
        **each("session.ttl_s: ", "0, one less, one more", _LONGER),
        "session.expire_at: a year earlier": "the last write of the document decides, too",
        "segment 0.expire_at: a year later": _LONGER,
        "segment.expire_at: a year later": _LONGER,
        "session's chunk.expire_at: a year later": _LONGER,
        **each("segment 0.initial: large ", "dropped, null", _OVERWRITTEN),
        "session: removed": _EXPIRES,
        "segment 0: copied to another life": _EXPIRES,
        "segment: copied to another life": _EXPIRES,
        "session's chunk: copied to another life": _EXPIRES,
    },
    "redacted": {
        **_SEALED,
        **each("session.redactions: ", "0, dropped, one less, one more", "only ages what readers remember"),
    },
    "deleted": {
        **_SESSION,
        **_SHARED_REFERENCES,
        "segment 0: unknown field": _UNKNOWN,
        **chunks("app's chunk", "user's chunk"),
        "note: unknown field": _UNKNOWN,
        "note.sealed: one more": "a deletion of one segment more that does not exist",
        "note.spilled: one more": "a deletion looks in one place more",
        "note.spilled: first twice": _SAME,
    },
    "restored": {
        **_RESTORED,
        **each("session.title: ", "dropped, longer", "nothing else has its title"),
    },
    "restore note": {
        **_SESSION,
        **_TAKEN_BACK,
        "segment 0: unknown field": _UNKNOWN,
        **each("segment 0.initial: changed ", _CHANGED, _OVERWRITTEN),
        "restore note: unknown field": _UNKNOWN,
        **each("restore note.artifacts: ", "dropped, null", "the restore may have been without artifacts"),
        "restore note.segments: to one more": "the number that the tail had, and no segment has",
    },
    "fork": {
        **_SEALED,
        **each(
            "session.origin: ",
            "dropped, null, epoch longer, session longer, user empty, user longer",
            _SOURCE,
        ),
        **each("session.origin: position ", "0, one less, one more", _SOURCE),
        **each("session.origin: key ", "added, that no one encodes so", _IGNORED),
    },
    "fork note": {
        **_SEALED,
        "note: unknown field": _UNKNOWN,
        "note.making: flipped": "the collector may have begun to remove the fork",
        "note.artifacts: flipped": "nothing else shows whether artifacts were copied",
        "note.sealed: one more": "a deletion of one segment more that does not exist",
        **each("note.spilled: ", "dropped, one less, one more", "the fork has no payload yet"),
        "note.spilled: first twice": _SAME,
    },
    "in a turn": {
        **_SESSION,
        **_ALONE,
        **_APP_AND_USER,
        **_SMALL_SHARED,
        "user.state: y 0": _SHARED,
        **each("session.initial: changed ", _CHANGED, _OVERWRITTEN),
        **each("session.turn: key ", "added, that no one encodes so", _IGNORED),
        **each(
            "session.turn: ",
            "abort dropped, abort flipped, fence one more, holder longer",
            "its holder stops",
        ),
        **each("session.turn: ", "dropped, null", "messages may wait before the first turn"),
        "session.turn: until a year earlier": "the lease of a process that was killed ends so, too",
        **each(
            "session.inbox: ",
            "another text, dropped, one less, state_delta dropped, two swapped",
            "nothing else shows which messages wait",
        ),
    },
}
"""Stored session -> mutation -> why it is not found."""


async def undetected_of(name: str) -> tuple[set[str], set[str], dict[str, set[str]]]:
    """Return the mutations of a stored session that were made, those not found, and the codes of the others.

    All are made in the long form, and every fifteenth in the short one; each session begins with another.
    """
    stored = await CORPUS[name]()

    async def faults() -> list[Fault]:
        with in_days(2):
            return await stored.faults()

    baseline = {fault.identity for fault in await faults()}
    unused = {path for code, path, _ in baseline if code == "FSCK305"}
    documents = await stored.documents()
    leaving = {path for path in documents if _is_leaving(path, documents)}
    possible = list(mutations(documents, unused=unused, leaving=leaving))
    labels = list(dict.fromkeys(label for label, _ in possible))
    made = set(at_length(labels[list(CORPUS).index(name) % 15 :: 15], labels))
    assert set(HARMLESS[name]) <= set(labels)
    undetected: set[str] = set()
    found: dict[str, set[str]] = defaultdict(set)
    for label, change in possible:
        if label not in made:
            continue
        for path, fields in change.items():
            await stored.put(path, fields)
        new = [fault for fault in await faults() if fault.identity not in baseline]
        if new:
            found[label] |= {fault.code for fault in new}
        else:
            undetected.add(label)
        for path in change:
            await stored.put(path, dict(documents[path].fields) if path in documents else None)
    assert {fault.identity for fault in await faults()} == baseline, "all is as it was"
    return made, undetected, found


def _is_leaving(path: str, documents: Mapping[str, Any]) -> bool:
    """Return whether a note of a deletion, a fork or a restore names a part."""
    part = re.fullmatch(r"(.+)/adk_(?:segments|chunks)/([^/-]+)(?:-[0-9a-f]{64})?-([0-9]+)", path)
    if part is None:
        return False
    owner, epoch, number = part.groups()
    for note, document in documents.items():
        fields = document.fields
        if not note.startswith(f"{owner}/") or fields.get("epoch") != epoch:
            continue
        if "/adk_deletions/" in note or any(
            run["from"] <= int(number) <= run["to"] for run in fields.get("segments", [])
        ):
            return True
    return False


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CORPUS)
async def test_each_mutation_is_found_or_harmless(name: str) -> None:
    """The list is exact: a mutation on it that is found fails, too."""
    made, undetected, found = await undetected_of(name)

    assert undetected == made & set(HARMLESS[name])
    page = (ROOT / "docs/fsck.md").read_text()
    listed = set(re.findall(r"^\| (FSCK[0-9]{3}) \|", page, re.MULTILINE))
    assert {code for codes in found.values() for code in codes} <= listed
