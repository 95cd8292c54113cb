"""CI runs what README asks a reader to run, and that is all there is: checks and tests.

What runs on GitHub is what runs here: workflows give commands of the Makefile, and pin their actions.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

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


GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def read(path: Path) -> Any:
    """Return the content of a YAML file."""
    return yaml.safe_load(path.read_text())


def jobs() -> list[tuple[str, dict[str, Any]]]:
    """Return each job of each workflow, with a name for messages."""
    return [(f"{path.name}: {name}", job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


def commands(job: dict[str, Any]) -> list[str]:
    """Return the commands of a job, once for each target of its matrix."""
    given = [step["run"] for step in job.get("steps", []) if "run" in step]
    targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
    return [command.replace('"$TARGET"', target) for command in given for target in targets]


def test_a_job_makes_targets_that_there_are_and_may_do_no_more_than_it_says() -> None:
    """On the Python that it set up.

    Its token's permissions are listed, workflows have none of their own, and credentials do not stay in the
    checkout.
    """
    for name, job in jobs():
        made = [command.split() for command in commands(job) if command.startswith("make ")]
        checkouts = [
            step for step in job.get("steps", []) if step.get("uses", "").startswith("actions/checkout@")
        ]

        assert [] == [words[1] for words in made if words[1] not in TARGETS], name
        assert all("PYTHON=python" in words for words in made), name
        assert "permissions" in job, name
        assert all(step["with"]["persist-credentials"] is False for step in checkouts), name
    assert [] == [path.name for path in WORKFLOWS if read(path)["permissions"] != {}]


def test_an_action_has_one_version_in_all_workflows() -> None:
    """With its name beside the commit; zizmor refuses what is not pinned by one."""
    texts = "".join(path.read_text() for path in WORKFLOWS)
    used = set(re.findall(r"uses: (\w[\w.-]*/[\w.-]+)\S*@(\S+ # v\d+\.\d+\.\d+)$", texts, re.MULTILINE))

    assert len(used) > 5
    assert len(used) == len({action for action, _ in used})


def test_a_release_waits_for_the_tests_and_publishes_what_was_checked() -> None:
    """The job that may publish runs nothing of this repository, and no job has a stored password."""
    release = read(GITHUB / "workflows/release.yml")["jobs"]
    text = (GITHUB / "workflows/release.yml").read_text()

    assert ("test", "build", "publish") == tuple(
        release[name]["needs"] for name in ("build", "publish", "announce")
    )
    assert "$/.github/workflows/ci.yml" == release["test"]["uses"]
    assert "release" == release["publish"]["environment"]
    assert [] == commands(release["publish"])
    assert ["publish"] == [name for name, job in release.items() if "id-token" in job["permissions"]]
    assert "secrets." not in text


def test_dependabot_looks_where_there_is_something() -> None:
    """Each folder has what its kind of dependencies is named in."""
    kept = {
        "devcontainers": ".devcontainer/devcontainer.json",
        "docker": "Dockerfile",
        "github-actions": ".github/workflows/ci.yml",
        "pip": "pyproject.toml",
        "terraform": "*.tf",
    }
    for update in read(GITHUB / "dependabot.yml")["updates"]:
        for folder in update.get("directories", [update.get("directory")]):
            found = list(ROOT.glob(f"{folder.strip('/')}/{kept[update['package-ecosystem']]}".lstrip("/")))
            assert found, (update["package-ecosystem"], folder)


def test_the_files_of_the_forms_are_there() -> None:
    """Those that texts for people name."""
    texts = [
        *(GITHUB / "ISSUE_TEMPLATE").iterdir(),
        GITHUB / "pull_request_template.md",
        GITHUB / "CODEOWNERS",
    ]
    named = {name for path in texts for name in re.findall(r"\b[A-Z_]+\.md\b", path.read_text())}

    assert {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} <= named
    assert [] == [name for name in named if not (ROOT / name).exists()]


def test_hooks_of_git_are_commands_of_the_makefile() -> None:
    """No hook brings a tool of its own, in a version of its own, or other rules."""
    (repo,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    of_lint = [" ".join(line).removesuffix(" .").replace(" --check", "") for line in made("lint")]
    entries = {hook["id"]: hook["entry"].replace(" --force-exclude", "") for hook in repo["hooks"]}

    assert "local" == repo["repo"]
    assert ".venv/bin/python -m pytest -q --quick" == entries.pop("tests")
    assert {} == {name: entry for name, entry in entries.items() if entry not in of_lint}
    assert {"system"} == {hook["language"] for hook in repo["hooks"]}


def test_the_dev_container_gets_ready_by_itself() -> None:
    """By the command that a reader gives."""
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())

    make, target, *_ = container["postCreateCommand"].split()
    assert ("make", True) == (make, target in TARGETS)
    assert "${containerWorkspaceFolder}/.venv/bin/python" in json.dumps(container)
