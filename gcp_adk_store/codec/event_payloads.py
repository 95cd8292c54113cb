"""Move large bytes out of an event's content, refer to them in its JSON text, and restore them.

The text of an event with payloads has one key more, ``adk_store_payloads``: a list of places, digests and
sizes. The text of an event with encoded halves of surrogate pairs (:mod:`gcp_adk_store.model.halves`) has
``adk_store_halves``, which is true. ADK's ``Event`` ignores keys that it does not know. ``StoredDataError``
says that content lacks the place of a payload, or that a reference has an unknown form.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from google.genai import types

from gcp_adk_store.codec.spilling import decode_ref, encode_ref
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.payloads import PayloadRef

Place = tuple[int, ...]
"""The place of bytes in an event: the number of the content's part, and the number of a part within its
function response."""

WHOLE: Final[Place] = ()
"""The place that stands for the whole event."""

_KEY: Final = "adk_store_payloads"
_HALVES: Final = "adk_store_halves"


def without_bytes(
    content: types.Content | None, *, over: int
) -> tuple[types.Content | None, dict[Place, bytes]]:
    """Return a copy of *content* without inline data of more than *over* bytes, and that data."""
    taken = {place: blob.data for place, blob in _blobs(content) if blob.data and len(blob.data) > over}
    if content is None or not taken:
        return content, {}
    emptied = content.model_copy(update={"parts": [_with_own_blobs(part) for part in _parts(content)]})
    for place, blob in _blobs(emptied):
        if place in taken:
            blob.data = None
    return emptied, taken


def put_bytes(content: types.Content | None, data: Mapping[Place, bytes]) -> None:
    """Put *data* back into *content*."""
    blobs = dict(_blobs(content))
    for place, value in data.items():
        if place not in blobs:
            raise _no_place(len(value))
        blobs[place].data = value


def put_placeholders(content: types.Content | None, refs: Iterable[tuple[Place, PayloadRef]]) -> None:
    """Put a text that names each missing payload into its place in *content*."""
    parts = _parts(content)
    places = dict(_blobs(content))
    for place, ref in refs:
        if place not in places:
            raise _no_place(ref.size)
        part = parts[place[0]]
        if len(place) == 1:
            parts[place[0]] = types.Part(text=placeholder(ref))
        elif part.function_response is not None and part.function_response.parts:
            # A part of a function response cannot hold text.
            note = types.FunctionResponseBlob(mime_type="text/plain", data=placeholder(ref).encode())
            part.function_response.parts[place[1]] = types.FunctionResponsePart(inline_data=note)


def placeholder(ref: PayloadRef) -> str:
    """Return the text that stands for a missing payload."""
    return f"[content of {ref.size} bytes is missing: sha256:{ref.sha256}]"


def referring(text: str, refs: Mapping[Place, PayloadRef], *, key: str = _KEY) -> str:
    """Return the JSON object *text* with *refs* as one more *key*."""
    if not refs:
        return text
    named = [{"at": place, **encode_ref(ref)} for place, ref in refs.items()]
    return f"{text[:-1]},{json.dumps(key)}:{json.dumps(named, separators=(',', ':'))}}}"


def references(text: str) -> dict[Place, PayloadRef]:
    """Return the references that :func:`referring` added to *text*."""
    if _KEY not in text:  # avoids a second parse of an ordinary event
        return {}
    what = f"an event of {len(text)} characters"
    try:
        return {_place(entry["at"]): decode_ref(entry, what=what) for entry in json.loads(text).get(_KEY, [])}
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as exc:
        raise StoredDataError(f"{what} names payloads in an unknown way") from exc


def unreferring(text: str) -> str:
    """Return the JSON object *text* without the references that :func:`referring` added."""
    return json.dumps({key: value for key, value in json.loads(text).items() if key != _KEY})


def with_halves(text: str) -> str:
    """Return the JSON object *text*, whose halves are encoded, with the key that marks it."""
    return f"{text[:-1]},{json.dumps(_HALVES)}:true}}"


def encodes_halves(text: str) -> bool:
    """Return whether *text* comes from :func:`with_halves`; an event's own words may contain the key."""
    return _HALVES in text and json.loads(text).get(_HALVES) is True


def _place(numbers: list[Any]) -> Place:
    if any(type(number) is not int for number in numbers):
        raise TypeError
    return tuple(numbers)


def _no_place(size: int) -> StoredDataError:
    return StoredDataError(f"a payload of {size} bytes has no place in its event")


def _parts(content: types.Content | None) -> list[types.Part]:
    return (content.parts if content else None) or []


def _blobs(content: types.Content | None) -> Iterator[tuple[Place, types.Blob | types.FunctionResponseBlob]]:
    for number, part in enumerate(_parts(content)):
        if part.inline_data is not None:
            yield (number,), part.inline_data
        response = part.function_response
        for inner, answer in enumerate((response.parts if response else None) or []):
            if answer.inline_data is not None:
                yield (number, inner), answer.inline_data


def _with_own_blobs(part: types.Part) -> types.Part:
    """Return a copy of *part* whose inline data can be changed; *part* stays as it is."""
    update: dict[str, Any] = {"inline_data": part.inline_data and part.inline_data.model_copy()}
    response = part.function_response
    if response is not None and response.parts:
        answers = [
            answer.model_copy(update={"inline_data": answer.inline_data and answer.inline_data.model_copy()})
            for answer in response.parts
        ]
        update["function_response"] = response.model_copy(update={"parts": answers})
    return part.model_copy(update=update)
