"""Every way to change one document of a store, each with a name."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from gcp_adk_store import StoredDataError
from gcp_adk_store.codec.packing import pack_segment, unpack_segment

Fields = dict[str, Any]
Change = dict[str, Fields | None]
"""Documents by path; ``None`` removes one."""

_LEVELS: Final = {"adk_apps": "app", "adk_users": "user", "adk_sessions": "session"}
_NAMES: Final = {
    "adk_segments": "segment",
    "adk_deletions": "note",
    "adk_restores": "restore note",
    "adk_chunks": "chunk",
}
_SWAPPED: Final = {"session", "segment 0", "note", "restore note"}
_OTHER_KIND: Final = {
    int: "1",
    float: "1.0",
    str: 7,
    bytes: "bytes",
    bool: "true",
    list: {},
    dict: [],
    datetime: 5,
}


def mutations(
    documents: Mapping[str, Any], *, unused: AbstractSet[str], leaving: AbstractSet[str]
) -> Iterator[tuple[str, Change]]:
    """Yield each mutation of *documents* with its name: the kind of document, the field, what is done.

    Of each kind it takes one document; nothing refers to the *unused* ones. Those that a
    note names are *leaving*: they only wait for their removal, and stay as they are.
    """
    segments = [path for path in documents if "adk_segments" in path and path not in leaving]
    seen: Counter[str] = Counter()
    for path, document in documents.items():
        if path in leaving:
            continue
        kind = kind_of(path)
        if path in unused:
            kind = f"unused {kind}"
        seen[kind] += 1
        if seen[kind] > 1:
            continue
        fields = dict(document.fields)
        yield f"{kind}: removed", {path: None}
        for name, value in fields.items():
            for how, changed in _field(name, value):
                if changed != value:
                    yield f"{kind}.{name}: {how}", {path: {**fields, name: changed}}
            yield f"{kind}.{name}: dropped", {path: {key: fields[key] for key in fields if key != name}}
        yield f"{kind}: unknown field", {path: {**fields, "unknown": 1}}
        for one, other in _pairs(fields) if kind in _SWAPPED else ():
            swapped = {**fields, one: fields[other], other: fields[one]}
            yield f"{kind}: {one} and {other} swapped", {path: swapped}
        yield from _copies(kind, path, fields)
    for one, other in pairwise(segments):
        first, second = dict(documents[one].fields), dict(documents[other].fields)
        kind = kind_of(one)
        yield f"{kind}: swapped with the next", {one: second, other: first}


def kind_of(path: str) -> str:
    """Return what a document is, without its ids."""
    collection, name = path.split("/")[-2:]
    if collection in _LEVELS:
        return _LEVELS[collection]
    owner = _LEVELS[path.split("/")[-4]]
    if collection == "adk_segments":
        return "segment 0" if name.endswith("-0") else "segment"
    return f"{owner}'s {_NAMES[collection]}" if collection == "adk_chunks" else _NAMES[collection]


def _field(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield "another kind", _OTHER_KIND.get(type(value), 3)
    if value is not None:
        yield "null", None
    if name == "body":
        try:
            for how, changed in _texts(unpack_segment(value)):
                yield how, pack_segment(changed)
        except StoredDataError:
            pass  # of a chunk
    if name == "inbox":
        yield from _messages(value)
    else:
        yield from _OF_KIND.get(type(value), _nothing)(value)


def _messages(texts: list[str]) -> Iterator[tuple[str, list[str]]]:
    first = json.loads(texts[0])
    yield "one less", texts[1:]
    yield "two swapped", [texts[1], texts[0], *texts[2:]]
    yield "first twice", [texts[0], *texts]
    yield "message is no JSON", ["{", *texts[1:]]
    yield "another text", [json.dumps({**first, "message": {"parts": [{"text": "other"}]}}), *texts[1:]]
    for how, parts in {"no parts": 7, "no text as a type": [{"toolCall": {"toolType": 7}}]}.items():
        yield how, [json.dumps({**first, "message": {"parts": parts}}), *texts[1:]]
    for field in first:
        yield f"{field} dropped", [json.dumps({**first, field: None}), *texts[1:]]
    yield "too many", [json.dumps({**first, "id": f"{number}"}) for number in range(101)]
    yield "too large", [json.dumps({**first, "id": f"{number}" + "x" * 200_000}) for number in range(2)]


def _nothing(_: Any) -> Iterator[tuple[str, Any]]:
    yield from ()


def _of_list(value: list[Any]) -> Iterator[tuple[str, Any]]:
    if value and all(isinstance(one, str) and one.startswith("{") for one in value):
        yield from _texts(value)
        return
    yield "one more", [*value, "bucket" if "chunks" in value else "chunks"]
    if value:
        yield "one less", value[:-1]
        yield "first twice", [value[0], *value]
    if value and isinstance(value[0], dict):
        for how, changed in _of_map(value[0]):
            yield how, [changed, *value[1:]]


def _of_map(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "key added", {**value, "added": 1}
    yield "key that no one encodes so", {**value, "%41": 1}
    for key, item in value.items():
        yield f"{key} dropped", {one: value[one] for one in value if one != key}
        for how, changed in _field("", item):
            yield f"{key} {how}", {**value, key: changed}
    if len(value) > 1:
        one, other, *_ = value
        yield "two swapped", {**value, one: value[other], other: value[one]}


_YEAR: Final = timedelta(days=365)
_OF_KIND: Final[dict[type, Callable[[Any], Iterable[tuple[str, Any]]]]] = {
    bool: lambda value: [("flipped", not value)],
    int: lambda value: [
        ("one more", value + 1),
        ("one less", value - 1),
        *([("0", 0)] if value > 1 else []),
    ],
    float: lambda value: [("later", value + 1.0), ("earlier", value - 1.0)],
    str: lambda value: [("longer", value + "x"), ("empty", "")],
    bytes: lambda value: [("one bit", bytes([value[0] ^ 1]) + value[1:]), ("shorter", value[:-1])],
    datetime: lambda value: [("a year later", value + _YEAR), ("a year earlier", value - _YEAR)],
    list: _of_list,
    dict: _of_map,
}


def _texts(texts: list[str]) -> Iterator[tuple[str, list[str]]]:
    first = json.loads(texts[0])
    last = json.loads(texts[-1])
    yield "empty", []
    yield "first event dropped", texts[1:]
    yield "last event dropped", texts[:-1]
    yield "first event twice", [texts[0], *texts]
    yield "last event twice", [*texts, texts[-1]]
    if len(texts) > 1:
        yield "two events swapped", [texts[1], texts[0], *texts[2:]]
    yield "event is no JSON", ["{", *texts[1:]]
    yield "event without a timestamp", [json.dumps({**first, "timestamp": None}), *texts[1:]]
    yield "another author", [json.dumps({**first, "author": "other"}), *texts[1:]]
    yield "another time", [*texts[:-1], json.dumps({**last, "timestamp": last["timestamp"] + 1})]
    if (last.get("actions") or {}).get("state_delta"):
        last["actions"]["state_delta"]["changed"] = 77
        yield "another change", [*texts[:-1], json.dumps(last)]


def _pairs(fields: Fields) -> Iterator[tuple[str, str]]:
    names = sorted(fields)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            if type(fields[one]) is type(fields[other]) and fields[one] != fields[other]:
                yield one, other


def _copies(kind: str, path: str, fields: Fields) -> Iterator[tuple[str, Change]]:
    parent, name = path.rsplit("/", 1)
    if kind.startswith("segment") or kind.endswith("chunk"):
        stem, _, number = name.rpartition("-")
        yield f"{kind}: copied to another number", {f"{parent}/{stem}-{int(number) + 50}": fields}
        yield f"{kind}: copied to another life", {f"{parent}/other-{name.partition('-')[2]}": fields}
    else:
        yield f"{kind}: copied to another id", {f"{parent}/other": fields}
