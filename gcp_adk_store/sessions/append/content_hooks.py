"""Let hooks of the caller see and replace content before it is stored."""

import asyncio
import enum
import inspect
import logging
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from types import NoneType
from typing import Any, Final, TypeAlias

from google.adk.events import Event
from google.genai import types
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from gcp_adk_store.codec.turns import content_of
from gcp_adk_store.errors import InvalidInputError, RedactorError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.model.internal_metadata import breaks_stamps, stamps_of
from gcp_adk_store.model.json_values import Bounds, fields_of, grouped
from gcp_adk_store.model.state import own, persistent

logger = logging.getLogger(__name__)

_NAMES: Final = frozenset(
    {
        *("id", "invocation_id", "author", "branch", "isolation_scope", "node_info", "role", "name"),
        *("mime_type", "file_uri", "language", "model_version", "finish_reason", "error_code", "outcome"),
        *("interaction_id", "long_running_tool_ids", "artifact_delta", "transfer_to_agent", "usage_metadata"),
        *("rewind_before_invocation_id", "route", "live_session_id", "cache_metadata"),
        *("environment_id", "new_handle"),
    }
)
"""Fields of ADK's models that hold names, ids and numbers. Keys of a tool's arguments are not such fields."""

_OF_ADK: Final = ("google.", "fastapi.")
"""How modules begin that have ADK's models; the models of an application have content in each field."""

_UNBOUNDED: Final = Bounds(values=sys.maxsize, size=sys.maxsize)
"""What is too large is refused as it is encoded."""

_WITHOUT_TEXTS: Final = (bool, int, float, bytes, date, time, timedelta, NoneType)


def map_content(event: Event, delta: Mapping[str, Any], change: Callable[[str], str]) -> Event:
    """Return a copy of *event* with *change* applied to each text in it; *event* stays as it is.

    Its state delta is stored as *delta*. The texts are the values of all fields, at any depth, but names,
    ids, keys, bytes, ``temp:`` state and stamps of ADK's ``ToolCallIntegrityPlugin``.
    """
    stamps = {*stamps_of(event).values()}
    if stamps:
        change = _but(stamps, change)
    actions = event.actions
    changed = map_state(actions.state_delta, delta, change)
    rest = map_values(actions.model_copy(update={"state_delta": {}}), change)
    mapped: Event = map_values(event.model_copy(update={"actions": None}), change)
    return mapped.model_copy(update={"actions": rest.model_copy(update={"state_delta": changed})})


