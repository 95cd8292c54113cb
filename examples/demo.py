"""Run a real agent, then go on in a second process; show where everything lies.

``make demo`` runs it on a local store, which needs neither a cloud nor an emulator. ``make demo CLOUD=1``
runs it on the emulators and counts what a turn costs, beside ADK's own services. It exits with 0 only if
every value it expected came back.
"""

import argparse
import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.filesize import decimal

from examples.support_agent import APP, SESSION, USER
from examples.turns import Checks, check_first_turns, console, first_model, first_turns, last_turn
from gcp_adk_store import Store


def main(arguments: Sequence[str]) -> int:
    """Run the first process, or the one that goes on."""
    # A scripted model uses no tokens, which ADK finds worth a warning at each call.
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cloud", action="store_true", help="run on the emulators, beside ADK's own services"
    )
    parser.add_argument("--path", type=Path, default=Path(".cache/demo"), help="folder of the local stores")
    parser.add_argument("--second", metavar="PATH", help=argparse.SUPPRESS)
    parser.add_argument("--second-in-cloud", nargs=2, metavar=("PROJECT", "BUCKET"), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.second:
        return asyncio.run(last_turn(Store.local(asked.second)))
    if asked.second_in_cloud:
        project, bucket = asked.second_in_cloud
        return asyncio.run(last_turn(Store.connect(project=project, bucket=bucket)))
    running = {"FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"} <= os.environ.keys()
    if not asked.cloud and not running:
        return asyncio.run(in_folder(asked.path / f"{time.time_ns():x}"))
    from examples import cloud_demo  # noqa: PLC0415  # with Google's own clients, which it is compared with
    from gcp_adk_store.testing.emulators import EmulatorError  # noqa: PLC0415

    try:
        return asyncio.run(cloud_demo.on_emulators())
    except EmulatorError as exc:
        print(exc, file=sys.stderr)
        return 1


async def in_folder(path: Path) -> int:
    """Take three turns on a local store, let a second process take one more, and show its folder."""
    checks = Checks()
    console.rule("Three turns of an agent, in this process")
    model = first_model()
    async with Store.local(path) as store:
        async for _ in first_turns(store.sessions, store.artifacts, model):
            pass
        await check_first_turns(checks, store, model)

    sys.stdout.flush()
    console.rule("A second process goes on")
    command = [sys.executable, "-m", "examples.demo", "--second", str(path)]
    status = subprocess.run(command, check=False).returncode  # noqa: ASYNC221  # nothing else runs here
    checks.equal("the second process found all it expected", 0, status)

    console.rule("Where it is stored")
    show_files(path)
    return checks.conclude()


def show_files(folder: Path) -> None:
    """Print the files of a local store, and the command that shows what is in them."""
    for file in sorted(found for found in folder.rglob("*") if found.is_file()):
        console.print(f"  {file}  {decimal(file.stat().st_size)}", highlight=False, soft_wrap=True)
    console.print("Look at the session, or delete the folder:")
    show = f"gcp-adk-store sessions show --local {folder} --app {APP} --user {USER} --session {SESSION}"
    console.print(f"  {show}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
