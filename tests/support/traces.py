"""Look for a text in everything that a store keeps, with the databases' own means alone."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests
from google.cloud.firestore import Client

from tests.support.folder import read_documents, read_objects


def in_folder(folder: Path) -> dict[str, bytes]:
    """Return what a local store keeps: each document and object by its name, and each file as it is."""
    files = {f"file {path}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    documents = {path: b"\n".join(_bytes(fields)) for path, fields in read_documents(folder).items()}
    objects = {
        name: b"\n".join((*_bytes(found.data), *_bytes(found.metadata)))
        for name, found in read_objects(folder).items()
    }
    return files | documents | objects


def on_emulators(project: str, bucket: str, storage: str) -> dict[str, bytes]:
    """Return what the emulators keep of a project and a bucket."""
    found: dict[str, bytes] = {}
    client = Client(project=project)
    waiting: list[Any] = list(client.collections())
    while waiting:
        for document in waiting.pop().list_documents():  # also those that are gone and have some below
            snapshot = document.get()
            if snapshot.exists:
                found[document.path] = b"\n".join(_bytes(snapshot.to_dict()))
            waiting += document.collections()
    client.close()
    listed = requests.get(f"{storage}/storage/v1/b/{bucket}/o?versions=true", timeout=60).json()
    for item in listed.get("items", []):
        data = requests.get(item["mediaLink"], timeout=60).content
        found[item["name"]] = b"\n".join((*_bytes(data), *_bytes(item.get("metadata", {}))))
    return found


def traces(stored: Mapping[str, bytes], text: str) -> list[str]:
    """Return the names of what holds *text*, in its name or in its content."""
    wanted = text.encode()
    return sorted(name for name, data in stored.items() if wanted in name.encode() or wanted in data)


def _bytes(value: Any) -> Iterator[bytes]:
    """Yield every text and all bytes in *value*, also what they are when unpacked."""
    match value:
        case str():
            yield value.encode(errors="surrogatepass")
        case bytes():
            yield value
            with suppress(zlib.error):
                yield zlib.decompress(value)
        case Mapping():
            for name, item in value.items():
                yield name.encode()
                yield from _bytes(item)
        case list():
            for item in value:
                yield from _bytes(item)
