"""Show a session as a conversation, find events in it, and show what differs between two texts."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from google.adk.events import Event
from google.genai import types

from gcp_adk_store.costs.prices import US_CENTRAL1
from gcp_adk_store.inspector.masking import Mask, Shown, json_text, preview_of
from gcp_adk_store.inspector.requests import MODEL_REQUEST
from gcp_adk_store.model.json_values import fields_of
from gcp_adk_store.model.keys import moment, whole_text
from gcp_adk_store.model.payloads import PayloadRef
from gcp_adk_store.sessions.listing.usage import TokenUsage, tokens_of

MAX_PARTS: Final = 200
"""Parts of one event on a page of events."""

MAX_NAMES: Final = 50
"""State keys and artifacts of one event on a page of events."""

MAX_NAME: Final = 200
"""Characters of what ran, in a log of code."""

LOG: Final = "ces_log"
"""Where the metadata of an event has the logs of code."""

NONE_MISSING: Final[Mapping[tuple[int, ...], PayloadRef]] = {}
"""Payloads by their place that an event lacks which has all of them."""

Kind = Literal["text", "thought", "call", "response", "blob", "uri", "code", "outcome", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """A part of an event's content."""

    kind: Kind
    index: int
    """Its place in the event."""
    name: str = ""
    """The name of a tool or of a kind of part; of a file only if content is shown."""
    id: str = ""
    """The id of a call."""
    body: Shown | None = None
    """The text, the arguments or the result; ``None`` for bytes."""
    mime_type: str = ""
    size: int = 0
    """Bytes of a blob."""
    preview: str = "none"
    """How a blob is shown: see :func:`~gcp_adk_store.inspector.masking.preview_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """An event of a conversation."""

    id: str
    number: int | None
    """Its number in the session from 1 on, if known."""
    place: str | None
    """The cursor at which an iteration forward begins with this event, if known."""
    author: str
    is_user: bool
    invocation_id: str
    branch: str
    moment: str
    parts: tuple[PartView, ...]
    parts_left: int
    error: Shown | None
    error_code: str
    state_keys: tuple[str, ...]
    artifacts: tuple[tuple[str, int], ...]
    request: int | None
    """The version of :data:`MODEL_REQUEST` that it answers."""
    tokens: TokenUsage | None
    logs: tuple[tuple[str, Shown], ...] = ()
    """What code of an agent app printed, warned of and failed with, by what ran."""
    marks: tuple[str, ...] = field(default=())
    """What else it says of itself, such as that it ends a turn, or transfers to another agent."""


def event_view(
    event: Event,
    mask: Mask,
    *,
    number: int | None = None,
    place: str | None = None,
    missing: Mapping[tuple[int, ...], PayloadRef] = NONE_MISSING,
) -> EventView:
    """Return what a page shows of *event*, which lacks *missing* payloads, its content under *mask*."""
    parts = (event.content and event.content.parts) or []
    delta = event.actions.state_delta
    saved = dict(event.actions.artifact_delta)
    request = saved.pop(MODEL_REQUEST, None)
    usage = event.usage_metadata
    return EventView(
        id=event.id,
        number=number,
        place=place,
        author=event.author,
        is_user=event.author == "user",
        invocation_id=event.invocation_id,
        branch=event.branch or "",
        moment=moment(event.timestamp),
        parts=tuple(
            part_view(part, index, mask, missing=missing.get((index,)))
            for index, part in enumerate(parts[:MAX_PARTS])
        ),
        parts_left=max(0, len(parts) - MAX_PARTS),
        error=mask.over(event.error_message) if event.error_message else None,
        error_code=str(event.error_code or ""),
        state_keys=tuple(list(delta)[:MAX_NAMES]),
        artifacts=tuple(list(saved.items())[:MAX_NAMES]),
        request=request,
        tokens=None if usage is None else tokens_of(usage),
        logs=tuple(_logs(event, mask)),
        marks=tuple(_marks(event)),
    )


def part_view(part: types.Part, index: int, mask: Mask, *, missing: PayloadRef | None = None) -> PartView:
    """Return what a page shows of one part, whose bytes may be *missing*."""
    view: dict[str, Any] = {"kind": "other", "index": index}
    if part.text is not None:
        view |= {"kind": "thought" if part.thought else "text", "body": mask.over(part.text)}
    elif call := part.function_call:
        body = mask.over_json(call.args)
        view |= {"kind": "call", "name": call.name or "", "id": call.id or "", "body": body}
    elif response := part.function_response:
        body = mask.over_json(response.response)
        view |= {"kind": "response", "name": response.name or "", "id": response.id or "", "body": body}
    elif blob := part.inline_data:
        data, mime_type = blob.data or b"", blob.mime_type or ""
        name = (blob.display_name or "") if mask.lifted else ""
        view |= {"kind": "blob", "name": name, "mime_type": mime_type}
        view["size"] = len(data) if missing is None else missing.size
        view["preview"] = preview_of(mime_type, data[:64])
    elif file := part.file_data:
        name = (file.display_name or "") if mask.lifted else ""
        view |= {"kind": "uri", "name": name, "mime_type": file.mime_type or ""}
        view["body"] = mask.over(file.file_uri or "")
    elif code := part.executable_code:
        view |= {"kind": "code", "name": str(code.language or ""), "body": mask.over(code.code or "")}
    elif result := part.code_execution_result:
        view |= {"kind": "outcome", "name": str(result.outcome or ""), "body": mask.over(result.output or "")}
    else:
        view["body"] = mask.over_json(fields_of(part, exclude_none=True))
    return PartView(**view)


def _logs(event: Event, mask: Mask) -> Iterable[tuple[str, Shown]]:
    """Yield the logs of the runtime of agent apps in *event*, without entries that are not logs."""
    listed: Any = (event.custom_metadata or {}).get(LOG)
    for log in listed[:MAX_NAMES] if isinstance(listed, list) else ():
        if isinstance(log, dict):
            warned: Any = log.get("warnings")
            warnings: list[Any] = warned if isinstance(warned, list) else []
            lines = [log.get("printed"), *(f"warning: {each}" for each in warnings), log.get("failure")]
            text = "\n".join(str(each).rstrip("\n") for each in lines if each)
            what = f"{log.get('agent', '')}: {log.get('what', '')}"
            yield what[:MAX_NAME], mask.over(text)


def _marks(event: Event) -> Iterable[str]:
    """Yield what an event says of itself beside its content."""
    actions = event.actions
    if event.partial:
        yield "partial"
    if event.interrupted:
        yield "interrupted"
    if event.turn_complete:
        yield "turn complete"
    if actions.escalate:
        yield "escalates"
    if actions.transfer_to_agent:
        yield f"transfers to {actions.transfer_to_agent}"
    if actions.compaction:
        yield "compaction"
    if actions.rewind_before_invocation_id:
        yield f"rewinds before {actions.rewind_before_invocation_id}"
    if event.long_running_tool_ids:
        yield f"{len(event.long_running_tool_ids)} long-running tools"


def price_of_writes(count: int) -> float:
    """Return the list price of *count* writes of documents in us-central1, in US dollars."""
    return count * US_CENTRAL1.writes_per_100k / 100_000


MAX_LINES: Final = 2_000
"""Lines of each text that are compared; difflib takes a quadratic time at worst."""

Sign = Literal["same", "added", "removed", "skipped"]
_SIGNS: Final[dict[str, Sign]] = {"+": "added", "-": "removed", "@": "skipped"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a comparison."""

    sign: Sign
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What changed between two texts."""

    lines: tuple[Line, ...] | None
    """The changed lines with some around them; ``None`` while they are masked."""
    is_cut: bool
    """Whether only the starts of the texts were compared."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return self.lines == ()


