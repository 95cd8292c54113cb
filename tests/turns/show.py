"""Let processes send messages to one session while holders are stopped and killed; check what is stored.

``make turns`` shows it at length: 2, 4 and 8 processes, in a folder and on the emulator.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from google.adk.events import Event

from gcp_adk_store import Store
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, firestore_emulator
from gcp_adk_store.turns import TurnStatus
from gcp_adk_store.turns.lease import RENEWALS
from tests.services.racing_process import At, open_store
from tests.support.ready_processes import READY
from tests.support.watching import once
from tests.turns.worker import LEASE_S, WHO, Task, runner_of, work

LONGEST_S: Final = 170


@dataclass
class Shown:
    """What the processes were told, and what is stored at the end."""

    told: list[dict[str, Any]] = field(default_factory=list)
    """What became of each message, as its process was told."""
    taken_at: dict[int, float] = field(default_factory=dict)
    """When each turn was taken, by its fence, on the machine's one monotonic clock."""
    events: list[Event] = field(default_factory=list)
    stopped: int = 0
    """The fence of the turn whose holder was stopped past its lease."""
    killed: int = 0

    @property
    def waits_s(self) -> list[float]:
        """Seconds until the first event, of messages that waited for their turn; sorted."""
        return sorted(one["wait_s"] for one in self.told if one.get("wait_s") is not None)

    @property
    def lost(self) -> list[dict[str, Any]]:
        """Messages whose turn was lost, as their processes told."""
        return [one for one in self.told if one["became"] == "lost"]

    @property
    def lost_at_work(self) -> list[dict[str, Any]]:
        """Those whose process ran for long enough to renew the lease: on a machine with time to spare, none.

        A process begins to renew when a part of the lease is over. The rest of the lease is its time for it.
        """
        return [one for one in self.lost if self._paused_s(one) < LEASE_S - LEASE_S / RENEWALS]

    def check(self) -> None:
        """Check that no two invocations interleave, and that each message is there once and in order."""
        blocks = [one.invocation_id for one in self.events]
        firsts = [id_ for at, id_ in enumerate(blocks) if at == 0 or blocks[at - 1] != id_]
        assert len(set(firsts)) == len(firsts), "invocations interleave"
        said = [_said(one) for one in self.events if one.author == "user"]
        counts = Counter(said)
        assert max(counts.values()) == 1, f"stored twice: {counts.most_common(3)}"
        acknowledged = [one["said"] for one in self.told if one["became"] in ("answered", "waits")]
        assert set(acknowledged) <= set(said), f"missing: {set(acknowledged) - set(said)}"
        for name in {one.rpartition("-")[0] for one in said}:
            numbers = [int(one.rpartition("-")[2]) for one in said if one.rpartition("-")[0] == name]
            assert sorted(numbers) == numbers, f"{name} is out of order: {numbers}"
        answers = Counter(one.invocation_id for one in self.events if one.author != "user")
        cut = [id_ for id_ in firsts if answers[id_] < 3]  # what the agent says
        assert len(cut) <= len(self.lost) + self.killed, f"cut without a reason: {cut}"
        assert not [one for one in self.told if one["became"].startswith("failed")]
        assert self.stopped in {one["fence"] for one in self.lost}, "the process that woke up was not refused"
        early = [one for one in self.lost if self._next(one) < one["renewed_at"] + LEASE_S]
        assert not early, f"taken before the lease had ended: {early}"

    def _next(self, lost: dict[str, Any]) -> float:
        """Return when the turn after a lost one was taken."""
        return self.taken_at[min(fence for fence in self.taken_at if fence > lost["fence"])]

    def _paused_s(self, lost: dict[str, Any]) -> float:
        """Return for how many seconds of its lease a process did not run."""
        begin, end = lost["renewed_at"], lost["renewed_at"] + LEASE_S
        parts = (min(end, until) - max(begin, since) for since, until in lost["pauses"])
        return float(sum(max(0.0, part) for part in parts))


def _said(event: Event) -> str:
    assert event.content
    assert event.content.parts
    return event.content.parts[0].text or ""


