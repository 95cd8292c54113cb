"""Show what ``gcp-adk-store ces lint`` reads, prints, and ends with."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.ces.apps.findings import RULES
from gcp_adk_store.cli.command import command

FAULTY = 'def look(name: str, kind="a") -> dict:\n    return {}\n'


def lint(*arguments: str) -> Result:
    """Run the command on a wide terminal."""
    return CliRunner().invoke(command, ["ces", "lint", *arguments], env={"COLUMNS": "250"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one tool that has three faults."""
    (tmp_path / "find.py").write_text(FAULTY)
    return tmp_path


def test_each_finding_has_its_place_as_compilers_write_it_and_its_fix_below(folder: Path) -> None:
    """Whole in the narrowest terminal, and an error ends it with 1."""
    result = CliRunner().invoke(command, ["ces", "lint", str(folder)], env={"COLUMNS": "20"})
    first, fix, *_, summary = result.stdout.splitlines()

    assert 1 == result.exit_code
    assert f"{folder}/find.py:1:1: error CES102: the platform calls this tool look" in first
    assert "    put def find first, or call the tool look" == fix
    assert "1 tools and callbacks: 2 errors, 1 warnings" == summary


def test_what_others_wrote_steers_no_terminal(folder: Path) -> None:
    """Names of files and tools, in text and in errors."""
    name = "\x1b[31mred"
    (folder / "tools" / name).mkdir(parents=True)
    (folder / "tools" / name / f"{name}.json").write_text('{"pythonFunction": {"name": "\\u001b[2J"}}')
    result = lint(str(folder))

    assert r"tools/\x1b[31mred/python_function" in result.stdout
    assert r"the code of the tool \x1b[2J is not there" in result.stdout
    assert "\x1b" not in result.stdout + lint(str(folder), "--json").stdout
    assert "\x1b" not in lint(str(folder), "--ignore", name).stderr


def test_json_has_every_field(folder: Path) -> None:
    """Of each finding, in order. Warnings alone end it well, and so does code without a fault."""
    found = json.loads(lint(str(folder), "--json").stdout)

    assert ["CES102", "CES104", "CES201"] == [each["code"] for each in found]
    assert {str(folder / "find.py")} == {each["path"] for each in found}
    assert {"path", "line", "column", "code", "severity", "says", "fix"} == set(found[0])
    assert (1, 21) == (found[2]["line"], found[2]["column"])
    assert 0 == lint(str(folder), "--ignore", "CES102", "--ignore", "CES201").exit_code
    (folder / "find.py").write_text('def find() -> dict:\n    """Find."""\n    return {}\n')
    assert "1 tools and callbacks: 0 errors, 0 warnings" in lint(str(folder)).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "the folder nowhere does not exist"),
        (["."], "has no Python of an agent app"),
        ([".", "--ignore", "CES999"], "unknown code; known: CES001"),
    ],
)
def test_what_cannot_be_looked_at_ends_it_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    """And says what to name instead."""
    monkeypatch.chdir(tmp_path)
    result = lint(*arguments)

    assert 2 == result.exit_code
    assert says in result.stderr


@pytest.mark.long
def test_without_the_extra_it_says_how_to_get_it(folder: Path) -> None:
    """And other commands work."""
    run = (
        "import sys; sys.modules['yaml'] = None; "
        "from gcp_adk_store.cli.command import command; command(sys.argv[1:])"
    )
    result = subprocess.run(
        [sys.executable, "-c", run, "ces", "lint", str(folder)], capture_output=True, text=True, check=False
    )

    assert 2 == result.returncode
    assert "the module yaml is missing" in result.stderr
    assert "pip install '.[ces]' in a clone" in result.stderr


def test_the_page_lists_every_rule() -> None:
    """With its severity."""
    page = (Path(__file__).parents[3] / "docs/ces-commands.md").read_text()

    for code, rule in RULES.items():
        assert f"| `{code}` | {rule.severity} | {rule.looks_for} |" in page
