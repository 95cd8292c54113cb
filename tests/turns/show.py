"""Let processes send messages to one session while holders are stopped and killed; check what is stored.

``python -m tests.turns.show FOLDER PROCESSES MESSAGES`` shows it at length in a folder.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from google.adk.events import Event

from gcp_adk_store import Store
from gcp_adk_store.turns import TurnStatus
from tests.services.racing_process import At, open_store
from tests.turns.worker import WHO, runner_of

ROOT: Final = Path(__file__).parents[2]
LONGEST_S: Final = 170


@dataclass
class Shown:
    """What the processes were told, and what is stored at the end."""

    told: list[dict[str, Any]] = field(default_factory=list)
    """What became of each message, as its process was told."""
    events: list[Event] = field(default_factory=list)
    stopped: int = 0
    killed: int = 0

    @property
    def waits_s(self) -> list[float]:
        """Seconds until the first event, of messages that waited for their turn; sorted."""
        return sorted(one["wait_s"] for one in self.told if one.get("wait_s") is not None)

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
        lost = [one["said"] for one in self.told if one["became"] == "lost"]
        assert len(cut) <= len(lost) + self.killed, f"cut without a reason: {cut}"
        assert not [one for one in self.told if one["became"].startswith("failed")]


def _said(event: Event) -> str:
    assert event.content
    assert event.content.parts
    return event.content.parts[0].text or ""


async def show(at: At, *, processes: int, messages: int, longest_s: float = LONGEST_S) -> Shown:
    """Run *processes* on a new session *at* a store: one holder is stopped past its lease, one is killed."""
    shown = Shown()
    with tempfile.TemporaryDirectory() as logs:
        async with open_store(at) as store:
            await store.sessions.create_session(**WHO)
            running = []
            for number in range(processes):
                arguments = [json.dumps(dict(at)), f"w{number}", str(messages)]
                command = [sys.executable, "-m", "tests.turns.worker", *arguments]
                running.append(_started(command, Path(logs) / str(number)))
            try:
                async with asyncio.timeout(longest_s):
                    pids = {one.pid for one in running}
                    stopped = await _stop_a_holder(store, pids)
                    fence = (await _when(store, lambda status: status.is_running)).fence
                    await _when(store, lambda status: status.fence > fence)
                    os.kill(stopped, signal.SIGCONT)
                    shown.stopped = 1
                    if processes > 2:
                        status = await _when(store, lambda now: now.is_running and _pid(now) in pids)
                        os.kill(_pid(status), signal.SIGKILL)
                        shown.killed = 1
                    for one in running:
                        await asyncio.to_thread(one.wait)
            finally:
                for one in running:
                    one.kill()
                    one.wait()
            await _when(store, lambda status: not status.is_running)
            async for _ in store.turns.drain(runner_of(store), user_id="user", session_id="session"):
                pass
            found = await store.sessions.get_session(**WHO)
            assert found is not None
            shown.events = found.events
            assert not (await store.turns.status(**WHO)).waiting
        shown.told = _read(Path(logs))
    return shown


def _started(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=ROOT, stdout=out)  # of this module's making


def _read(logs: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for log in logs.iterdir() for line in log.read_text().splitlines()]


async def _stop_a_holder(store: Store, pids: set[int]) -> int:
    """Stop the process that holds the turn, between its writes; return its id."""
    while True:
        status = await _when(store, lambda now: now.is_running and _pid(now) in pids)
        pid = _pid(status)
        os.kill(pid, signal.SIGSTOP)
        try:
            now = await asyncio.wait_for(store.turns.status(**WHO), 3)
            if now.is_running and _pid(now) == pid:
                return pid
        except TimeoutError:
            pass  # it holds the lock of the file, so all others wait
        os.kill(pid, signal.SIGCONT)


async def _when(store: Store, is_so: Callable[[TurnStatus], bool]) -> TurnStatus:
    while not is_so(status := await store.turns.status(**WHO)):  # noqa: ASYNC110  # others change it
        await asyncio.sleep(0.01)
    return status


def _pid(status: TurnStatus) -> int:
    return int(status.holder.split("-")[-6])


def main(folder: str, processes: str, messages: str) -> None:
    """Show it, and tell how long messages waited."""
    shown = asyncio.run(
        show({"folder": folder}, processes=int(processes), messages=int(messages), longest_s=1200)
    )
    shown.check()
    waits = shown.waits_s
    became = Counter(one["became"] for one in shown.told)
    sys.stdout.write(
        f"{len(shown.events)} events of {len(shown.told)} messages {dict(became)}, {shown.stopped} stopped, "
        f"{shown.killed} killed; wait p50 {waits[len(waits) // 2]:.2f} s, p95 "
        f"{waits[int(len(waits) * 0.95)]:.2f} s\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
