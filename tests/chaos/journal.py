"""Write down what a worker is about to do and what became of it, so that a killed one leaves a record."""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

Outcome: TypeAlias = Literal["acknowledged", "refused", "unknown", "failed"]
"""Done; nothing written; perhaps written, also where a worker was killed; an error that nobody expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that a worker did, or was about to do when it was killed."""

    worker: str
    kind: str
    """``create``, ``append``, ``delete``, ``restore``, ``fork``, ``describe``, ``save``, ``remember``,
    ``forget``, ``turn``, ``enqueue``, ``stop`` or ``read``."""
    intent: Mapping[str, Any]
    """What was sent."""
    began_at: int
    """When, on the machine's one monotonic clock, in nanoseconds."""
    ended_at: int | None
    """When the worker learned its outcome, ``None`` if it never did."""
    outcome: Outcome
    result: Mapping[str, Any]
    """What came back, or the error's kind and message."""


class Journal:
    """A worker's own file; each line is written at once, so that a kill leaves none out and none broken."""

    def __init__(self, path: Path, on_begin: Callable[[], None] = lambda: None) -> None:
        """Write to *path*; call *on_begin* for each operation."""
        self._on_begin = on_begin
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._count = 0

    def begin(self, kind: str, **intent: Any) -> int:
        """Write down what is about to be done; return its number."""
        self._count += 1
        self._write({"begin": self._count, "kind": kind, "at": time.monotonic_ns(), "intent": intent})
        self._on_begin()
        return self._count

    def end(self, number: int, outcome: Outcome, **result: Any) -> None:
        """Write down what became of it."""
        self._write({"end": number, "outcome": outcome, "at": time.monotonic_ns(), "result": result})

    def _write(self, entry: Mapping[str, Any]) -> None:
        os.write(self._file, json.dumps(entry, separators=(",", ":")).encode() + b"\n")


def read_journals(folder: Path) -> list[Operation]:
    """Return what all workers did, in the order in which it began."""
    operations = [operation for path in folder.glob("*.jsonl") for operation in _read(path)]
    return sorted(operations, key=lambda operation: operation.began_at)


def _read(path: Path) -> list[Operation]:
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    ends = {entry["end"]: entry for entry in entries if "end" in entry}
    return [
        Operation(
            worker=path.stem,
            kind=entry["kind"],
            intent=entry["intent"],
            began_at=entry["at"],
            ended_at=end["at"] if end else None,
            outcome=end["outcome"] if end else "unknown",
            result=end["result"] if end else {},
        )
        for entry in entries
        if "begin" in entry
        for end in [ends.get(entry["begin"])]
    ]
