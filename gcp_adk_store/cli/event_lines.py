"""Format events and state as lines that are safe for a terminal."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.filesize import decimal

from gcp_adk_store.cli.terminal import in_one_line, moment, visible

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.genai import types

_CUT: Final = 2_000
"""The limit of shown characters of one text or value."""

_TOLD: Final = frozenset(
    {"id", "invocation_id", "author", "timestamp", "content", "actions", "error_code", "error_message"}
    | {"node_info", "partial", "turn_complete", "branch"}
)
"""Fields of an event that have their own line, or have no meaning after storage."""


def event_lines(event: "Event") -> Iterator[str]:
    """Yield lines about an event: author and time, then its content and changes, indented.

    A text of more than 2,000 characters is cut, with a note; a line names the fields without a line.
    """
    yield f"{moment(event.timestamp)} {in_one_line(event.author)}"
    parts = (event.content.parts if event.content else None) or []
    told = [line for part in parts for line in _part_lines(part)]
    told += [f"state: {line}" for line in json_lines(event.actions.state_delta)]
    told += [
        f"artifact: {in_one_line(name)} version {version}"
        for name, version in event.actions.artifact_delta.items()
    ]
    if event.error_code or event.error_message:
        told += _lines(f"error {event.error_code or ''}: {event.error_message or ''}")
    more = [*_more(event, _TOLD), *_more(event.actions, {"state_delta", "artifact_delta"})]
    if more:
        told.append(f"and {', '.join(more)}: --json shows all")
    for line in told:
        yield f"  {line}"


def json_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each of *values* by its name, long ones cut."""
    for name in sorted(values):
        yield f"{in_one_line(name)} = {_json(values[name])}"


def _part_lines(part: "types.Part") -> Iterable[str]:
    if part.text is not None:
        return _lines(f"thinks: {part.text}" if part.thought else part.text)
    if part.function_call is not None:
        return [f"calls {in_one_line(part.function_call.name or '')} {_json(part.function_call.args)}"]
    if part.function_response is not None:
        answer = part.function_response
        return [f"{in_one_line(answer.name or '')} answers {_json(answer.response)}"]
    if part.inline_data is not None:
        kind = part.inline_data.mime_type or "no type"
        return [f"data: {in_one_line(kind)}, {decimal(len(part.inline_data.data or b''))}"]
    return [f"part: {_json(part.model_dump(mode='json', exclude_none=True))}"]


def _lines(text: str) -> list[str]:
    return visible(_cut(text)).split("\n")


def _json(value: Any) -> str:
    return in_one_line(_cut(json.dumps(value, ensure_ascii=False, default=str)))


def _cut(text: str) -> str:
    left = len(text) - _CUT
    return text if left <= 0 else f"{text[:_CUT]}... and {left:,} characters more: --json shows all"


def _more(told: Any, known: Iterable[str]) -> list[str]:
    """Return the names of fields that have a value but no line."""
    return [name for name in type(told).model_fields if name not in known and getattr(told, name)]
