"""CI runs what README tells a reader to run, and that is all there is: checks and tests."""

from tests.project.test_commands import made
from tests.support.documents import ROOT, command


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
        "python -m website.words",
        "pre-commit validate-config",
        "zizmor --offline --quiet --pedantic",
        "python -m pytest -q",
        ".venv-beam/bin/python -m pytest -q",
    ] == lines
    assert ["--ignore=tests/beam", "tests"] == made("test")[-2][-2:]
    assert ["tests/beam"] == made("test")[-1][-1:]


def test_every_file_for_github_is_held_to_its_schema() -> None:
    """Those that have one; the others are texts."""
    checked = [line[3:] for line in made("check") if "check-jsonschema" in line[0]]
    files = {str(path.relative_to(ROOT)) for given in checked for part in given for path in ROOT.glob(part)}
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.yml")}

    assert ours <= files