def difference(before: str, after: str, mask: Mask) -> Difference:
    """Return what changed from *before* to *after*."""
    old, new = before.splitlines(), after.splitlines()
    is_cut = max(len(old), len(new)) > MAX_LINES
    if not mask.lifted:
        return Difference(lines=None, is_cut=is_cut)
    changes = difflib.unified_diff(old[:MAX_LINES], new[:MAX_LINES], lineterm="", n=3)
    lines = [
        Line(_SIGNS.get(line[:1], "same"), whole_text(line if line.startswith("@") else line[1:])[:2_000])
        for line in list(changes)[2:]
    ]
    return Difference(lines=tuple(lines), is_cut=is_cut)


SEARCHED: Final = 1_000
"""Events that one page looks at."""
HITS: Final = 50
"""Events that one page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an event must have; an empty text asks for nothing."""

    text: str = ""
    """Within texts, arguments, results and messages of errors, without regard to case."""
    tool: str = ""
    """The name of a tool that it calls, or has the result of."""
    author: str = ""
    errors: bool = False
    """Whether it must be an error, or have the result of a tool with the key ``error``."""

    def __bool__(self) -> bool:
        return bool(self.text or self.tool or self.author or self.errors)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of a request for the same."""
        given = {"q": self.text, "tool": self.tool, "author": self.author, "errors": "1" * self.errors}
        return {name: value for name, value in given.items() if value}

    def is_refused(self, mask: Mask) -> bool:
        """Return whether it asks for text under a mask, which a search would reveal."""
        return bool(self.text) and not mask.lifted

    def fits(self, event: Event) -> bool:
        """Return whether *event* has all of it."""
        # JSON escapes quotes and line breaks, also those of arguments and results.
        texts = {self.text.casefold(), json_text(self.text)[1:-1].casefold()}
        return (
            self.author in ("", event.author)
            and (not self.tool or self.tool in _tools(event))
            and (not self.errors or failed(event))
            and (not self.text or any(text in each.casefold() for each in _texts(event) for text in texts))
        )


def _tools(event: Event) -> set[str | None]:
    called = {each.name for each in event.get_function_calls()}
    return called | {each.name for each in event.get_function_responses()}


def failed(event: Event) -> bool:
    """Return whether *event* is an error, or has the result of a tool with the key ``error``."""
    if event.error_code or event.error_message:
        return True
    return any("error" in (each.response or {}) for each in event.get_function_responses())


def _texts(event: Event) -> Iterator[str]:
    yield event.error_message or ""
    for part in (event.content and event.content.parts) or ():
        yield part.text or ""
        if part.function_call is not None:
            yield json_text(part.function_call.args)
        if part.function_response is not None:
            yield json_text(part.function_response.response)
