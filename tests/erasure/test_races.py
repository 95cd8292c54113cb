"""Processes that create sessions of a user race the erasure: what came before its last pass is gone."""

from pathlib import Path

import pytest

from gcp_adk_store import OutcomeUnknownError, Store, UnavailableError
from tests.erasure.conftest import APP, LIMITS, USER, canary, erase, fill
from tests.erasure.racing_process import create
from tests.support.ready_processes import ReadyProcess
from tests.support.traces import in_folder, traces

pytestmark = pytest.mark.long


async def test_processes_that_create_sessions_leave_nothing_before_the_last_pass(tmp_path: Path) -> None:
    """Neither a session nor a payload of one; once they have stopped, another call leaves nothing at all."""
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        await fill(store)
        racers = [ReadyProcess(create, f"{tmp_path}", APP, USER, name) for name in ("one", "two")]
        try:
            assert ["ready", "ready"] == [racer.receive() for racer in racers]
            for racer in racers:
                racer.send("go")
            while True:
                try:
                    _, receipt = await erase(store, quiet_s=0.2)
                    break
                except (UnavailableError, OutcomeUnknownError):
                    continue  # they still write
            answers = [racer.receive() for racer in racers]
        finally:
            for racer in racers:
                racer.end()
        acknowledged = {name: at for answer in answers for name, at in answer.items()}
        user = f"adk_apps/{APP}/adk_users/{USER}"
        left = await store.sessions.storage.documents.query(user, "adk_sessions", fields=("id",))
        _, last = await erase(store, task_owner="canary-owner")
    assert receipt.empty_at is not None

    assert acknowledged
    assert [] == [each.path for each in left if acknowledged[f"{each.fields['id']}"] < receipt.empty_at]
    assert [] == traces(in_folder(tmp_path), USER)
    assert [] == traces(in_folder(tmp_path), canary("tail"))
    assert last.empty_at
