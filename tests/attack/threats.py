"""What attackers hold and do, and who names it: the rows of the table in docs/erasure.md, each as code."""

import hashlib
import json
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.genai import types

from gcp_adk_store import Point
from gcp_adk_store.codec.decode import decode_event
from gcp_adk_store.codec.markers import hash_of_marker
from gcp_adk_store.codec.packing import pack_segment, unpack_segment
from gcp_adk_store.codec.redactions import Replaced, audit_of
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.codec.writes import update
from gcp_adk_store.model.appends import digests_of, hash_of
from gcp_adk_store.sessions.redact.format import marker_of
from gcp_adk_store.testing.conformance.running import read
from tests.attack.world import (
    ADA,
    BOB,
    FORK,
    LIMITS,
    PICTURE_BYTES,
    REDACTED,
    Raw,
    Who,
    World,
    moved,
    path_of,
    said,
    written_anew,
)

DATABASE: Final = "the database"
KEYLESS: Final = "an encrypted database, no keys"
KEYS: Final = "an encrypted database, and the keys"
BACKUP: Final = "the database, and a backup"
BUCKET: Final = "the anchors' bucket"

EVERYBODY: Final = frozenset({"verify", "anchors", "proof", "fsck"})
CHAIN: Final = EVERYBODY
READ: Final = EVERYBODY | {"read"}
KEPT: Final = frozenset({"anchors", "proof"})
ANCHORS: Final = frozenset({"anchors"})
PROOF: Final = frozenset({"proof"})
NOBODY: Final = frozenset[str]()
FSCK: Final = frozenset({"fsck"})


@dataclass(frozen=True)
class Threat:
    """One row of the table."""

    holds: str
    does: str
    attack: Callable[[World], Awaitable[None]]
    named: frozenset[str]
    """Who names it: ``verify``, with ``anchors``, with an earlier ``proof``, ``fsck``, and a ``read``."""
    of: Who
    """The session that is looked at."""


THREATS: Final[list[Threat]] = []


Attack = Callable[[World], Awaitable[None]]


def row(does: str, named: frozenset[str], attack: Attack, *, holds: str = DATABASE, of: Who = ADA) -> None:
    """Add the next row."""
    THREATS.append(Threat(holds, does, attack, named, of))


def threat(does: str, named: frozenset[str], **given: Any) -> Callable[[Attack], None]:
    """Let a function be the attack of the next row."""
    return lambda attack: row(does, named, attack, **given)


def forged(texts: list[str], place: int = 0) -> list[str]:
    """Return *texts* with another word in one of them."""
    return [text.replace("event", "forged") if at == place else text for at, text in enumerate(texts)]


def swapped(texts: list[str]) -> list[str]:
    """Return *texts* with the first two exchanged."""
    return [texts[1], texts[0], *texts[2:]]


Texts = Callable[[list[str]], list[str]]


def tail(change: Texts, *, more: int = 0) -> Attack:
    """Return what changes the texts of the tail, with their digests, and raises ``rev`` by *more*."""
    return lambda world: world.edit(change, more=more)


def segment(change: Texts, *, more: int = 0) -> Attack:
    """Return what changes those of a segment so."""
    return lambda world: world.edit_segment(change, more=more)


def sets(who: Who = ADA, /, **changed: Any) -> Attack:
    """Return what sets fields of a session's document."""
    return lambda world: world.alter(who, **changed)


# Events


row("changes an event of the tail, with its digest", CHAIN, tail(forged))
row("changes an event of a segment, with its digest", CHAIN, segment(forged))


for _more in (1, 2, 5, 50):
    row(
        f"changes an event of the tail, and raises `rev` by {_more}, as if others came again",
        CHAIN,
        tail(forged, more=_more),
    )
    row(f"changes an event of a segment, and raises `rev` by {_more}", CHAIN, segment(forged, more=_more))


row("drops the last event", CHAIN, tail(lambda texts: texts[:-1]))
row("drops the last event, and lowers `rev` by 1", READ, tail(lambda texts: texts[:-1], more=-1))
row("drops an event of a segment, and lowers `rev` by 1", READ, segment(lambda texts: texts[1:], more=-1))
row("swaps two events of the tail, with their digests", CHAIN, tail(swapped))
row("swaps two events of a segment, with their digests", CHAIN, segment(swapped))
row(
    "adds an event to the tail, and raises `rev`",
    CHAIN,
    tail(lambda texts: [*texts, *forged(texts[:1])], more=1),
)
row("doubles an event, and raises `rev`", CHAIN, tail(lambda texts: [*texts, texts[-1]], more=1))
row("raises `rev` alone", CHAIN, tail(list, more=2))
row("empties the tail, and keeps the head", READ, tail(lambda _: []))
row("replaces the head of the chain", CHAIN, sets(chain=bytes(32)))


