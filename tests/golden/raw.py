"""Put golden documents and objects into the emulators and take them out, with Google's clients alone."""

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore, storage

Documents = dict[str, dict[str, Any]]
"""Fields by path."""

Objects = dict[str, dict[str, Any]]
"""Content type, metadata and data by name."""

_BYTES = "$bytes"
_TIME = "$time"


def read_golden(name: str, *, number: int = 1) -> dict[str, Any]:
    """Return what a golden file of a format holds."""
    return golden_of(Path(__file__).parent / f"format_{number}" / f"{name}.json")


def golden_of(path: Path) -> dict[str, Any]:
    """Return what the golden file at *path* holds."""
    golden: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), object_hook=_with_types)
    return golden


def encode(golden: Documents | Objects) -> str:
    """Return the text of a golden file: how a new format's files are made."""
    return json.dumps(golden, indent=2, ensure_ascii=False, sort_keys=True, default=_without_types) + "\n"


def put_documents(project: str, documents: Documents) -> None:
    """Write *documents* as they are."""
    client = firestore.Client(project=project)
    for path, fields in documents.items():
        client.document(path).set(fields)
    client.close()


def take_documents(project: str) -> Documents:
    """Read all documents of a database."""
    client = firestore.Client(project=project)
    try:
        return dict(_below(client.collections()))
    finally:
        client.close()


def put_objects(bucket: str, objects: Objects) -> None:
    """Write *objects* as they are."""
    client = _storage()
    for name, stored in objects.items():
        blob = client.bucket(bucket).blob(name)
        blob.metadata = stored["metadata"]
        blob.upload_from_string(stored["data"], content_type=stored["content_type"])
    client.close()


def take_objects(bucket: str) -> Objects:
    """Read all objects of a bucket."""
    client = _storage()
    try:
        return {
            blob.name: {
                "content_type": blob.content_type,
                "metadata": blob.metadata,
                "data": blob.download_as_bytes(),
            }
            for blob in client.list_blobs(bucket)
        }
    finally:
        client.close()


def _storage() -> Any:
    return storage.Client(project="demo", credentials=AnonymousCredentials())


def _below(collections: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for collection in collections:
        for reference in collection.list_documents():
            document = reference.get()
            if document.exists:
                yield reference.path, document.to_dict()
            yield from _below(reference.collections())


def _with_types(value: dict[str, Any]) -> Any:
    if value.keys() == {_BYTES}:
        return base64.b64decode(value[_BYTES])
    if value.keys() == {_TIME}:
        return datetime.fromisoformat(value[_TIME])
    return value


def _without_types(value: Any) -> Any:
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    return {_BYTES: base64.b64encode(value).decode()}
