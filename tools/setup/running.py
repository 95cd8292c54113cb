"""Run the steps of a plan, in parallel where their order allows, and show their progress."""

import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, TextIO

from tools.setup.plan import Step

_EVERY_S: Final = 10.0
"""Seconds between two lines about a running step, if the output is not a terminal."""
_ON_A_TERMINAL_S: Final = 0.5
_SHOWN: Final = 80
"""Characters of a step's last line that are shown."""
_LAST_LINES: Final = 15
_NOT_A_LINE: Final = "\r\x1b[K"


def run(steps: Sequence[Step], *, root: Path, out: TextIO) -> list[str]:
    """Run *steps* in *root*; return a text for each failed step, with the end of its output.

    A step does not run if a step before it failed. ``.cache/setup`` keeps the output of each.
    """
    logs = root / ".cache/setup"
    logs.mkdir(parents=True, exist_ok=True)
    progress = _Progress(out)
    waiting, done, failed = list(steps), set[str](), list[str]()
    running: dict[Future[int], tuple[Step, Path]] = {}
    with ThreadPoolExecutor(max_workers=max(1, len(steps))) as threads:
        while waiting or running:
            for step in [each for each in waiting if each.after <= done]:
                waiting.remove(step)
                log = logs / f"{step.name.strip('.').replace('/', '-')}.log"
                progress.begin(step, log)
                running[threads.submit(_run, step, root, log)] = (step, log)
            if not running:
                break
            ended, _ = wait(running, timeout=progress.every_s, return_when=FIRST_COMPLETED)
            for future in ended:
                step, log = running.pop(future)
                status = future.result()
                progress.end(step, status)
                if status == 0:
                    done.add(step.name)
                else:
                    failed.append(
                        f"{step.name} failed; {log} has its whole output, which ends:\n{_end_of(log)}"
                    )
            if not ended:
                progress.show()
    return failed


def _run(step: Step, root: Path, log: Path) -> int:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        for command in step.commands:
            output.write(f"$ {' '.join(command)}\n".encode())
            output.flush()
            try:
                done = subprocess.run(
                    command,
                    cwd=root,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            except OSError as exc:
                output.write(f"{exc}\n".encode())
                return 1
            if done.returncode != 0:
                return done.returncode
    return 0


class _Progress:
    """Shows the running steps: on a terminal in one line that it overwrites, else in a line now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._on_a_terminal = out.isatty()
        self.every_s = _ON_A_TERMINAL_S if self._on_a_terminal else _EVERY_S
        self._began: dict[str, tuple[float, Path]] = {}

    def begin(self, step: Step, log: Path) -> None:
        self._began[step.name] = (time.monotonic(), log)
        self._line(f"{step.name}: started")

    def end(self, step: Step, status: int) -> None:
        began, _ = self._began.pop(step.name)
        how = "done" if status == 0 else "FAILED"
        self._line(f"{step.name}: {how} after {time.monotonic() - began:.0f} s")

    def show(self) -> None:
        """Show the time and the last line of each running step."""
        now = time.monotonic()
        lines = [
            f"{name}: {now - began:.0f} s: {_end_of(log, 1)[:_SHOWN]}"
            for name, (began, log) in self._began.items()
        ]
        if self._on_a_terminal:
            # Only a line that fits the terminal can be overwritten.
            width = os.get_terminal_size(self._out.fileno()).columns
            share = max(10, width // len(lines) - 3)
            self._out.write(_NOT_A_LINE + " | ".join(each[:share] for each in lines)[: width - 1])
            self._out.flush()
        else:
            for each in lines:
                self._line(each)

    def _line(self, text: str) -> None:
        self._out.write(f"{_NOT_A_LINE if self._on_a_terminal else ''}{text}\n")
        self._out.flush()


def _end_of(log: Path, lines: int = _LAST_LINES) -> str:
    text = log.read_text(errors="replace").replace("\r", "\n")
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])
