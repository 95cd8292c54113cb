"""Count the schedules after which the workloads find each of :mod:`tests.simulation.defects`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

from tests.simulation.defects import DEFECTS, Defect

ROOT: Final = Path(__file__).parents[2]
MOST: Final = 2_000
"""Schedules within which each defect must be found."""
FINDS: Final = 3
"""How often each is found, to tell the median."""

_HUNTER: Final = """
import json, sys
from gcp_adk_store.testing.simulation import World
from tests.simulation.workloads import WORKLOADS

names, most, finds = json.loads(sys.argv[1])
found, since = [], 0
for seed in range(most):
    for name in names:
        since += 1
        try:
            World(seed, WORKLOADS[name].faults).run(WORKLOADS[name].scenario)
        except Exception:
            found.append(since)
            since = 0
            break
    if len(found) == finds:
        break
print(json.dumps(found))
"""


class LostPlaceError(Exception):
    """The package has no such place any more, or several."""


def changed(text: str, defect: Defect) -> str:
    """Return the *text* of the defect's file with the defect."""
    count = text.count(defect.before)
    if count != 1:
        raise LostPlaceError(f"{defect.name}: {defect.file} has its place {count} times; correct the defect")
    return text.replace(defect.before, defect.after)


def hunt(defect: Defect, *, most: int, finds: int) -> list[int]:
    """Return after how many schedules the workloads find *defect*, each time anew."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        leave_out = shutil.ignore_patterns("__pycache__", "ces", "static")
        shutil.copytree(ROOT / "gcp_adk_store", copy / "gcp_adk_store", ignore=leave_out)
        shutil.copytree(ROOT / "tests/simulation", copy / "tests/simulation")
        file = copy / "gcp_adk_store" / defect.file
        file.write_text(changed(file.read_text(), defect))
        arguments = json.dumps([list(defect.workloads), most, finds])
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _HUNTER, arguments],
            cwd=copy, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if ran.returncode:
        raise RuntimeError(f"{defect.name}: {ran.stderr[-2000:]}")
    found: list[int] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Hunt all defects, or those whose names contain a text; return 1 if one is not found."""
    parser = ArgumentParser(prog="python -m tests.simulation.hunt", description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--finds", type=int, default=FINDS)
    given = parser.parse_args()
    defects = [defect for defect in DEFECTS if given.text in defect.name]
    missed = 0
    sys.stdout.write("| section | defect | schedules (median) |\n|---|---|---|\n")
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        hunts = threads.map(lambda defect: hunt(defect, most=given.most, finds=given.finds), defects)
        for defect, found in zip(defects, hunts, strict=True):
            missed += not found
            told = f"{median(found):.0f}" if found else f"not found within {given.most:,}"
            sys.stdout.write(f"| {defect.section} | {defect.name} | {told} |\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(defects) - missed} of {len(defects)} defects were found\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
