"""Spell places in a listing as texts that a caller can hand through."""

import base64
import json

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import SessionKey, UserKey


def encode_cursor(last_update_time: float, key: SessionKey) -> str:
    """Return the place after the session *key* in a listing of its user."""
    place = json.dumps([last_update_time, key.session], separators=(",", ":"))
    return base64.urlsafe_b64encode(place.encode()).decode()


def decode_cursor(text: str, owner: UserKey) -> tuple[float, SessionKey]:
    """Return the place that :func:`encode_cursor` spelled, in a listing of *owner*.

    Raises:
        InvalidInputError: *text* is no such place.
    """
    try:
        time, session = json.loads(base64.urlsafe_b64decode(text.encode()))
        return float(time), SessionKey(app=owner.app, user=owner.user, session=session)
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(f"cursor {text[:40]!r} is none that a page of sessions had") from exc
