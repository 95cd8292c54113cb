"""Turn events and state into what storage takes, with large values taken out as payloads."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.adk.events import Event

from gcp_adk_store.codec.events import EncodedEvent, bounds_of, encode_event
from gcp_adk_store.codec.spilling import Spilled, spill_scopes
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.sessions import Append
from gcp_adk_store.model.state import persistent, split_scopes
from gcp_adk_store.model.weights import is_light
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.settings import SessionLimits

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpelledEvent:
    """An event on its way into storage."""

    append: Append
    change: Spilled
    """Its change of state, and all payloads that must be written before it."""
    delta: dict[str, Any]
    """The part of its change of state that is stored, as the caller's session keeps it."""
    encoded: EncodedEvent

    def held(self, event: Event) -> Event:
        """Return *event* as a later read returns it: the same object if JSON changes nothing in it."""
        # To compare a large one would hold up the loop.
        return event if not self.encoded.is_payload and event == self.encoded.event else self.encoded.event


class Spelling:
    """Limits that events and state are spelled within, and where their payloads go."""

    def __init__(self, limits: SessionLimits, place: PayloadPlace) -> None:
        self._limits = limits
        self._place = place

    async def of_state(self, state: Mapping[str, Any]) -> Spilled:
        """Return *state* as it is stored.

        Raises:
            InvalidInputError: a key or a value cannot be stored.
        """
        light = is_light(state)
        _, spilled = await apart(lambda: self._spill(state, light=light), light=light)
        return spilled

    async def of_event(self, event: Event) -> SpelledEvent:
        """Return *event* as it is stored.

        Raises:
            InvalidInputError: the event is not JSON, or a piece of it is too large.
        """
        light = is_light(event)
        delta, encoded, change = await apart(lambda: self._encode(event, light=light), light=light)
        if encoded.payloads:
            change = replace(change, session=[*change.session, *encoded.payloads])
        append = Append(
            text=encoded.text,
            timestamp=encoded.event.timestamp,
            delta=change.state,
            spilled=frozenset(payload.ref.place for payload in change.session),
        )
        return SpelledEvent(append=append, change=change, delta=delta, encoded=encoded)

    def _encode(self, event: Event, *, light: bool) -> tuple[dict[str, Any], EncodedEvent, Spilled]:
        delta, change = self._spill(event.actions.state_delta, light=light)
        encoded = encode_event(event, state_delta=delta, limits=self._limits, place=self._place, light=light)
        return delta, encoded, change

    def _spill(self, state: Mapping[str, Any], *, light: bool) -> tuple[dict[str, Any], Spilled]:
        """Return the part of *state* that is stored, and how it is stored."""
        kept, warnings = persistent(state, bounds=bounds_of(self._limits), light=light)
        for warning in warnings:
            logger.warning("%s", warning, extra=telemetry.log_fields())
        scopes = split_scopes(kept)
        return kept, spill_scopes(scopes, limits=self._limits, place=self._place, light=light)
