"""Read what is stored after docs/data-model.md, with Google's client and HTTP, or SQLite and files, alone.

Nothing of the library takes part: what both got wrong in the same way would never be found.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import requests
from google.cloud.firestore import Client

from tests.chaos.places import PREFIXES
from tests.chaos.verdict import Violation
from tests.support import folder as folder_store

_CHUNK_BYTES: Final = 900 * 1024
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object's bytes, those of a payload in full."""

    sha256: str
    size: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class RawStore:
    """All documents and objects of a run."""

    documents: Mapping[str, Mapping[str, Any]]
    """Path -> fields."""
    objects: Mapping[str, StoredObject]
    """Name -> bytes."""

    def below(self, collection: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the documents of every collection of this id."""
        for path, fields in self.documents.items():
            if path.split("/")[-2] == collection:
                yield path, fields


@dataclass(slots=True)
class RawEvent:
    """An event as it is stored, with its payloads put back."""

    id: str
    timestamp: float
    delta: Mapping[str, Any]
    digest: str
    """SHA-256 of its texts and inline data."""
    invocation: str = ""
    """The invocation that it is a part of."""


@dataclass(slots=True)
class RawSession:
    """A session as it is stored, read whole."""

    path: str
    place: str
    fields: Mapping[str, Any]
    events: list[RawEvent]
    state: Mapping[str, Any]
    initial: Mapping[str, Any] | None
    """Its state at its creation."""
    misfits: list[Violation] = field(default_factory=list)
    """What about it does not fit together."""


@dataclass(frozen=True, slots=True)
class RawMemory:
    """A memory as it is stored, with its payloads put back."""

    prefix: str
    id: str
    digest: str
    """SHA-256 of its texts and inline data."""


def read_store(*, project: str, storage_url: str, bucket: str) -> RawStore:
    """Read everything, straight from the emulators; ``FIRESTORE_EMULATOR_HOST`` names that of Firestore."""
    client = Client(project=project)
    documents: dict[str, Mapping[str, Any]] = {}
    try:
        for prefix in PREFIXES:
            for collection in (
                "apps",
                "users",
                "sessions",
                "segments",
                "deletions",
                "chunks",
                "memories",
                "shards",
            ):
                for found in client.collection_group(f"{prefix}_{collection}").stream():
                    documents[found.reference.path] = found.to_dict() or {}
    finally:
        client.close()
    return RawStore(documents, dict(_objects(storage_url, bucket)))


def read_folder(folder: Path) -> RawStore:
    """Read everything of a local store."""
    objects = {
        name: StoredObject(
            hashlib.sha256(found.data).hexdigest(),
            len(found.data),
            found.data if "-payloads/" in name else None,
        )
        for name, found in folder_store.read_objects(folder).items()
    }
    return RawStore(folder_store.read_documents(folder), objects)


def _objects(url: str, bucket: str) -> Iterator[tuple[str, StoredObject]]:
    objects = f"{url}/storage/v1/b/{bucket}/o"
    token = ""
    with requests.Session() as http:
        while True:
            page = http.get(objects, params={"pageToken": token} if token else {}, timeout=_TIMEOUT_S).json()
            for item in page.get("items", []):
                name = item["name"]
                url_of_it = f"{objects}/{quote(name, safe='')}"
                data = http.get(url_of_it, params={"alt": "media"}, timeout=_TIMEOUT_S).content
                kept = data if "-payloads/" in name else None
                yield name, StoredObject(hashlib.sha256(data).hexdigest(), len(data), kept)
            token = page.get("nextPageToken", "")
            if not token:
                return


class _Payloads:
    """Finds what references name, and says where one leads nowhere."""

    def __init__(self, store: RawStore, owner: str, life: str, misfits: list[Violation]) -> None:
        self._store = store
        self._owner = owner
        self._life = life
        self._misfits = misfits

    def get(self, ref: Mapping[str, Any], what: str) -> bytes | None:
        """Return the bytes that *ref* names, ``None`` if they are gone or others."""
        data = self._of_bucket(ref) if ref["in"] == "bucket" else self._of_chunks(ref)
        if data is None:
            self._misfits.append(Violation("dangling reference", f"{what} of {self._owner}: {ref}"))
            return None
        if len(data) != ref["size"] or hashlib.sha256(data).hexdigest() != ref["sha256"]:
            self._misfits.append(Violation("damaged payload", f"{what} of {self._owner}: {ref}"))
            return None
        return data

    def state(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a state map."""
        return {key: self._value(value, f"state {key}") for key, value in fields.items()}

    def _value(self, value: Any, what: str) -> Any:
        if not isinstance(value, dict):
            return value
        if "json" in value:
            return json.loads(value["json"])
        data = self.get(value["payload"], what)
        return None if data is None else json.loads(zlib.decompress(data))

    def _of_bucket(self, ref: Mapping[str, Any]) -> bytes | None:
        prefix = self._owner.partition("_")[0]
        owner = hashlib.sha256(self._owner.encode()).hexdigest()[:32]
        found = self._store.objects.get(f"{prefix}-payloads/{owner}/{self._life}/{ref['sha256']}")
        return found.data if found else None

    def _of_chunks(self, ref: Mapping[str, Any]) -> bytes | None:
        prefix = self._owner.partition("_")[0]
        start = f"{self._owner}/{prefix}_chunks/{self._life}-{ref['sha256']}-"
        count = max(1, -(-ref["size"] // _CHUNK_BYTES))
        chunks = [self._store.documents.get(f"{start}{number}") for number in range(count)]
        return b"".join(chunk["body"] if chunk else b"" for chunk in chunks) if all(chunks) else None


def shared_state(store: RawStore, path: str, misfits: list[Violation]) -> dict[str, Any]:
    """Return the state of the app or user at *path*."""
    fields = store.documents.get(path, {})
    return _Payloads(store, path, "shared", misfits).state(fields.get("state", {}))


def sessions(store: RawStore) -> Iterator[RawSession]:
    """Yield all sessions, whole."""
    for prefix in PREFIXES:
        for path, fields in store.below(f"{prefix}_sessions"):
            yield _session(store, prefix, path, fields)


def memories(store: RawStore, misfits: list[Violation]) -> Iterator[RawMemory]:
    """Yield all memories; add to *misfits* what does not fit together."""
    for prefix in PREFIXES:
        named: set[str] = set()
        for path, head in store.below(f"{prefix}_memories"):
            texts = [*head["tail"]]
            for shard in head["shards"]:
                name = f"{path}/{prefix}_shards/{head['epoch']}-{shard['n']}"
                named.add(name)
                fields = store.documents.get(name)
                if fields is None:
                    misfits.append(Violation("shard disagrees", f"{name} is missing"))
                    continue
                lines = zlib.decompress(fields["body"]).decode().split("\n")
                held = ["\n".join(lines[at : at + 2]) for at in range(0, len(lines) - 1, 2)]
                if not len(held) == shard["count"] == fields["count"]:
                    misfits.append(Violation("shard disagrees", f"{name} holds {len(held)} memories"))
                texts += held
            for text in texts:
                about, content = text.split("\n")
                described = json.loads(about)
                payloads = _Payloads(store, path, described.get("life", ""), misfits)
                yield RawMemory(prefix, described["id"], _event(content, payloads).digest)
        for path, _ in store.below(f"{prefix}_shards"):
            if path not in named:
                misfits.append(Violation("shard disagrees", f"{path} has no head that names it"))


def _session(store: RawStore, prefix: str, path: str, fields: Mapping[str, Any]) -> RawSession:
    misfits: list[Violation] = []
    payloads = _Payloads(store, path, fields["epoch"], misfits)
    head = fields["chain_sealed"]
    texts = [*_sealed(store, prefix, path, fields, misfits), *fields["tail"]]
    if _chained(head, fields["tail"]) != fields["chain"]:
        misfits.append(Violation("header disagrees", f"chain of {path} is not that of its events"))
    session = RawSession(
        path=path,
        place=f"{prefix}/{fields['id']}",
        fields=fields,
        events=[_event(text, payloads) for text in texts],
        state=payloads.state(fields["state"]),
        initial=_initial(store, prefix, path, fields, payloads),
        misfits=misfits,
    )
    if fields["rev"] != len(texts):
        misfits.append(
            Violation("header disagrees", f"rev of {path} is {fields['rev']}, it has {len(texts)} events")
        )
    tail_bytes = sum(len(text.encode()) for text in fields["tail"])
    if fields["tail_bytes"] != tail_bytes:
        misfits.append(
            Violation("header disagrees", f"tail_bytes of {path} is {fields['tail_bytes']}, not {tail_bytes}")
        )
    if session.events and fields["last_update_time"] != session.events[-1].timestamp:
        misfits.append(Violation("header disagrees", f"last_update_time of {path} is not the last event's"))
    return session


def _chained(head: bytes, texts: Sequence[str]) -> bytes:
    for text in texts:
        head = hashlib.sha256(head + hashlib.sha256(text.encode()).digest()).digest()
    return head


def _initial(
    store: RawStore, prefix: str, path: str, fields: Mapping[str, Any], payloads: _Payloads
) -> dict[str, Any] | None:
    """Return the initial state, which is in the first live segment once there is one."""
    holder: Mapping[str, Any] = fields
    for number in _live(fields)[:1]:
        holder = store.documents.get(f"{path}/{prefix}_segments/{fields['epoch']}-{number}", {})
    if "initial_payload" in holder:
        data = payloads.get(holder["initial_payload"], "initial state")
        return None if data is None else payloads.state(json.loads(zlib.decompress(data)))
    return payloads.state(holder["initial"]) if "initial" in holder else None


def _live(fields: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the segments that no restore cut off."""
    cut = {number for run in fields.get("cut", []) for number in range(run["from"], run["to"] + 1)}
    return [number for number in range(fields["sealed"]) if number not in cut]


def _sealed(
    store: RawStore, prefix: str, path: str, fields: Mapping[str, Any], misfits: list[Violation]
) -> Iterator[str]:
    newest: float | None = None
    head = hashlib.sha256(b"gcp-adk-store/2\0" + fields["epoch"].encode()).digest()
    for number in _live(fields):
        name = f"{path}/{prefix}_segments/{fields['epoch']}-{number}"
        segment = store.documents.get(name)
        if segment is None:
            misfits.append(Violation("segment disagrees", f"{name} is missing"))
            continue
        texts: Sequence[str] = json.loads(zlib.decompress(segment["body"]))
        timestamps = [json.loads(text)["timestamp"] for text in texts]
        newest = max(timestamps if newest is None else [newest, *timestamps])
        if segment["count"] != len(texts):
            misfits.append(
                Violation("segment disagrees", f"count of {name} is {segment['count']}, not {len(texts)}")
            )
        if segment["running_max"] != newest:
            misfits.append(
                Violation("segment disagrees", f"running_max of {name} is not the newest timestamp")
            )
        if (segment["chain_begin"], segment["chain_end"]) != (head, _chained(head, texts)):
            misfits.append(Violation("segment disagrees", f"chain of {name} is not that of its events"))
        head = segment["chain_end"]
        yield from texts
    if fields["chain_sealed"] != head:
        misfits.append(Violation("header disagrees", f"chain_sealed of {path} is not that of its segments"))
    if fields["sealed_max"] != newest:
        misfits.append(
            Violation("header disagrees", f"sealed_max of {path} is not the newest sealed timestamp")
        )


def _event(text: str, payloads: _Payloads) -> RawEvent:
    event = json.loads(text)
    name = event["id"]
    refs = event.get("adk_store_payloads", [])
    for ref in refs:
        if not ref["at"]:
            data = payloads.get(ref, f"event {name}")
            event = json.loads(zlib.decompress(data)) if data else event
            refs = event.get("adk_store_payloads", []) if data else []
    parts = (event.get("content") or {}).get("parts", [])
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.get("text", "").encode())
    for number, part in enumerate(parts):
        inline = part.get("inline_data") or part.get("inlineData")
        if inline is None:
            continue
        (ref,) = [ref for ref in refs if ref["at"] == [number]] or [None]
        if ref is not None:
            whole.update(payloads.get(ref, f"event {name}") or b"")
        else:
            whole.update(base64.urlsafe_b64decode(inline["data"]))
    return RawEvent(
        id=name,
        timestamp=event["timestamp"],
        delta=event.get("actions", {}).get("state_delta", {}),
        digest=whole.hexdigest(),
        invocation=event.get("invocation_id", ""),
    )