async def show(at: At, *, processes: int, messages: int, longest_s: float = LONGEST_S) -> Shown:
    """Run *processes* on a new session *at* a store: one holder is stopped past its lease, one is killed."""
    shown = Shown()
    with tempfile.TemporaryDirectory() as logs:
        async with open_store(at) as store, asyncio.timeout(longest_s):
            await store.sessions.create_session(**WHO)
            with _started(at, processes, messages, Path(logs)) as running:
                pids = {one.pid for one, _ in running}
                for _, run in running:
                    await asyncio.to_thread(run.recv)
                for _, run in running:
                    run.send(True)  # noqa: FBT003  # any value
                status = await _stop_a_holder(store, pids)
                shown.stopped = status.fence
                await _when(store, lambda now: now.fence > status.fence)
                os.kill(_pid(status), signal.SIGCONT)
                others = pids - {_pid(status)}
                victim = await _when(store, lambda now: now.is_running and _pid(now) in others)
                os.kill(_pid(victim), signal.SIGKILL)
                shown.killed = 1
                for one, run in running:
                    if one.pid != _pid(victim):
                        run.send(True)  # noqa: FBT003  # any value
                for one, _ in running:
                    await asyncio.to_thread(one.join)
            await _when(store, lambda status: not status.is_running)
            async for _ in store.turns.drain(runner_of(store), user_id="user", session_id="session"):
                pass
            found = await store.sessions.get_session(**WHO)
            assert found is not None
            shown.events = found.events
            assert not (await store.turns.status(**WHO)).waiting
        lines = _read(Path(logs))
        shown.told = [line for line in lines if "said" in line]
        shown.taken_at = {line["fence"]: line["taken_at"] for line in lines if "taken_at" in line}
    return shown


@contextmanager
def _started(
    at: At, processes: int, messages: int, logs: Path
) -> "Iterator[list[tuple[ForkServerProcess, Connection[bool, bool]]]]":
    """Start the processes, and leave none behind."""
    environ = {name: os.environ[name] for name in (FIRESTORE_VARIABLE,) if name in os.environ}
    running = []
    try:
        for number in range(processes):
            name = f"w{number}"
            task = Task(at=dict(at), name=name, messages=messages, log=logs / name, environ=environ)
            mine, its = READY.Pipe()
            process = READY.Process(target=work, args=(task, its))
            process.start()
            its.close()
            running.append((process, mine))
        yield running
    finally:
        for process, _ in running:
            process.kill()
            process.join()


def _read(logs: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for log in logs.iterdir() for line in log.read_text().splitlines()]


async def _stop_a_holder(store: Store, pids: set[int | None]) -> TurnStatus:
    """Stop the process that holds the turn, between its writes and before its last; return its turn."""
    while True:
        status = await _when(store, lambda now: now.is_running and _pid(now) in pids)
        os.kill(_pid(status), signal.SIGSTOP)
        try:
            async with asyncio.timeout(LEASE_S / 3):
                now = await store.turns.status(**WHO)
                found = await store.sessions.get_session(**WHO)
            assert found is not None
            last = _said(found.events[-1]) if found.events else ""
            if (now.is_running, now.fence, now.waiting) == (True, status.fence, ()) and last == "answer 0":
                return now
        except TimeoutError:
            pass  # it holds the lock of the file, so all others wait
        os.kill(_pid(status), signal.SIGCONT)
        await asyncio.sleep(0)


async def _when(store: Store, is_so: Callable[[TurnStatus], bool]) -> TurnStatus:
    return await once(store.sessions, lambda: store.turns.status(**WHO), is_so, **WHO)


def _pid(status: TurnStatus) -> int:
    return int(status.holder.split("-")[-6])


def line_of(shown: Shown) -> str:
    """Return the figures of a show."""
    waits = shown.waits_s
    became = Counter(one["became"] for one in shown.told)
    at_work = len(shown.lost_at_work)
    return (
        f"{len(shown.events)} events of {len(shown.told)} messages: {became['answered']} answered at once, "
        f"{became['waits']} left to the holder, {became['lost']} lost by a process that did not run, "
        f"{at_work} by one that ran; "
        f"wait p50 {waits[len(waits) // 2]:.2f} s, p95 {waits[int(len(waits) * 0.95)]:.2f} s"
    )


def main(arguments: Sequence[str]) -> None:
    """Show it, and tell how long messages waited."""
    parser = argparse.ArgumentParser(prog="python -m tests.turns.show", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--messages", type=int, default=12, help="of each process (default: 12)")
    parser.add_argument("--local", action="store_true", help="in a folder alone")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        for processes in given.processes:
            _show_one("folder", {"folder": f"{place}/{processes}"}, processes, given.messages)
        if not given.local:
            with firestore_emulator(logs=Path(place)) as emulator:
                os.environ[emulator.variable] = emulator.address
                for processes in given.processes:
                    project = f"demo-{uuid.uuid4().hex[:20]}"
                    _show_one("emulator", {"project": project}, processes, given.messages)


def _show_one(place: str, at: At, processes: int, messages: int) -> None:
    shown = asyncio.run(show(at, processes=processes, messages=messages, longest_s=1200))
    sys.stdout.write(f"{place}, {processes} processes: {line_of(shown)}\n")
    sys.stdout.flush()
    shown.check()


if __name__ == "__main__":
    main(sys.argv[1:])
