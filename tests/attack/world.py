"""What somebody attacks: sessions with anchors, earlier proofs and backups, and raw access to documents."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.genai import types

from gcp_adk_store import KmsEnvelope, LocalKeyWrapper, SessionLimits, Store, StoreError
from gcp_adk_store.codec.packing import pack_segment, unpack_segment
from gcp_adk_store.model.appends import digests_of, fold, genesis
from gcp_adk_store.testing.conformance.running import read
from tests.support.stored import overwrite, plain_text

LIMITS = SessionLimits(seal_tail_bytes=1000, inline_bytes=200, segment_cache_bytes=0)
ADA: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s"}
BOB: dict[str, Any] = {"app_name": "app", "user_id": "bob", "session_id": "b"}
REDACTED: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "r"}
FORK: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "f"}
EVERYBODY = (ADA, BOB, REDACTED, FORK)
ANCHORED = 9
"""The first events of each session that an anchor proves."""
EVENTS = 14
PICTURE = 14
PICTURE_BYTES = b"picture" * 60

Who = dict[str, Any]
Fields = dict[str, Any]
Raw = dict[str, Fields]
"""The document of a session and its segments, by their paths."""


def said(number: int, by: str) -> Event:
    """Return the event of a number; one of them has a picture, which is stored apart."""
    parts = [types.Part(text=f"event {number} of {by} {'x' * 120}")]
    if number == PICTURE:
        parts.append(types.Part.from_bytes(data=PICTURE_BYTES, mime_type="image/png"))
    return Event(
        id=f"e{number}",
        invocation_id=f"t{number}",
        author="user",
        timestamp=1000.0 + number,
        content=types.Content(role="user", parts=parts),
        actions={"state_delta": {"number": number}},  # type: ignore[arg-type]
    )


def path_of(who: Who) -> str:
    """Return the path of a session's document."""
    user, session = who["user_id"], who["session_id"]
    return f"adk_apps/app/adk_users/{user}/adk_sessions/{session}"


@dataclass
class World:
    """A folder with a store, and one with its anchors."""

    folder: Path
    proofs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Arguments of an earlier proof, by the paths of sessions."""
    backups: dict[str, list[Raw]] = field(default_factory=dict)
    """Copies of sessions: from before the anchor, and from after it."""
    is_encrypted: bool = False

    @property
    def anchors(self) -> str:
        """The folder of anchors."""
        return f"{self.folder / 'anchors'}"

    def open(self) -> Store:
        """Return the store, as another process opens it."""
        key = KmsEnvelope(key=LocalKeyWrapper(b"k" * 32)) if self.is_encrypted else None
        options: Any = {"encryption": key} if key else {}
        return Store.local(self.folder / "store", session_limits=LIMITS, **options)

    def copied(self, folder: Path) -> "World":
        """Return the same in another folder."""
        shutil.copytree(self.folder, folder)
        return World(folder, self.proofs, self.backups, self.is_encrypted)

    # What somebody does who writes the database.

    async def raw(self, who: Who = ADA) -> Raw:
        """Return the documents of a session: its own first, then its segments in their order."""
        async with Store.local(self.folder / "store") as store:
            documents, path = store.sessions.storage.documents, path_of(who)
            (session,) = await documents.get([path])
            segments = await documents.query(path, "adk_segments")
        assert session is not None
        in_order = sorted(segments, key=lambda each: int(each.path.rpartition("-")[2]))
        return {path: dict(session.fields), **{each.path: dict(each.fields) for each in in_order}}

    async def put(self, documents: Mapping[str, Fields | None]) -> None:
        """Replace documents; ``None`` removes one."""
        async with Store.local(self.folder / "store") as store:
            await overwrite(store.sessions.storage.documents, documents)

    async def put_anchor(self, name: str) -> None:
        """Write an anchor of this name."""
        async with self.open() as store, store._beside.bucket(self.anchors) as objects:
            await objects.create(name, plain_text(b"{}", content_type="application/json"))

    async def alter(self, who: Who = ADA, /, **fields: Any) -> None:
        """Set fields of a session's document; ``...`` removes one."""
        path = path_of(who)
        now = {**(await self.raw(who))[path], **fields}
        await self.put({path: {name: value for name, value in now.items() if value is not ...}})

    async def edit(self, change: Callable[[list[str]], list[str]], who: Who = ADA, *, more: int = 0) -> None:
        """Change the texts of the tail, with its digests and its size; raise ``rev`` by *more*."""
        now = (await self.raw(who))[path_of(who)]
        texts = change(list(now["tail"]))
        size = sum(len(text.encode()) for text in texts)
        await self.alter(
            who, tail=texts, digests=digests_of(texts), tail_bytes=size, rev=int(now["rev"]) + more
        )

    async def edit_segment(
        self, change: Callable[[list[str]], list[str]], who: Who = ADA, *, number: int = 1, more: int = 0
    ) -> None:
        """Change the texts of a segment, with its digests and its count; raise ``rev`` by *more*."""
        documents = await self.raw(who)
        path, fields = [*documents.items()][number + 1]
        texts = change(unpack_segment(fields["body"]))
        changed = {"body": pack_segment(texts), "count": len(texts), "digests": b"".join(digests_of(texts))}
        await self.put({path: {**fields, **changed}})
        if more:
            await self.alter(who, rev=int(documents[path_of(who)]["rev"]) + more)

    # What the victim sees.

    async def outcome(self, who: Who = ADA) -> set[str]:
        """Return who names what was done: a read, verify, with anchors, with an earlier proof, fsck."""
        named = set()
        async with self.open() as store:

            async def verify(**options: Any) -> bool:
                try:
                    proof = await store.verify_session(**who, **options)
                except StoreError:
                    return True
                return proof.broken is not None or proof.anchors == 0

            if await verify():
                named.add("verify")
            if await verify(anchors=self.anchors):
                named.add("anchors")
            if await verify(**self.proofs[path_of(who)]):
                named.add("proof")
            if [fault async for fault in store.check(full=True)]:
                named.add("fsck")
            try:
                if await store.sessions.get_session(**who) is None:
                    named.add("read")
            except StoreError:
                named.add("read")
        return named