@threat("swaps the digests of two events", FSCK)
async def _(world: World) -> None:
    digests = (await world.raw())[path_of(ADA)]["digests"]
    await world.alter(digests=[*reversed(digests)])


@threat("replaces the content that an event keeps apart", FSCK | {"read"}, of=FORK)
async def _(world: World) -> None:
    for path in (world.folder / "store").rglob("*"):
        if path.is_file() and path.read_bytes() == PICTURE_BYTES:
            path.chmod(0o600)
            path.write_bytes(PICTURE_BYTES.replace(b"picture", b"forgery"))


# Segments


@threat("removes a segment", READ)
async def _(world: World) -> None:
    _, _, path, *_ = await world.raw()
    await world.put({path: None})


@threat("exchanges two segments", CHAIN)
async def _(world: World) -> None:
    documents = await world.raw()
    one, other = [*documents][2:4]
    await world.put({one: documents[other], other: documents[one]})


@threat("puts the segment of another session there", CHAIN)
async def _(world: World) -> None:
    path, theirs = [*await world.raw()][2], [*(await world.raw(BOB)).values()][2]
    await world.put({path: theirs})


@threat("puts the segment of an earlier session of the same id there", CHAIN)
async def _(world: World) -> None:
    earlier = written_anew(moved(await world.raw(), ADA, epoch="earlier"))
    path = [*await world.raw()][2]
    await world.put({path: [*earlier.values()][2]})


@threat("gives a segment an older format, without heads", READ)
async def _(world: World) -> None:
    documents = await world.raw()
    path, fields = [*documents.items()][2]
    plain = {name: value for name, value in fields.items() if not name.startswith(("chain", "digests"))}
    await world.put({path: {**plain, "format": 1}})


row("names a segment in `cut`", CHAIN, sets(cut=[{"from": 1, "to": 1}], restores=1, restore_id="0" * 32))
row(
    "names a segment in `cut`, and lowers `rev` by its events",
    READ,
    sets(cut=[{"from": 1, "to": 1}], restores=1, restore_id="0" * 32, rev=11),
)
row("lowers `sealed`, which hides the last segment", READ, sets(sealed=3))
row("raises `sealed`", READ, sets(sealed=5))


# The whole history


def without_end(count: int) -> Attack:
    """Return what writes what a restore writes that takes so many of the last events."""

    async def cut(world: World) -> None:
        documents = await world.raw()
        (path, session), *segments = documents.items()
        assert count <= len(session["tail"]) or count == len(session["tail"]) + 6
        tail = list(session["tail"])[: max(0, len(session["tail"]) - count)]
        if count > len(session["tail"]):
            segments = segments[:-2]
        changed: dict[str, Any] = {
            "tail": tail,
            "cut": [{"from": len(segments), "to": session["sealed"]}],
            "sealed": session["sealed"] + 1,
            "sealed_max": segments[-1][1]["running_max"],
            "restores": 1,
            "restore_id": "0" * 32,
        }
        changed |= await _following(tail, segments)
        gone = {each: None for each in documents if each not in {path, *(name for name, _ in segments)}}
        await world.put({**written_anew({path: {**session, **changed}, **dict(segments)}), **gone})

    return cut


