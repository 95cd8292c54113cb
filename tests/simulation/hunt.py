"""Count the seeds after which the workloads find each of :mod:`tests.simulation.defects`.

``--json`` writes what was found beside docs/how-to/defects.md, whose table is made of it; a hunt of some
defects keeps the rows of the others.
"""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.simulation.defects import DEFECTS, Defect

ROOT: Final = Path(__file__).parents[2]
FIGURES: Final = ROOT / "docs/how-to/defects.json"
PAGE: Final = ROOT / "docs/how-to/defects.md"
BEGIN: Final = "<!-- defects -->\n"
MOST: Final = 2_000
"""Seeds within which each defect must be found."""
FINDS: Final = 5
"""How often each is found, for the median."""

_HUNTER: Final = """
import json, sys
from importlib.machinery import SourceFileLoader

names, most, finds, path, text = json.loads(sys.stdin.read())
code_of = SourceFileLoader.get_code

def with_defect(loader, name):
    return compile(text, path, "exec") if loader.path == path else code_of(loader, name)

SourceFileLoader.get_code = with_defect
from gcp_adk_store.testing.simulation import World
from tests.simulation.workloads import WORKLOADS

found, since, seed = [], 0, -1
for seed in range(most):
    since += 1
    for name in names:
        try:
            world = World(seed, WORKLOADS[name].faults, most_callbacks=40_000)  # the longest has 11,000
            world.run(WORKLOADS[name].scenario)
        except (NameError, AttributeError, ImportError):
            raise  # it shows a defect that is written wrongly
        except Exception as exc:
            found.append((since, name, type(exc).__name__, str(exc)[:200], seed))
            since = 0
            break
    if len(found) == finds:
        break
print(json.dumps({"seeds": seed + 1, "found": found}))
"""

_PROOF: Final = """
import json, sys
from gcp_adk_store.testing.simulation import World
from tests.simulation.workloads import WORKLOADS

for name, seed in json.loads(sys.stdin.read()):
    World(seed, WORKLOADS[name].faults).run(WORKLOADS[name].scenario)
"""


class LostPlaceError(Exception):
    """The package has no such place any more, or several."""


def changed(text: str, defect: Defect) -> str:
    """Return the *text* of the defect's file with the defect."""
    count = text.count(defect.before)
    if count != 1:
        raise LostPlaceError(f"{defect.name}: {defect.file} has its place {count} times; correct the defect")
    return text.replace(defect.before, defect.after)


def hunt(defect: Defect, *, most: int, finds: int) -> dict[str, Any]:
    """Return in how many seeds the workloads find *defect*: how many ran, and each find."""
    file = ROOT / "gcp_adk_store" / defect.file
    given = json.dumps([defect.workloads, most, finds, str(file), changed(file.read_text(), defect)])
    hunted: dict[str, Any] = json.loads(_run(_HUNTER, given, defect).splitlines()[-1])
    # A seed that fails without the defect, too, does not find it.
    _run(_PROOF, json.dumps([(name, seed) for _, name, _, _, seed in hunted["found"]]), defect)
    return hunted


def _run(program: str, given: str, defect: Defect) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT, input=given, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ran.returncode:
        raise RuntimeError(f"{defect.name}: {ran.stderr[-2000:]}")
    return ran.stdout


def figures_of(defect: Defect, hunted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of *defect*."""
    found = hunted["found"]
    by = Counter(name for _, name, *_ in found)
    return {
        "section": defect.section,
        "reverts": defect.reverts,
        "found_by": [name for name, _ in by.most_common()],
        "finds": len(found),
        "seeds": hunted["seeds"],
        "median": median(since for since, *_ in found) if found else None,
    }


def table(defects: Iterable[Defect], figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of docs/how-to/defects.md, section by section."""
    sections = list(dict.fromkeys(defect.section for defect in DEFECTS))
    lines = [
        "| section | defect | it takes back | found by | in seeds | first seed |",
        "|---|---|---|---|---|---|",
    ]
    for defect in sorted(defects, key=lambda defect: sections.index(defect.section)):
        row = figures.get(defect.name)
        cells = "| | not counted | |"
        if row is not None:
            first = "not found" if row["median"] is None else f"{row['median']:g}"
            cells = f"| {', '.join(row['found_by'])} | {row['finds']} of {row['seeds']:,} | {first} |"
        lines.append(f"| {defect.section} | {defect.name} | {defect.reverts} {cells}")
    return "\n".join(lines) + "\n"


def write_page(figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the figures of the present defects, and the page with their table."""
    kept = {defect.name: figures[defect.name] for defect in DEFECTS if defect.name in figures}
    FIGURES.write_text(json.dumps(kept, indent=1) + "\n")
    before, _, _ = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + table(DEFECTS, kept))


def main() -> int:
    """Hunt all defects, or those whose names or sections contain a text; return 1 if one is not found."""
    parser = ArgumentParser(prog="python -m tests.simulation.hunt", description=__doc__)
    parser.add_argument("text", nargs="*", help="parts of the names or sections of defects; by default, all")
    parser.add_argument("--most", type=int, default=MOST, help="seeds at most")
    parser.add_argument("--finds", type=int, default=FINDS, help="how often each is found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="hunts at a time")
    parser.add_argument("--json", action="store_true", help="write the figures and the page")
    parser.add_argument("--show", action="store_true", help="show what each find says")
    given = parser.parse_args()
    defects = [one for one in DEFECTS if _is_meant(one, given.text)]
    figures: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    missed = 0
    with ThreadPoolExecutor(given.jobs) as threads:
        hunts = threads.map(lambda defect: hunt(defect, most=given.most, finds=given.finds), defects)
        for defect, hunted in zip(defects, hunts, strict=True):
            row = figures[defect.name] = figures_of(defect, hunted)
            missed += row["median"] is None
            sys.stdout.write(table([defect], figures).splitlines()[-1] + "\n")
            for find in hunted["found"] if given.show else ():
                sys.stdout.write(f"    {find}\n")
            sys.stdout.flush()
            if given.json:
                write_page(figures)
    sys.stdout.write(f"{len(defects) - missed} of {len(defects)} defects were found\n")
    return 1 if missed else 0


def _is_meant(defect: Defect, texts: Sequence[str]) -> bool:
    return not texts or any(text in f"{defect.section}: {defect.name}" for text in texts)


if __name__ == "__main__":
    sys.exit(main())
