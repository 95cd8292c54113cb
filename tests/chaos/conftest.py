"""What writers store in a folder one after the other."""

import asyncio
from pathlib import Path

import pytest

from tests.chaos.journal import Operation, read_journals
from tests.chaos.worker import Task, work_alone

SEED, OPERATIONS, STEPS = 21, 110, 60
Written = tuple[Path, list[Operation]]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The folder, and what the writers did there."""
    folder, journals = (tmp_path_factory.mktemp(name) for name in ("store", "journals"))
    task = Task(name="w0", seed=SEED, place=str(folder), journals=journals, writers=4, environ={})
    asyncio.run(work_alone(task, STEPS))
    return folder, [*read_journals(journals)]
