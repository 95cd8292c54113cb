"""Write sessions as two Parquet files, ``sessions.parquet`` and ``events.parquet``; needs the extra."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from google.adk.events import Event

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.imports import how_to_install
from gcp_adk_store.kernel.calls import checks_arguments
from gcp_adk_store.model.json_values import finite
from gcp_adk_store.model.keys import whole_text
from gcp_adk_store.moving.canonical import Digest, canonical_event, canonical_state
from gcp_adk_store.moving.records import Record
from gcp_adk_store.moving.session_files import Exported

SESSIONS: Final = "sessions.parquet"
EVENTS: Final = "events.parquet"

_ROWS: Final = 1000
_BYTES: Final = 16 * 1024 * 1024
"""A group of rows ends after so many rows or bytes of events, and is written."""

_TIME: Final = "timestamp"
_TEXT: Final = "string"
_TEXTS: Final = "texts"
_NUMBER: Final = "int64"

_IDS: Final = dict.fromkeys(("app_name", "user_id", "session_id"), _TEXT)

SESSION_COLUMNS: Final = {
    **_IDS,
    "title": _TEXT,
    "labels": _TEXT,
    "create_time": _TIME,
    "last_update_time": _TIME,
    "events": _NUMBER,
    "digest": _TEXT,
    "state": _TEXT,
}
"""Columns of sessions; ``labels`` and ``state`` are JSON."""

EVENT_COLUMNS: Final = {
    **_IDS,
    "position": _NUMBER,
    "event_id": _TEXT,
    "invocation_id": _TEXT,
    "author": _TEXT,
    "branch": _TEXT,
    "timestamp": _TIME,
    "text": _TEXT,
    "function_calls": _TEXTS,
    "function_responses": _TEXTS,
    "model_version": _TEXT,
    "input_tokens": _NUMBER,
    "output_tokens": _NUMBER,
    "total_tokens": _NUMBER,
    "error_code": _TEXT,
    "state_delta": _TEXT,
    "event": _TEXT,
}
"""Columns of events; ``state_delta`` and ``event`` are JSON, the latter the whole event."""


Row = tuple[Literal["events", "sessions"], dict[str, Any]]
"""The table of a row, and the row, with the columns above."""


@checks_arguments
async def export_parquet(
    records: AsyncIterator[Record], folder: Path, *, on_event: Callable[[int], object] | None = None
) -> Exported:
    """Write *records* to two files in *folder*, which appear when both are whole.

    Raises:
        InvalidInputError: the extra ``parquet`` is not installed.
        OSError: the files cannot be written.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    sessions = _Table(folder / SESSIONS, SESSION_COLUMNS)
    events = _Table(folder / EVENTS, EVENT_COLUMNS)
    with sessions.opened(), events.opened():
        async for record in records:
            async for name, row in rows_of_record(record):
                if name == "sessions":
                    sessions.add(row, size=len(row["state"]))
                    continue
                events.add(row, size=len(row["event"]))
                if on_event is not None:
                    on_event(events.rows)
    for table in (events, sessions):
        table.publish()
    return Exported(sessions.rows, events.rows)


def schema(columns: Mapping[str, str]) -> Any:
    """Return the schema of pyarrow for :data:`SESSION_COLUMNS` or :data:`EVENT_COLUMNS`.

    Raises:
        InvalidInputError: the extra ``parquet`` is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError as exc:
        says = f"Parquet needs pyarrow; install the extra: {how_to_install('parquet')}"
        raise InvalidInputError(says) from exc
    kinds = {
        _TEXT: pa.string(),
        _TEXTS: pa.list_(pa.string()),
        _NUMBER: pa.int64(),
        _TIME: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


class _Table:
    """One file, written a group of rows at a time."""

    def __init__(self, path: Path, columns: dict[str, str]) -> None:
        self._schema = schema(columns)
        import pyarrow as pa  # noqa: PLC0415  # of an extra
        from pyarrow import parquet  # noqa: PLC0415

        self._path = path
        self._unfinished = path.with_name(f".{path.name}.part")
        self._to_table = pa.Table.from_pylist
        self._open = parquet.ParquetWriter
        self._writer: Any = None
        self._unwritten: list[dict[str, Any]] = []
        self._bytes = 0
        self.rows = 0

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Write within a block; a block that fails leaves no file."""
        self._writer = self._open(self._unfinished, self._schema, compression="zstd")
        try:
            yield
            self._flush()
            self._writer.close()
        except BaseException:
            self._writer.close()
            self._unfinished.unlink(missing_ok=True)
            raise

    def add(self, row: dict[str, Any], *, size: int) -> None:
        self._unwritten.append(row)
        self._bytes += size
        self.rows += 1
        if len(self._unwritten) >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def publish(self) -> None:
        self._unfinished.replace(self._path)

    def _flush(self) -> None:
        if self._unwritten:
            self._writer.write_table(self._to_table(self._unwritten, schema=self._schema))
        self._unwritten, self._bytes = [], 0


async def rows_of_record(record: Record) -> AsyncIterator[Row]:
    """Yield the rows of the events of a session, then that of the session."""
    digest = Digest()
    async for event in record.events:
        encoded = canonical_event(event)
        yield "events", event_row(record, digest.events, event, encoded.decode())
        digest.add(encoded)
    yield "sessions", session_row(record, digest)


def session_row(record: Record, digest: Digest) -> dict[str, Any]:
    """Return the row of a session of whose events *digest* is."""
    header = record.header
    return {
        **record.header.key.ids,
        "title": header.title,
        "labels": json.dumps(dict(header.labels), sort_keys=True),
        "create_time": None if header.create_time is None else _time(header.create_time),
        "last_update_time": _time(header.last_update_time),
        "events": digest.events,
        "digest": digest.of_events(),
        "state": canonical_state(finite(dict(header.state))).decode(),
    }


def event_row(record: Record, position: int, event: Event, encoded: str) -> dict[str, Any]:
    """Return the row of an event, which is *encoded* canonically."""
    parts = (event.content and event.content.parts) or []
    usage = event.usage_metadata
    delta = json.loads(encoded).get("actions", {}).get("state_delta", {})
    return {
        **record.header.key.ids,
        "position": position,
        "event_id": _text(event.id),
        "invocation_id": _text(event.invocation_id),
        "author": _text(event.author),
        "branch": _text(event.branch),
        "timestamp": _time(event.timestamp),
        "text": _text("".join(part.text for part in parts if part.text and not part.thought)),
        "function_calls": [_text(part.function_call.name) for part in parts if part.function_call],
        "function_responses": [
            _text(part.function_response.name) for part in parts if part.function_response
        ],
        "model_version": _text(event.model_version),
        "input_tokens": _number(usage.prompt_token_count) if usage else None,
        "output_tokens": _number(usage.candidates_token_count) if usage else None,
        "total_tokens": _number(usage.total_token_count) if usage else None,
        "error_code": _text(event.error_code),
        "state_delta": canonical_state(delta).decode(),
        "event": encoded,
    }


def _text(text: str | None) -> str | None:
    """Return *text* with U+FFFD for lone surrogates, which Parquet cannot hold."""
    return None if text is None else whole_text(text)


def _number(number: int | None) -> int | None:
    """Return *number*; ``None`` for one that the column cannot hold."""
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _time(seconds: float) -> datetime | None:
    """Return Unix time in seconds; ``None`` for one that the column cannot hold."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
