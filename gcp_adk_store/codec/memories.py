"""Encode memories as texts, and read them.

A memory is two lines of text: the JSON of what a search must know, and its content as the JSON of an event,
whose large parts are payloads as in sessions.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from google.adk.events import Event
from google.genai import types
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from gcp_adk_store.codec.decode import StoredEvent, decode_event
from gcp_adk_store.codec.encode import SURROGATES_KEY, encode_event
from gcp_adk_store.codec.texts import metadata_bytes
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.json_values import Bounds, decode_surrogates
from gcp_adk_store.model.memories import Memory
from gcp_adk_store.model.payloads import Payload, PayloadPlace
from gcp_adk_store.model.state import is_light
from gcp_adk_store.settings import SessionLimits

MAX_METADATA_BYTES: Final = 16 * 1024
"""The metadata of one memory as JSON: it stays in memory, with the index."""

_METADATA: Final = Bounds(
    size=MAX_METADATA_BYTES,
    size_named="the limit for metadata",
    way_out="keep what is larger in the content",
    text_keys=True,
)
_METADATA_DEPTH: Final = 20

_INLINE_BYTES: Final = 4 * 1024
"""Inline data over this size is a payload: a search never looks at it."""
_TEXT_BYTES: Final = 32 * 1024
"""A content over this size as JSON is a payload as a whole."""
_MEMORY_BYTES: Final = 512 * 1024
"""A memory without its payloads must fit a document; metadata and an excerpt take 300 KiB at most."""
_EXCERPT: Final = 16 * 1024
"""Characters of a text in a payload that a search looks at."""
_ID_FIRST: Final = re.compile(r'\{"id":("(?:[ !#-\[\]-~]|\\[ -~]){1,200}")')


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedMemory:
    """The stored form of a memory."""

    memory: Memory
    text: str
    payloads: Sequence[Payload]


class _Envelope(BaseModel):
    model_config = ConfigDict(strict=True)

    id: str
    time: Annotated[float, Field(allow_inf_nan=False)]
    session: str | None = None
    author: str | None = None
    until: Annotated[float, Field(allow_inf_nan=False)] | None = None
    stamp: str | None = None
    metadata: dict[str, Any] = {}
    life: str | None = None
    excerpt: str | None = None


def encode_memory(memory: Memory, content: types.Content, *, place: PayloadPlace, life: str) -> EncodedMemory:
    """Return *memory* with its *content* as it is stored; payloads, if any, get the name *life*.

    Raises:
        InvalidInputError: the content or the metadata is not JSON, or over a limit.
    """
    event = Event(id="memory", author=memory.author or "", content=content, timestamp=memory.time)
    limits = SessionLimits(inline_bytes=_INLINE_BYTES, event_text_bytes=_TEXT_BYTES)
    encoded = encode_event(event, state_delta={}, limits=limits, place=place, light=is_light(event))
    if encoded.payloads:
        memory = replace(memory, life=life)
    if encoded.is_payload:
        memory = replace(memory, excerpt=text_in(content)[:_EXCERPT])
    text = f"{_envelope(memory)}\n{encoded.text}"
    if (size := len(text.encode())) > _MEMORY_BYTES:
        raise InvalidInputError(
            f"a memory takes {size} bytes beside its large content, the limit is {_MEMORY_BYTES}; "
            "shorten its id, session, author or timestamp"
        )
    return EncodedMemory(memory=memory, text=text, payloads=encoded.payloads)


def decode_memory(text: str) -> Memory:
    """Return what a search must know of the memory in *text*."""
    try:
        return Memory(**dict(_Envelope.model_validate(json.loads(text[: text.index("\n")]))))
    except (ValueError, RecursionError):
        pass
    raise StoredDataError(_damaged(text))


def _damaged(text: str) -> str:
    """Return what an error says of the memory in *text*, whose id comes first in it."""
    found = _ID_FIRST.match(text)
    which = "a memory whose id cannot be read" if found is None else f"the memory {found[1]}"
    return f"{which} is damaged, of {len(text)} characters; gcp-adk-store fsck names its document"


def has_id(text: str, memory_id: str) -> bool:
    """Return whether the memory in *text* has this id, which comes first in it."""
    return text.startswith(f'{{"id":{json.dumps(memory_id)},')


def decode_content(text: str) -> StoredEvent:
    """Return the event that holds the content of the memory in *text*, without its payloads."""
    return decode_event(content_text(text))


def content_text(text: str) -> str:
    """Return the JSON of the content of the memory in *text*."""
    return text[text.index("\n") + 1 :]


def searchable_text(text: str, memory: Memory) -> str:
    """Return what a search compares with a query, of the *memory* that is stored as *text*."""
    if memory.excerpt is not None:
        return memory.excerpt
    try:
        event: Any = from_json(content_text(text))
        said = text_in(types.Content.model_construct(parts=event["content"].get("parts")))
        return decode_surrogates(said) if SURROGATES_KEY in event else said
    except (ValueError, KeyError, AttributeError, TypeError) as exc:
        raise StoredDataError(_damaged(text)) from exc


def text_in(content: types.Content) -> str:
    """Return the words of *content*, without the thoughts of a model."""
    said = (_said(part) for part in content.parts or [])
    return " ".join(text for text in said if text)


def _said(part: Any) -> str | None:
    found = part if isinstance(part, dict) else {"text": part.text, "thought": part.thought}
    return None if found.get("thought") else found.get("text")


def _envelope(memory: Memory) -> str:
    fields = {
        name: value
        for name in Memory.__dataclass_fields__
        if (value := getattr(memory, name)) not in (None, {})
    }
    fields["time"] = float(memory.time)
    require_metadata(memory.metadata, what="the metadata of a memory")
    return json.dumps(fields, allow_nan=False, separators=(",", ":"))


def require_metadata(metadata: Mapping[str, Any], *, what: str) -> None:
    """Refuse metadata that no memory can have.

    Raises:
        InvalidInputError: it is over a limit, or JSON cannot hold it as it is; *what* names it.
    """
    metadata_bytes(metadata, bounds=_METADATA, what=what, max_depth=_METADATA_DEPTH)
