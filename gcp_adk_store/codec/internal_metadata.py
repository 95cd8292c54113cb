"""Change ADK's internal metadata in the JSON of events; every other character stays as it is."""

import json
import zlib
from typing import Final

from gcp_adk_store.codec.event_payloads import WHOLE, referring, unreferring
from gcp_adk_store.codec.events import unpack_text
from gcp_adk_store.codec.texts import members
from gcp_adk_store.model.internal_metadata import RESTORED, is_internal
from gcp_adk_store.model.payloads import Payload, PayloadRef

_FIELD: Final = "custom_metadata"
_MARK: Final = json.dumps(RESTORED) + ":true"


def text_elsewhere(text: str) -> str:
    """Return the event *text* as a session of other ids takes it over; without such metadata, *text* itself.

    See :func:`gcp_adk_store.model.internal_metadata.event_elsewhere`.
    """
    return _changed(text, _MARK)


def payload_elsewhere(text: str, ref: PayloadRef, data: bytes) -> tuple[str, Payload]:
    """Return the same for an event that is a payload as a whole: its new *text*, and its new payload.

    Raises:
        StoredDataError: *data*, the bytes of *ref*, is not an event.
    """
    whole = text_elsewhere(unpack_text(ref, data))
    payload = Payload.of(zlib.compress(whole.encode()), place=ref.place)
    return referring(unreferring(text), {WHOLE: payload.ref}), payload


def public_text(text: str) -> str:
    """Return the event *text* as people may see it: without such metadata."""
    return _changed(text)


def _changed(text: str, *more: str) -> str:
    """Return *text* with the members *more* in place of the metadata of ADK's, if it has any."""
    for name, _, start, end in reversed([*members(text, 0)]):
        if name != _FIELD or text[start] != "{":
            continue
        inner = [*members(text, start)]
        kept = [text[begin:stop] for key, begin, _, stop in inner if not is_internal(key)]
        if len(kept) < len(inner):
            text = f"{text[:start]}{{{','.join([*kept, *more])}}}{text[end:]}"
    return text
