"""Decide what is wrong with the turn of a session, and with the messages that wait for one."""

import json
from typing import Final

from google.genai import types
from pydantic import ValidationError

from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.fsck.faults import Fault
from gcp_adk_store.fsck.sessions import Header
from gcp_adk_store.model.turns import MAX_LEASE_S, MAX_WAITING, MAX_WAITING_BYTES

_DRIFT_S: Final = 3600.0
"""How far the clocks of the writer and of this look may differ."""


def turn_faults(header: Header) -> list[Fault]:
    """Return what contradicts itself in the turn of a session, or in its inbox."""
    return [*_turn(header), *_inbox(header)]


def _turn(header: Header) -> list[Fault]:
    turn, now = header.stored.turn, header.stored.read_time
    if turn is None:
        if "inbox" not in header.raw:
            return []
        return [header.fault("FSCK118", "turn", "is missing, and the session has an inbox")]
    found = []
    if not turn.fence:
        found.append(header.fault("FSCK118", "turn.fence", "is 0 after a turn"))
    if bool(turn.holder) != (turn.until is not None):
        says = "is set without until" if turn.holder else "is missing, and until is set"
        found.append(header.fault("FSCK118", "turn.holder", says))
    if turn.abort and turn.until is None:
        found.append(header.fault("FSCK118", "turn.abort", "is set after the end"))
    if turn.until is not None and turn.until > now + MAX_LEASE_S + _DRIFT_S:
        says = f"is {turn.until - now:.0f} s ahead, a lease has at most {MAX_LEASE_S:.0f} s"
        found.append(header.fault("FSCK118", "turn.until", says))
    return found


def _inbox(header: Header) -> list[Fault]:
    texts = header.stored.inbox
    ids, unreadable = [], 0
    for text in texts:
        try:
            waiting = WaitingMessage.parse(text)
            types.Content.model_validate_json(json.dumps(waiting.message))
            ids.append(waiting.id)
        except (StoredDataError, ValidationError):
            unreadable += 1
    found = []
    if unreadable:
        says = f"has {len(texts)} messages, of which {unreadable} cannot be read: they stop each turn"
        found.append(header.fault("FSCK119", "inbox", says))
    if len(set(ids)) < len(ids):
        found.append(header.fault("FSCK119", "inbox.id", "has a message more than once"))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if len(texts) > MAX_WAITING or size > MAX_WAITING_BYTES:
        says = f"is {len(texts)} messages of {size} bytes; {MAX_WAITING} of {MAX_WAITING_BYTES} is the most"
        found.append(header.fault("FSCK119", "inbox.size", says))
    return found