async def made(folder: Path, *, is_encrypted: bool = False) -> World:
    """Make the world in *folder*."""
    world = World(folder, is_encrypted=is_encrypted)
    async with world.open() as store:
        for who in (ADA, BOB, REDACTED):
            session = await store.sessions.create_session(**who, state={"first": "value"})
            for number in range(ANCHORED):
                await store.sessions.append_event(session, said(number, who["user_id"]))
                if who is ADA and number in (4, ANCHORED - 1):
                    world.backups.setdefault(path_of(who), []).append(await world.raw(who))
        await store.sessions.update_session_info(**ADA, title="A trip", labels={"team": "x"})
        await store.redact_event(**REDACTED, event_id="e1", reason="ticket 7")
        await store.fork_session(**REDACTED, to_session_id="f")
        await store.anchor(app_name="app", anchors=world.anchors)
        for who in EVERYBODY:
            session_now = await read(store.sessions, who)
            more = 0 if who in (ADA, BOB) else 1  # so that each has a tail
            for number in range(ANCHORED, EVENTS + more):
                await store.sessions.append_event(session_now, said(number, who["user_id"]))
                if who is ADA and number == EVENTS - 2:
                    world.backups[path_of(who)].append(await world.raw(who))
            proof = await store.verify_session(**who)
            assert proof.broken is None
            world.proofs[path_of(who)] = {"known_events": proof.events, "known_head": proof.head}
    return world


def written_anew(documents: Raw, **fields: Any) -> Raw:
    """Return the documents of a session with a chain that fits their texts, as a forger makes it."""
    (path, session), *segments = documents.items()
    session = {**session, **fields}
    head = genesis(session["epoch"])
    count, forged = 0, {}
    for segment, old in segments:
        texts = unpack_segment(old["body"])
        end = fold(head, texts)
        forged[segment] = {**old, "chain_begin": head, "chain_end": end, "count": len(texts)}
        forged[segment]["digests"] = b"".join(digests_of(texts))
        head, count = end, count + len(texts)
    tail = list(session["tail"])
    session |= {
        "chain_sealed": head,
        "chain": fold(head, tail),
        "digests": digests_of(tail),
        "tail_bytes": sum(len(text.encode()) for text in tail),
        "rev": count + len(tail),
    }
    return {path: session, **forged}


def moved(documents: Raw, to: Who, *, epoch: str = "") -> Raw:
    """Return the documents of a session as those of another one."""
    (path, session), *segments = documents.items()
    now = path_of(to)
    ids = {"app": to["app_name"], "user": to["user_id"], "id": to["session_id"]}
    session = {**session, **ids, "epoch": epoch or session["epoch"]}
    renamed = {}
    for old, fields in segments:
        name = old.removeprefix(path)
        if epoch:
            name = f"/adk_segments/{epoch}-{old.rpartition('-')[2]}"
        renamed[f"{now}{name}"] = fields
    return {now: session, **renamed}
