"""What writers store in a folder one after the other."""

import asyncio
from pathlib import Path

import pytest

from tests.chaos.journal import Operation, read_journals
from tests.chaos.worker import Task, work_alone
from tests.support.lengths import at_length

SEED, STEPS = 21, 60
OPERATIONS, WORKERS = at_length((60, 2), (150, 3))
"""How many operations workers begin, and how many processes work."""
Written = tuple[Path, list[Operation]]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The folder, and what the writers did there."""
    folder, journals = (tmp_path_factory.mktemp(name) for name in ("store", "journals"))
    task = Task(name="w0", seed=SEED, place=str(folder), journals=journals, writers=4, environ={})
    asyncio.run(work_alone(task, STEPS))
    return folder, [*read_journals(journals)]
