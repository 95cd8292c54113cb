"""A short run on a folder keeps every promise, and the checker finds what is damaged there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gcp_adk_store import Store
from tests.chaos.places import PREFIXES
from tests.chaos.report import figures
from tests.chaos.run import Chaos, Settings, look, run

SEED, SECONDS = 21, 6.0


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Path, Chaos]:
    """A run whose workers are killed."""
    folder = tmp_path_factory.mktemp("chaos")
    (folder / "journals").mkdir()
    settings = Settings(seed=SEED, seconds=SECONDS, store=folder / "store", journals=folder / "journals")
    return settings, folder / "store", run(settings)


def test_nothing_is_lost_and_nothing_stored_twice_in_a_folder(ran: tuple[Settings, Path, Chaos]) -> None:
    """While workers are killed."""
    _, _, chaos = ran
    found = figures(chaos)

    assert [] == chaos.verdict.violations
    assert found["outcomes"]["acknowledged"] > 50
    assert found["blows"]["kill"] >= 1
    assert found["operations"]["restore"] >= found["stored"]["restores"] > 0
    assert found["stored"]["forks"] > 0
    assert found["stored"]["titles"] > 0
    assert found["stored"]["segments"] > 0
    assert found["stored"]["memories"] > 0
    assert found["stored"]["payloads in the bucket"] > 0
    assert found["stored"]["versions"] > 0


async def test_a_check_of_the_folder_has_no_finding(ran: tuple[Settings, Path, Chaos]) -> None:
    """The library's own check agrees with the checker."""
    _, folder, _ = ran
    for prefix in PREFIXES:
        async with Store.local(folder, prefix=prefix) as store:
            assert [] == [fault async for fault in store.check(full=True)]


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (
            "DELETE FROM documents WHERE collection = 'adk_sessions' AND instr(key, x'7368617265642d30')",
            "lost session",
        ),
        (
            "DELETE FROM documents WHERE collection LIKE '%_sessions' AND instr(key, CAST('fork-' AS BLOB))",
            "lost session",
        ),
        ("DELETE FROM documents WHERE collection = 'adk_memories'", "lost"),
        ("DELETE FROM documents WHERE collection = 'adk_segments'", "segment disagrees"),
        ("DELETE FROM objects WHERE CAST(name AS TEXT) LIKE 'adk-payloads/%'", "dangling reference"),
        ("DELETE FROM objects WHERE CAST(name AS TEXT) LIKE '%/shared/report/0'", "lost"),
    ],
)
def test_the_checker_finds_a_damage_in_a_folder(
    ran: tuple[Settings, Path, Chaos], damage: str, kind: str
) -> None:
    """Each by its kind; the folder is mended afterwards."""
    settings, folder, chaos = ran
    with closing(sqlite3.connect(folder / "store.sqlite3")) as database:
        kept = sqlite3.connect(":memory:")
        database.backup(kept)
        removed = database.execute(damage).rowcount
        database.commit()
        found = {violation.kind for violation in look(settings, chaos.operations).violations}
        kept.backup(database)
        kept.close()

    assert removed
    assert kind in found
    assert [] == look(settings, chaos.operations).violations
