"""Encode the turn of a session and the messages that wait for one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from google.genai import types

from gcp_adk_store.codec.encode import UNREADABLE, FieldValue, invalid_places
from gcp_adk_store.codec.writes import Write, update
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.json_values import (
    MAX_DEPTH,
    Bounds,
    decode_surrogates,
    encode_surrogates,
    fields_of,
    has_surrogates,
    map_texts,
    not_json,
    weigh,
)
from gcp_adk_store.model.session_fields import MAX_WAITING_BYTES, Turn
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import is_light


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMessage:
    """A message that waits in the inbox of a session."""

    id: str
    """The id that its event gets."""
    message: Mapping[str, Any]
    """ADK's ``Content``, as JSON."""
    time: float
    """When it was sent, in Unix seconds of Firestore's clock."""
    state_delta: Mapping[str, Any] | None = None
    """What its event changes."""

    def __str__(self) -> str:
        try:
            return json.dumps(
                {"id": self.id, "message": self.message, "time": self.time, "state_delta": self.state_delta},
                allow_nan=False,
            )
        except (TypeError, ValueError, RecursionError) as exc:
            held = {"message": self.message, "state_delta": self.state_delta}
            raise not_json(held, what="the message or its state_delta") from exc

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the message of :meth:`__str__`.

        Raises:
            StoredDataError: it is another text.
        """
        try:
            fields = json.loads(text) if len(text) <= MAX_WAITING_BYTES else None
        except (ValueError, RecursionError):
            fields = None
        match fields:
            case {
                "id": str(id_),
                "message": dict(message),
                "time": int() | float() as time,
                "state_delta": None | dict() as delta,
            }:
                return cls(id=id_, message=message, time=time, state_delta=delta)
        raise _damaged(f"a message of {len(text)} characters")


def find_waiting(inbox: Sequence[str], message: str) -> str | None:
    """Return the text in *inbox* of the message with the id of *message*; ``None`` if it does not wait.

    Raises:
        StoredDataError: a text is not a message.
    """
    if not inbox or len(message) > MAX_WAITING_BYTES:
        return None
    id_ = WaitingMessage.parse(message).id
    return next((text for text in inbox if WaitingMessage.parse(text).id == id_), None)


def message_of(content: types.Content) -> dict[str, Any]:
    """Return the :attr:`WaitingMessage.message` of *content*.

    Raises:
        InvalidInputError: its event cannot be stored; or ADK's runner does not take it, because it has no
            parts, or calls a function.
    """
    if not content.parts:
        raise InvalidInputError("the message has no parts, and no runner takes it; add a text, or a response")
    if any(part.function_call for part in content.parts):
        raise InvalidInputError("the message has a function_call, which no user makes; remove this part")
    if not is_light(content):
        weigh(content, bounds=Bounds(), what="the message", max_depth=MAX_DEPTH - 1)  # of its event
    return fields_of(content, exclude_none=True)


def content_of(message: Mapping[str, Any]) -> types.Content:
    """Return the content of a :attr:`WaitingMessage.message`, with the lone surrogates that pydantic refuses.

    Raises:
        StoredDataError: *message* is not a ``Content``.
    """
    encodes = has_surrogates(message)
    text = json.dumps(map_texts(dict(message), encode_surrogates) if encodes else message)
    try:
        content = types.Content.model_validate_json(text)
    except UNREADABLE as exc:
        # From None: pydantic's error quotes the content.
        raise _damaged(f"a message without content, see {invalid_places(exc)},") from None
    return map_texts(content, decode_surrogates) if encodes else content


def _damaged(what: str) -> StoredDataError:
    return StoredDataError(
        f"{what} in the inbox of the session is damaged, and stops turns; "
        "gcp-adk-store fsck counts such messages: restore the document from a backup"
    )


def turn_fields(turn: Turn) -> dict[str, FieldValue]:
    """Return the map ``turn`` of a session document."""
    fields: dict[str, FieldValue] = {"fence": turn.fence}
    if turn.until is not None:
        fields |= {"holder": turn.holder, "until": datetime.fromtimestamp(turn.until, UTC)}
    if turn.abort:
        fields["abort"] = True
    return fields


def ended(turn: Turn | None) -> dict[str, FieldValue]:
    """Return the fields that end a session's *turn* in a commit that changes its history, as a restore does.

    An append of its holder gets TurnLostError from then on. Without a turn, nothing is to be written.
    """
    return {} if turn is None else {"turn": turn_fields(turn.ended)}


def write_turn(
    path: str, stored: StoredSession, turn: Turn | None = None, *, inbox: Sequence[str] | None = None
) -> Write:
    """Return the write that gives the session at *path* another *turn*, if it is as *stored*.

    It also replaces the messages that wait by those of *inbox*. What is ``None`` stays.
    """
    fields: dict[str, FieldValue] = {} if turn is None else {"turn": turn_fields(turn)}
    if inbox is not None:
        fields["inbox"] = list(inbox)
    return update(path, fields, must=stored.update_time, life=stored.epoch)