async def _following(tail: list[str], segments: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return the fields of a session that follow from its events, but for its chain."""
    texts = [text for _, fields in segments for text in unpack_segment(fields["body"])] + tail
    last = json.loads(texts[-1])
    return {
        "last_update_time": last["timestamp"],
        "state": {"first": "value", "number": last["actions"]["state_delta"]["number"]},
        "turns": len(texts),
        "last_turn": _turn(last["invocation_id"]),
        "last_text": last["content"]["parts"][0]["text"],
    }


def _turn(invocation_id: str) -> str:
    return hashlib.sha256(invocation_id.encode()).hexdigest()[:16]


row("forges a restore that takes events which no anchor proves", PROOF, without_end(2))
row("forges a restore that takes anchored events", KEPT, without_end(8))


@threat("writes the whole history anew, with its chain", KEPT)
async def _(world: World) -> None:
    documents = await world.raw()
    path = path_of(ADA)
    for segment, fields in [*documents.items()][1:]:
        texts = [text.replace("event", "other") for text in unpack_segment(fields["body"])]
        documents[segment] = {**fields, "body": pack_segment(texts)}
    tail = [text.replace("event", "other") for text in documents[path]["tail"]]
    last = documents[path]["last_text"].replace("event", "other")
    await world.put(written_anew(documents, tail=tail, last_text=last))


@threat("changes an event that no anchor proves, with the chain behind it", PROOF)
async def _(world: World) -> None:
    documents = await world.raw()
    path = path_of(ADA)
    tail = forged(documents[path]["tail"])
    await world.put(written_anew(documents, tail=tail))


@threat("appends an event, as any writer does", NOBODY)
async def _(world: World) -> None:
    async with world.open() as store:
        session = await read(store.sessions, ADA)
        await store.sessions.append_event(session, said(99, "mallory"))


@threat("exchanges the sessions of two users", KEPT)
async def _(world: World) -> None:
    mine, theirs = await world.raw(), await world.raw(BOB)
    await world.put({**dict.fromkeys([*mine, *theirs]), **moved(mine, BOB), **moved(theirs, ADA)})


@threat("copies a session to another user", ANCHORS, of=ADA | {"user_id": "eve"})
async def _(world: World) -> None:
    eve = ADA | {"user_id": "eve"}
    await world.put({**moved(await world.raw(), eve)})
    world.proofs[path_of(eve)] = world.proofs[path_of(ADA)]


@threat("gives a session another id", ANCHORS, of=ADA | {"session_id": "renamed"})
async def _(world: World) -> None:
    renamed = ADA | {"session_id": "renamed"}
    await world.put({**dict.fromkeys(await world.raw()), **moved(await world.raw(), renamed)})
    world.proofs[path_of(renamed)] = world.proofs[path_of(ADA)]


@threat("makes a new session with the events, under a new epoch", KEPT)
async def _(world: World) -> None:
    documents = await world.raw()
    gone = dict.fromkeys(documents)
    await world.put({**gone, **written_anew(moved(documents, ADA, epoch="forged"))})


@threat("gives the session an older format, which had no chain", READ)
async def _(world: World) -> None:
    later = ("chain", "digests", "initial", "turns", "last_t", "redact")
    documents: Raw = {}
    for path, fields in (await world.raw()).items():
        old = {name: value for name, value in fields.items() if not name.startswith(later)}
        documents[path] = {**old, "format": 1}
    await world.put(documents)


@threat("deletes the session", READ - {"fsck"})
async def _(world: World) -> None:
    async with world.open() as store:
        await store.sessions.delete_session(**ADA)


row("lets the session expire", READ - {"fsck"}, sets(ttl_s=0, expire_at=datetime.fromtimestamp(1000, UTC)))


@threat("puts a copy from before the newest anchor back", KEPT, holds=BACKUP)
async def _(world: World) -> None:
    gone = dict.fromkeys(await world.raw())
    await world.put({**gone, **world.backups[path_of(ADA)][0]})


@threat("puts a copy from after the newest anchor back", PROOF, holds=BACKUP)
async def _(world: World) -> None:
    gone = dict.fromkeys(await world.raw())
    await world.put({**gone, **world.backups[path_of(ADA)][2]})


# Redactions


async def _marked(world: World, *, words: str = "", audit: bool = True) -> None:
    """Put a marker in place of an anchored event, and append the event that reports a redaction."""
    documents = await world.raw()
    path = path_of(ADA)
    segment, fields = [*documents.items()][2]
    texts = unpack_segment(fields["body"])
    event = decode_event(texts[1]).event
    marker = marker_of(texts[1], event, [], reason="none", time=1.0, limits=LIMITS)
    if words:
        marker = marker.replace("[this event was redacted]", words)
    documents[segment] = {**fields, "body": pack_segment([texts[0], marker, *texts[2:]])}
    if audit:
        replaced = Replaced(4, hash_of(texts[1]).hex(), hash_of_marker(marker))
        redaction = audit_of(
            event.id, [replaced], audit_id="audit", reason="none", time=1.0, state={}, limits=LIMITS
        )
        session = documents[path]
        documents = written_anew(
            documents, tail=[*session["tail"], redaction.text], last_update_time=1.0, redactions=1
        )
    await world.put(documents)


row("puts a marker in place of an event", CHAIN, lambda world: _marked(world, audit=False))
row(
    "puts a marker with own words in place of an event, and appends an event that reports it",
    READ,
    lambda world: _marked(world, words="I CONFESS"),
)
row("redacts an event: a marker, and an event that reports it, which no anchor proves", NOBODY, _marked)


def marks(change: Texts) -> Attack:
    """Return what changes the texts of the segment that has a marker."""

    async def alter(world: World) -> None:
        documents = await world.raw(REDACTED)
        segment, fields = [*documents.items()][1]
        await world.put({segment: {**fields, "body": pack_segment(change(unpack_segment(fields["body"])))}})

    return alter


row(
    "gives a marker other words",
    READ,
    marks(lambda texts: [text.replace("this event", "my word") for text in texts]),
    of=REDACTED,
)
row(
    "gives a marker another author",
    CHAIN,
    marks(lambda texts: [texts[0], texts[1].replace('"author":"user"', '"author":"boss"'), texts[2]]),
    of=REDACTED,
)
row(
    "gives a redaction another reason",
    CHAIN,
    marks(lambda texts: [text.replace("ticket 7", "ticket 8") for text in texts]),
    of=REDACTED,
)


@threat("changes what a marker kept, and appends another event that reports it", CHAIN, of=REDACTED)
async def _(world: World) -> None:
    await marks(lambda texts: [text.replace('"e1"', '"e1-forged"') for text in texts])(world)
    documents = await world.raw(REDACTED)
    marker = unpack_segment([*documents.values()][1]["body"])[1]
    for sha256 in (hash_of_marker(marker), None):
        replaced = Replaced(1, hash_of(marker).hex(), sha256)
        redaction = audit_of("e1", [replaced], audit_id="a", reason="none", time=1.0, state={}, limits=LIMITS)
        tail = [*documents[path_of(REDACTED)]["tail"], redaction.text]
        documents = written_anew(documents, tail=tail, last_update_time=1.0)
    await world.put(documents)


row(
    "adds metadata to a marker",
    READ,
    marks(
        lambda texts: [text.replace('"custom_metadata":{', '"custom_metadata":{"a":"b",') for text in texts]
    ),
    of=REDACTED,
)
row(
    "moves a marker to another event", CHAIN, marks(lambda texts: [texts[0], texts[2], texts[1]]), of=REDACTED
)


@threat("puts a second marker, for which another event's redaction is to count", CHAIN, of=REDACTED)
async def _(world: World) -> None:
    def twice(texts: list[str]) -> list[str]:
        sha256 = hash_of(texts[2]).hex()
        return [texts[0], texts[1], texts[1].replace(hash_of(texts[1]).hex(), sha256)]

    await marks(twice)(world)


@threat("drops the event that reports a redaction, with the chain behind it", EVERYBODY, of=REDACTED)
async def _(world: World) -> None:
    documents = await world.raw(REDACTED)
    segment, fields = [*documents.items()][4]
    texts = [text for text in unpack_segment(fields["body"]) if '"adk_store_redaction"' not in text]
    documents[segment] = {**fields, "body": pack_segment(texts)}
    await world.put(written_anew(documents))


@threat("takes the event that reports another session's redaction for its own", EVERYBODY)
async def _(world: World) -> None:
    await _marked(world, audit=False)
    documents = await world.raw()
    event = next(
        text
        for fields in [*(await world.raw(REDACTED)).values()][1:]
        for text in unpack_segment(fields["body"])
        if '"adk_store_redaction"' in text
    )
    session = documents[path_of(ADA)]
    await world.put(written_anew(documents, tail=[*session["tail"], event]))


@threat("drops it, and says that the session was restored", EVERYBODY, of=REDACTED)
async def _(world: World) -> None:
    documents = await world.raw(REDACTED)
    segment, fields = [*documents.items()][4]
    texts = [text for text in unpack_segment(fields["body"]) if '"adk_store_redaction"' not in text]
    documents[segment] = {**fields, "body": pack_segment(texts)}
    session = documents[path_of(REDACTED)]
    cut = {
        "restores": 1,
        "restore_id": "0" * 32,
        "cut": [{"from": session["sealed"], "to": session["sealed"]}],
    }
    await world.put(written_anew(documents, **cut, sealed=session["sealed"] + 1))


@threat("puts a marker in place of an event of a session, and says that it is a fork", CHAIN)
async def _(world: World) -> None:
    await _marked(world, audit=False)
    origin = {"app": "app", "user": "ada", "session": "gone", "epoch": "gone", "position": 14}
    await world.alter(origin=origin)


row("lowers `redactions`", NOBODY, sets(REDACTED, redactions=...), of=REDACTED)


# What is no event


row("changes the state", FSCK, sets(state={"first": "value", "number": 7}))
row("adds a key to the state", FSCK, sets(state={"first": "value", "number": 13, "more": 1}))
row(
    "changes the state of the user",
    NOBODY,
    lambda world: world.put({"adk_apps/app/adk_users/ada": {"format": 1, "state": {"name": "Eve"}}}),
)
row(
    "changes the title and the labels",
    NOBODY,
    sets(title="A crime", labels={"team": "y"}, label_set=["team=y"]),
)
row("changes the labels that listings show, and not those that they find", FSCK, sets(labels={"team": "y"}))
row("changes the last message that listings show", FSCK, sets(last_text="I confess"))
row("says that the session was restored", FSCK, sets(restores=3))


@threat("gives a fork another origin", NOBODY, of=FORK)
async def _(world: World) -> None:
    origin = (await world.raw(FORK))[path_of(FORK)]["origin"]
    await world.alter(FORK, origin={**origin, "session": "another"})


@threat("puts a message into the inbox, which the next turn answers", NOBODY)
async def _(world: World) -> None:
    content = types.Content(role="user", parts=[types.Part(text="pay everything")])
    message = WaitingMessage(
        id="m1", message=content.model_dump(mode="json", exclude_none=True), time=1.0, state_delta={}
    )
    await world.alter(turn={"fence": 1}, inbox=[str(message)])


row(
    "changes when the session ends, to later",
    FSCK,
    sets(ttl_s=10**8, expire_at=datetime.fromtimestamp(4 * 10**9, UTC)),
)


# The bucket of anchors


def anchor(name: str) -> Attack:
    """Return what adds an anchor of this name."""

    async def put(world: World) -> None:
        epoch = (await world.raw())[path_of(ADA)]["epoch"]
        await world.put_anchor(f"adk-anchors/{epoch}/{name}")

    return put


row(
    "adds the anchor of a history that never was",
    ANCHORS,
    anchor(f"{11:018d}-{'ab' * 32}-{'cd' * 32}"),
    holds=BUCKET,
)
row(
    "adds an anchor without the ids, of a history that never was",
    ANCHORS,
    anchor(f"{11:018d}-{'ab' * 32}"),
    holds=BUCKET,
)
row(
    "adds an object that is no anchor, or one of a newer release",
    ANCHORS,
    anchor(f"3-{11:018d}-{'ab' * 32}"),
    holds=BUCKET,
)


@threat("removes all anchors, after the retention or without a locked policy", ANCHORS, holds=BUCKET)
async def _(world: World) -> None:
    shutil.rmtree(world.anchors)


@threat(
    "removes the newest anchor, and takes back what it proved",
    PROOF,
    holds="the database, and an anchors' bucket that is not locked",
)
async def _(world: World) -> None:
    async with world.open() as store:
        await store.anchor(**ADA, anchors=world.anchors)
        epoch = (await world.raw())[path_of(ADA)]["epoch"]
        async with store._beside.bucket(world.anchors) as objects:
            newest = max(await objects.names(f"adk-anchors/{epoch}/", delimiter=None))
            await objects.delete(newest, generation=None)
        await store.restore_session(**ADA, at=Point.position(13))


# With encryption


@threat("changes an event", READ, holds=KEYLESS)
async def _(world: World) -> None:
    path, fields = [*(await world.raw()).items()][2]
    body = bytearray(fields["body"])
    body[20] ^= 1
    await world.put({path: {**fields, "body": bytes(body)}})


@threat("exchanges two segments", READ, holds=KEYLESS)
async def _(world: World) -> None:
    documents = await world.raw()
    one, other = [*documents][2:4]
    await world.put({one: documents[other], other: documents[one]})


@threat("drops the last event", READ, holds=KEYLESS)
async def _(world: World) -> None:
    tail = (await world.raw())[path_of(ADA)]["tail"]
    await world.alter(tail=list(tail)[:-1], rev=13)


@threat("cuts off the tail, with the head of the last segment", PROOF | FSCK, holds=KEYLESS)
async def _(world: World) -> None:
    session = (await world.raw())[path_of(ADA)]
    fields = {"turns": 12, "last_turn": _turn("t11"), "last_update_time": 1011.0}
    await world.alter(tail=[], digests=[], tail_bytes=0, rev=12, chain=session["chain_sealed"], **fields)


@threat("puts a copy from before the newest anchor back", KEPT, holds=KEYLESS)
async def _(world: World) -> None:
    gone = dict.fromkeys(await world.raw())
    await world.put({**gone, **world.backups[path_of(ADA)][0]})


@threat("changes an event of the tail, with its digest", CHAIN, holds=KEYS)
async def _(world: World) -> None:
    async with world.open() as store:
        documents = store.sessions.storage.documents
        (session,) = await documents.get([path_of(ADA)])
        assert session is not None
        tail = forged(list(session.fields["tail"]))  # type: ignore[arg-type]
        fields: Any = {"tail": tail, "digests": digests_of(tail)}
        life = str(session.fields["epoch"])
        await documents.commit([update(session.path, fields, must=session.update_time, life=life)])
