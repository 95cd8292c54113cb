"""A store of its own for every case, and what it holds, read past the library."""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from functools import reduce
from typing import Any, TypeVar

from gcp_adk_store import (
    ArtifactLimits,
    ArtifactService,
    GarbageKind,
    MemoryService,
    SessionLimits,
    SessionService,
    Store,
)
from gcp_adk_store.kernel.ports import Embedder
from gcp_adk_store.kernel.process import Closing
from gcp_adk_store.tasks import PushNotificationConfigStore, TaskStore

DAY_S = 24 * 3600
NOW = 4_000_000_000.0

Tasks = TypeVar("Tasks", TaskStore, PushNotificationConfigStore)

Holdings = dict[str, Any]
"""What a store holds in the end: paths and names with what they mean."""


class World:
    """The store of one case, which no other case has seen."""

    def __init__(self, now: float = NOW) -> None:
        self.may_miss_others = False
        """Whether something failed so that what others wrote may be unread."""
        self.now = now
        """The time at which everything happens."""
        self._opened: list[Closing] = []

    def sessions(self, *, bucket: bool = False, acting: bool = False, **options: Any) -> SessionService:
        """Return a session service that knows nothing yet; faults meet one that is *acting*."""
        limits = SessionLimits(**{"inline_bytes": 100, "state_value_bytes": 100, **options.pop("limits", {})})
        service = self._open_sessions(limits, bucket=bucket, acting=acting, options=options)
        self._opened.append(service)
        return service

    def memories(
        self, *, bucket: bool = False, acting: bool = False, embedder: Embedder | None = None
    ) -> MemoryService:
        """Return a memory service that knows nothing yet."""
        storage = self.sessions(bucket=bucket, acting=acting).storage
        return MemoryService(storage, embedder=embedder)

    def artifacts(self, *, acting: bool = False) -> ArtifactService:
        """Return an artifact service that knows nothing yet; see :meth:`sessions`."""
        service = self._open_artifacts(ArtifactLimits(), acting=acting)
        self._opened.append(service)
        return service

    def tasks(self, kind: type[Tasks], *, acting: bool = False) -> Tasks:
        """Return a store of A2A tasks or of their configs that knows nothing yet; see :meth:`sessions`."""
        store = self._open_tasks(kind, SessionLimits(), acting=acting)
        self._opened.append(store)
        return store

    async def put_upload(self, name: str) -> None:
        """Put what a browser does."""
        raise NotImplementedError

    def _open_sessions(
        self, limits: SessionLimits, *, bucket: bool, acting: bool, options: dict[str, Any]
    ) -> SessionService:
        raise NotImplementedError

    def _open_artifacts(self, limits: ArtifactLimits, *, acting: bool) -> ArtifactService:
        raise NotImplementedError

    def _open_tasks(self, kind: type[Tasks], limits: SessionLimits, *, acting: bool) -> Tasks:
        raise NotImplementedError

    async def settle(self) -> None:
        """Wait for what services still do for callers that are gone, and close them."""
        for service in self._opened:
            await service.close()
        self._opened.clear()

    async def collect(self, *, uploads: bool = True) -> None:
        """Remove all garbage, in two days, but not *uploads* that may still be finalized."""
        now, self.now = self.now, NOW + 2 * DAY_S
        store = Store(sessions=self.sessions(bucket=True), artifacts=self.artifacts())
        async for garbage in store.find_garbage():
            if uploads or garbage.kind is not GarbageKind.UPLOAD:
                assert await store.remove_garbage(garbage), garbage
        self.now = now

    async def holdings(self) -> Holdings:
        """Return what the store holds."""
        raise NotImplementedError


_DRAWN_ID = re.compile(r'"id":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"')
_INITIAL = ("initial", "initial_payload")


def _chained(head: bytes, text: str) -> bytes:
    replaced = json.loads(text).get("adk_store_redacted")
    hashed = bytes.fromhex(replaced["sha256"]) if replaced else hashlib.sha256(text.encode()).digest()
    return hashlib.sha256(head + hashed).digest()


