"""Processes that create sessions of a user race the erasure: what came before its last pass is gone."""

import asyncio
import json
import sys
from pathlib import Path

from gcp_adk_store import Store, UnavailableError
from tests.erasure.conftest import APP, LIMITS, USER, canary, erase, fill
from tests.support.traces import in_folder, traces

ROOT = Path(__file__).parents[2]
LONGEST_S = 60


async def test_processes_that_create_sessions_leave_nothing_before_the_last_pass(tmp_path: Path) -> None:
    """Neither a session nor a payload of one; once they have stopped, another call leaves nothing at all."""
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        await fill(store)
        racers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.erasure.racing_process", str(tmp_path), APP, USER, name),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            for name in ("one", "two")
        ]
        try:
            for racer in racers:
                assert racer.stdout
                assert b"ready\n" == await asyncio.wait_for(racer.stdout.readline(), LONGEST_S)
            for racer in racers:
                assert racer.stdin
                racer.stdin.write(b"go\n")
            while True:
                try:
                    _, receipt = await erase(store, quiet_s=0.2)
                    break
                except UnavailableError:
                    continue  # they still write
            answers = [await asyncio.wait_for(racer.communicate(), LONGEST_S) for racer in racers]
        finally:
            for racer in racers:
                if racer.returncode is None:
                    racer.kill()
        acknowledged = {name: at for out, _ in answers for name, at in json.loads(out).items()}
        user = f"adk_apps/{APP}/adk_users/{USER}"
        left = await store.sessions.storage.documents.query(user, "adk_sessions", fields=("id",))
        _, last = await erase(store, task_owner="canary-owner")
    assert receipt.empty_at is not None

    assert acknowledged
    assert [] == [each.path for each in left if acknowledged[f"{each.fields['id']}"] < receipt.empty_at]
    assert [] == traces(in_folder(tmp_path), USER)
    assert [] == traces(in_folder(tmp_path), canary("tail"))
    assert last.empty_at