def _but(kept: AbstractSet[str], change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: text if text in kept else change(text)


def stored_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is stored of *state*; a warning in the log names what JSON cannot hold, but as a text.

    Raises:
        InvalidInputError: a key is not a string, or a value contains itself.
    """
    kept, warned = persistent(state, bounds=_UNBOUNDED)
    for warning in warned:
        logger.warning("%s", warning, extra=telemetry.log_fields())
    return kept


def map_state(
    state: Mapping[str, Any], stored: Mapping[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return what is *stored* of *state* with *change* applied to each text, and ``temp:`` keys as they are.

    A map or a list that it leaves as it is stays the caller's own, as without redactors.
    """
    return {
        key: own(value, map_values(stored[key], change)) if key in stored else value
        for key, value in state.items()
    }


def map_values(value: Any, change: Callable[[str], str]) -> Any:  # noqa: PLR0911  # one for each kind
    """Return *value* with *change* applied to each text in it that is neither a key nor a name."""
    match value:
        case enum.Enum():
            return value
        case str():
            return change(value) if value else value
        case dict():
            return {key: map_values(item, change) for key, item in value.items()}
        case list():
            return [map_values(item, change) for item in value]
        case tuple():
            return tuple(map_values(item, change) for item in value)
        case set() | frozenset():
            return grouped(type(value), [map_values(item, change) for item in sorted(value, key=repr)])
        case BaseModel():
            fields = {**value.__dict__, **(value.model_extra or {})}
            names = _NAMES if type(value).__module__.startswith(_OF_ADK) else frozenset()
            return value.model_copy(
                update={
                    name: map_values(item, change)
                    for name, item in fields.items()
                    if item is not None and name not in names
                }
            )
    return value if isinstance(value, _WITHOUT_TEXTS) else map_values(_as_json(value), change)


def _as_json(value: Any) -> Any:
    """Return another object as JSON has it.

    Raises:
        InvalidInputError: JSON cannot hold it, or it can be read once, and redactors read it twice.
    """
    try:
        if not isinstance(value, Iterator):
            return to_jsonable_python(value, by_alias=False)
    except (ValueError, RecursionError):
        pass
    raise InvalidInputError(
        f"an event holds a {type(value).__name__}, which redactors cannot read before it is stored: pass "
        "texts, numbers, lists and maps"
    )


ContentRedactor: TypeAlias = Callable[[Sequence[str]], Sequence[str] | Awaitable[Sequence[str]]]
"""Returns as many texts as it gets, in their order: a function, which runs in a thread, or a coroutine.

It must return the same texts each time: an event that is delivered again is recognised by its stored text.
"""


class RedactedCallWarning(UserWarning):
    """Redactors change arguments that ADK's ``ToolCallIntegrityPlugin`` has stamped: it refuses the calls."""


class ContentHooks:
    """The redactors of one service, in their order; a service without redactors has no hooks."""

    def __init__(self, redactors: Sequence[ContentRedactor], *, timeout_s: float) -> None:
        """Prepare.

        Raises:
            InvalidInputError: one of *redactors* cannot be called.
        """
        given: Any = redactors
        if not isinstance(given, list | tuple) or not all(callable(one) for one in given):
            raise InvalidInputError("redactors must be functions of a sequence of texts")
        self._redactors: tuple[ContentRedactor, ...] = tuple(redactors)
        self._timeout_s = timeout_s
        self._has_warned = False

    async def of_event(self, event: Event) -> Event:
        """Return *event* as it may be stored, a copy.

        Warns once, with a ``RedactedCallWarning``, if arguments that ADK's plugin has stamped change.

        Raises:
            RedactorError: a redactor failed, or took too long.
        """
        delta = stored_values(event.actions.state_delta)
        redacted: Event = await self._apply(lambda change: map_content(event, delta, change))
        if not self._has_warned and breaks_stamps(event, redacted):
            self._has_warned = True
            warnings.warn(
                "redactors change arguments of tool calls that ToolCallIntegrityPlugin has stamped: it "
                "refuses such a call and each later turn of its session; let redactors leave arguments of "
                "tools as they are, or do without the plugin",
                RedactedCallWarning,
                stacklevel=2,
            )
        return redacted

    async def of_state(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return *state* as it may be stored.

        Raises:
            RedactorError: as :meth:`of_event`.
        """
        stored = stored_values(state)
        mapped: Mapping[str, Any] = await self._apply(lambda change: map_state(state, stored, change))
        return mapped

    async def of_values(self, value: Any) -> Any:
        """Return JSON values as they may be stored.

        Raises:
            RedactorError: as :meth:`of_event`.
        """
        return await self._apply(lambda change: map_values(value, change))

    async def of_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message of the inbox, ADK's ``Content`` as JSON, as it may be stored.

        Raises:
            RedactorError: as :meth:`of_event`.
        """
        content = content_of(message)
        mapped: types.Content = await self._apply(lambda change: map_values(content, change))
        return fields_of(mapped, exclude_none=True)

    async def _apply(self, mapping: Callable[[Callable[[str], str]], Any]) -> Any:
        """Return what *mapping* makes of its texts, once they went through all redactors."""
        texts: list[str] = []

        def note(text: str) -> str:
            texts.append(text)
            return text

        try:
            same = mapping(note)
        except RecursionError as exc:
            raise InvalidInputError("a value contains itself, or nests too deep") from exc
        if not texts:
            return same
        now: Sequence[str] = texts
        for number, redactor in enumerate(self._redactors):
            now = await self._called(number, redactor, now)
        replaced: Iterator[str] = iter(now)
        return mapping(lambda _: next(replaced))

    async def _called(self, number: int, redactor: ContentRedactor, texts: Sequence[str]) -> Sequence[str]:
        name = f"redactors[{number}]"
        try:
            async with asyncio.timeout(self._timeout_s):
                found: Any = await _result(redactor, list(texts))
        except TimeoutError as exc:
            raise RedactorError(
                f"{name} took over {self._timeout_s:g} s, SessionLimits.redactor_timeout_s; nothing written"
            ) from exc
        except RedactorError:
            raise
        except Exception as exc:  # noqa: BLE001  # the caller's function raises any
            # From None: the error of a redactor may quote the content.
            raise RedactorError(f"{name} failed with {type(exc).__name__}; nothing was written") from None
        is_right = isinstance(found, Sequence) and not isinstance(found, str) and len(found) == len(texts)
        if not is_right or not all(isinstance(text, str) for text in found):
            raise RedactorError(
                f"{name} must return {len(texts)} texts, as many as it got; nothing was written"
            )
        return [str(text) for text in found]


async def _result(redactor: ContentRedactor, texts: Sequence[str]) -> Any:
    call = getattr(redactor, "__call__", redactor)  # noqa: B004  # an object whose call is a coroutine function
    if inspect.iscoroutinefunction(redactor) or inspect.iscoroutinefunction(call):
        return await redactor(texts)  # type: ignore[misc]
    found = await asyncio.to_thread(redactor, texts)
    return await found if inspect.isawaitable(found) else found