def meaning(documents: dict[str, dict[str, Any]], payloads: Mapping[str, bytes] | None = None) -> Holdings:
    """Return documents without what says nothing of content: where events lie, when parts were written.

    *payloads* of the bucket, by their SHA-256, have archived events.
    """
    # Of erasures: a random key, and what an interrupted one did.
    documents = {path: fields for path, fields in documents.items() if not path.startswith("adk_erasures/")}
    meant = {path: dict(fields) for path, fields in documents.items()}
    for path, fields in documents.items():
        if path.endswith("/adk_memories/head"):
            _gather_memories(path, fields, meant)
            continue
        if "tail" not in fields:
            continue
        texts: list[str] = []
        cut = {number for run in fields.get("cut", []) for number in range(run["from"], run["to"] + 1)}
        for number in sorted({*range(fields["sealed"])} - cut):
            segment = meant.pop(f"{path}/adk_segments/{fields['epoch']}-{number}")
            texts += _texts_of(segment, payloads or {})
            meant[path].update({name: segment[name] for name in _INITIAL if name in segment})
        if "restore_id" in fields:
            meant[path]["restore_id"] = "drawn"
        meant[path]["events"] = [*texts, *fields["tail"]]
        # The chain is that of these events, of this life and these times.
        begun = hashlib.sha256(b"gcp-adk-store/2\0" + fields["epoch"].encode()).digest()
        meant[path]["chain"] = fields["chain"] == reduce(_chained, meant[path]["events"], begun)
        derived = ("tail", "digests", "tail_bytes", "sealed", "sealed_max", "parts_expire_at", "chain_sealed")
        for name in (*derived, "cut"):
            meant[path].pop(name, None)
    for path, fields in meant.items():
        fields.pop("put_time", None)
        if "/adk_owners/" in f"/{path}":
            fields.pop("save", None)
        if "/adk_segments/" in path or "/adk_chunks/" in path:
            fields.pop("expire_at", None)
    return meant


def _texts_of(segment: dict[str, Any], payloads: Mapping[str, bytes]) -> list[str]:
    if "body" not in segment:
        return payloads[segment["archive"]["sha256"]].decode().splitlines()
    texts: list[str] = json.loads(zlib.decompress(segment["body"]))
    return texts


def _gather_memories(path: str, fields: dict[str, Any], meant: dict[str, dict[str, Any]]) -> None:
    """Put the texts of all shards into the head at *path*, without what says where they lie."""
    lines: list[str] = []
    for shard in fields["shards"]:
        body = meant.pop(f"{path}/adk_shards/{fields['epoch']}-{shard['n']}")["body"]
        lines += zlib.decompress(body).decode().split("\n")
    lines += [line for text in fields["tail"] for line in text.split("\n")]
    heads = [json.loads(line) for line in lines[::2]]
    rows = [*fields.get("fresh", [])]
    size = 8 + fields.get("dimensions", 0)
    for part in fields.get("vectors", []):
        body = meant.pop(f"{path}/adk_vectors/{fields['epoch']}-{part['n']}")["body"]
        rows += [body[at : at + size] for at in range(0, len(body), size)]
    texts = [f"{lines[at]}\n{lines[at + 1]}" for at in range(0, len(lines) - 1, 2)]
    ids = {
        hashlib.blake2b(text.encode(), digest_size=8).digest(): json.loads(text.split("\n")[0])["id"]
        for text in texts
    }
    meant[path] = {
        "embedder": fields.get("embedder"),
        "vectors": sorted(ids.get(row[:8], "of no memory") for row in rows),
        "memories": lines,
        "user": fields["user"],
        "lives": {head["life"]: head["id"] for head in heads if "life" in head},
    }


def normal(holdings: Holdings) -> dict[str, str]:
    """Return *holdings* so that those of two runs are equal if they mean the same."""
    epochs = {fields["epoch"]: path for path, fields in holdings.items() if "events" in fields}
    for fields in holdings.values():
        epochs |= fields.get("lives", {})
    texts = {}
    for name, fields in holdings.items():
        meant = dict(fields)
        meant.pop("lives", None)
        meant.pop("conflicts", None)  # a failed step may make one more, and a process may end with one
        if meant.get("metadata"):
            drawn = ("adkStoreSaveId", "adkStorePutTime")
            meant["metadata"] = {key: text for key, text in meant["metadata"].items() if key not in drawn}
        if meant.get("turn"):
            # Not who holds it, until when, and whether it was given back and taken again.
            meant["turn"] = "asked to stop" if meant["turn"].get("abort") else "taken"
        if "events" in meant:
            meant["events"] = [_DRAWN_ID.sub('"id":"drawn"', text) for text in meant["events"]]
        texts[name] = json.dumps(meant, sort_keys=True, default=repr)
    for epoch, path in epochs.items():
        texts = {
            name.replace(epoch, f"<life of {path}>"): text.replace(epoch, f"<life of {path}>")
            for name, text in texts.items()
        }
    return texts
