"""Install the parts that a target of make needs: ``python3 -m tools.setup PART...``."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from tools.setup.machine import look
from tools.setup.plan import PARTS, Plan, plan
from tools.setup.running import run
from tools.setup.tools import ROOT

_INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the missing parts among those named; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.setup",
        description="Install the missing parts that this clone needs.",
        epilog="\n".join(f"{name:12}{what}" for name, what in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", metavar="PART", nargs="+", choices=PARTS, help="a part from the list below")
    decided = plan(look(ROOT), parser.parse_args(arguments).parts, root=ROOT)
    sys.stdout.write(announcement(decided))
    sys.stdout.flush()
    if decided.missing:
        sys.stderr.write(refusal(decided))
        return 1
    try:
        failed = run(decided.steps, root=ROOT, out=sys.stdout)
    except KeyboardInterrupt:
        return _INTERRUPTED
    if failed:
        sys.stderr.write("\n".join(["Not everything could be installed.", *failed, ""]))
        return 1
    return 0


def announcement(decided: Plan) -> str:
    """Return what will be installed, and where; an empty text if nothing is missing."""
    if not decided.steps:
        return ""
    lines = [f"  {step.name:26}{step.installs}" for step in decided.steps]
    return "\n".join(["Missing parts, which are installed now:", *lines, ""])


def refusal(decided: Plan) -> str:
    """Return all that is missing, and the remedy."""
    return (
        f"Missing, and cannot be installed by this command: {', '.join(decided.missing)}.\n"
        f"This helps:\n  {decided.remedy}\n"
    )
