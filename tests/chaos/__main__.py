"""Show that nothing is lost and nothing stored twice while workers are killed and the network fails.

``make chaos SECONDS=60 SEED=7`` runs it; the status is 1 where a promise was not kept.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import SystemRandom

from rich.console import Console
from rich.progress import Progress

from gcp_adk_store.testing.emulators import firestore_emulator, storage_emulator
from tests.chaos.report import figures, table
from tests.chaos.run import Chaos, Cloud, Settings, run


def main() -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long workers write (default: 60)")
    parser.add_argument(
        "--seed", type=int, default=None, help="what all chance hangs on (default: a new one)"
    )
    parser.add_argument("--workers", type=int, default=3, help="processes that write (default: 3)")
    parser.add_argument(
        "--local", action="store_true", help="on a folder of this machine: workers are killed"
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    parser.add_argument("--journals", type=Path, default=None, help="keep journals and logs in this folder")
    given = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if given.seed is None else given.seed
    console = Console(stderr=given.json)
    console.print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        journals = given.journals or Path(folder)
        journals.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            store = journals / "store" if given.local else stack.enter_context(_emulators(seed, journals))
            bar = stack.enter_context(Progress(console=console, transient=True))
            task = bar.add_task("chaos", total=given.seconds)
            began_at: float | None = None

            def goes_on(_: Chaos) -> bool:
                nonlocal began_at
                began_at = began_at or time.monotonic()  # when the workers are there
                now_s = time.monotonic() - began_at
                bar.update(task, completed=now_s)
                return bool(now_s < given.seconds)

            chaos = run(
                Settings(seed=seed, goes_on=goes_on, store=store, journals=journals, workers=given.workers)
            )
    if given.json:
        found = [{"kind": each.kind, "what": each.what} for each in chaos.verdict.violations]
        print(json.dumps({**figures(chaos), "found": found}, indent=2))  # noqa: T201  # what was asked for
    else:
        console.print(table(chaos))
        for violation in chaos.verdict.violations:
            console.print(f"[red]{violation.kind}[/red]: {violation.what}", highlight=False)
    return 1 if chaos.verdict.violations else 0


@contextmanager
def _emulators(seed: int, journals: Path) -> Iterator[Cloud]:
    with firestore_emulator(logs=journals) as firestore, storage_emulator(logs=journals) as storage:
        os.environ |= {firestore.variable: firestore.address, storage.variable: storage.address}
        name = f"chaos-{seed}-{uuid.uuid4().hex[:8]}"  # an emulator that runs already may know the seed
        yield Cloud(project=f"demo-{name}", bucket=name, firestore=firestore.address, storage=storage.address)


if __name__ == "__main__":
    sys.exit(main())
