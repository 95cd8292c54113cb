"""CI runs what README asks a reader to run, and that is all there is: checks and tests."""

import os
from pathlib import Path

import pytest

from tests.project.test_commands import dry, made
from tests.support.documents import ROOT, command
from tests.support.programs import ran


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """In the folder of the clone, and nothing before or after it."""
    script = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and line[0] != "#"]
    *_, test = command("README.md", "make test").splitlines()

    assert ["set -euo pipefail", 'cd "$(dirname "$0")/.."', test] == script


def test_checks_are_a_part_of_the_tests() -> None:
    """Before all others."""
    lines = [
        " ".join(line[:4]).removeprefix(".venv/bin/")
        for line in made("test")
        if "check-jsonschema" not in line[0]
    ]

    assert [
        "ruff format --check .",
        "ruff check .",
        "mypy --num-workers 2",
        "lint-imports",
        "python -m tools.website.words",
        "python -m pytest -q",
        "pre-commit validate-config",
        "zizmor --offline --quiet --pedantic",
        ".venv-beam/bin/python -m pytest -q",
    ] == lines


@pytest.mark.parametrize("fails", ["", "tests/beam", "tests", "all"])
def test_bulk_jobs_are_tested_beside_all_others_and_either_may_fail(tmp_path: Path, fails: str) -> None:
    """The line of the Makefile, with a program instead of Python that fails at what a variable names."""
    (tmp_path / ".cache").mkdir()
    for folder in (".venv-beam", ".venv"):
        program = tmp_path / folder / "bin/python"
        program.parent.mkdir(parents=True)
        program.write_text(
            '#!/bin/sh\nshift $(($# - 1)); echo "ran $1"; [ "$1" != "$FAILS" ] && [ "$FAILS" != all ]\n'
        )
        program.chmod(0o755)
    *_, line = dry("test").splitlines()
    run = ran(["sh", "-c", line], cwd=tmp_path, env={**os.environ, "FAILS": fails})

    assert "ran tests\nran tests/beam\n" == run.stdout
    assert bool(fails) == bool(run.returncode), run.stderr


def test_every_file_for_github_is_held_to_its_schema() -> None:
    """Those that have one; the others are texts."""
    checked = [line[3:] for line in made("check") if "check-jsonschema" in line[0]]
    files = {str(path.relative_to(ROOT)) for given in checked for part in given for path in ROOT.glob(part)}
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.yml")}

    assert ours <= files
