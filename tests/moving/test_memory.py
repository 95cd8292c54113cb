"""Copies, exports and imports take as much memory for many sessions and long ones as for few."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from google.adk.events import Event

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.moving import copy, export_jsonl, export_parquet, import_jsonl, records_of
from gcp_adk_store.testing.conformance.running import event
from tests.moving.hardest import APP
from tests.support.lengths import at_length
from tests.support.peak_memory import Peak
from tests.support.small_pieces import move_in_pairs
from tests.support.stored import put_session

LIMITS = SessionLimits(seal_tail_bytes=1000, segment_cache_bytes=0)
"""A segment for each event."""
LARGE = "x" * 60_000
"""The text of each event: what keeps one that it has done with is seen after few."""

Measure = Callable[[Callable[[], Awaitable[object]]], Awaitable[int]]


async def events_of(count: int) -> AsyncIterator[Event]:
    """Yield so many events, and keep none."""
    for number in range(count):
        yield event(f"{number}{LARGE}", at=1_700_000_000.0 + number)


async def fill(store: Store, sessions: int, length: int) -> None:
    """Make sessions of so many events, each of a user of its own."""
    for number in range(sessions):
        of = {"app_name": APP, "user_id": f"u{number:05}", "session_id": "s"}
        await put_session(store.sessions, of, events_of(length))


async def peak_of(work: Callable[[], Awaitable[object]]) -> int:
    """Return the bytes that Python holds at most during *work*."""
    with Peak() as peak:
        await work()
    return peak.bytes


async def unmeasured(work: Callable[[], Awaitable[object]]) -> int:
    """Only do *work*: what it imports takes several times as long where memory is measured."""
    await work()
    return 0


async def peaks(folder: Path, sessions: int, length: int, *, of: Measure = peak_of) -> dict[str, int]:
    """Return the peaks of what is done with a store of so many sessions of so many events."""
    await asyncio.to_thread(folder.mkdir)

    async def exported() -> None:
        with (folder / "lines").open("wb") as file:
            records = records_of(one.sessions, APP)
            await export_jsonl(records, file, place={}, on_event=lambda _: None)

    async def imported() -> None:
        with (folder / "lines").open("rb") as file:
            await import_jsonl(file, three.sessions)

    async def as_parquet() -> None:
        await export_parquet(records_of(one.sessions, APP), folder, on_event=lambda _: None)

    async with (
        Store.local(folder / "1", session_limits=LIMITS) as one,
        Store.local(folder / "2", session_limits=LIMITS) as two,
        Store.local(folder / "3", session_limits=LIMITS) as three,
    ):
        await fill(one, sessions, length)
        work: dict[str, Callable[[], Awaitable[object]]] = {
            "copy": lambda: copy(one.sessions, two.sessions, app_name=APP, verify=True),
            "export": exported,
            "import": imported,
            "parquet": as_parquet,
        }
        return {name: await of(done) for name, done in work.items()}


@pytest.mark.parametrize(
    ("few", "more"),
    [
        pytest.param((at_length(4, 30), 1), (at_length(12, 90), 1), id="sessions"),
        pytest.param((1, at_length(6, 48)), (1, at_length(18, 144)), id="events"),
    ],
)
async def test_memory_does_not_grow_with_what_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: tuple[int, int], more: tuple[int, int]
) -> None:
    """Three times as many sessions, or as long ones, take less than half as much again.

    What a service keeps of the sessions that it used lately is beside that; it is bounded.
    """
    move_in_pairs(monkeypatch)  # so that few fill what is worked on at once
    await peaks(tmp_path / "first", 2, 2, of=unmeasured)  # what is imported and cached once
    small, large = await peaks(tmp_path / "few", *few), await peaks(tmp_path / "more", *more)

    assert [] == [name for name in small if large[name] >= 1.5 * small[name]], (small, large)
