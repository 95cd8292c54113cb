"""What runs on GitHub is what runs here: workflows give commands of the Makefile, and pin their actions."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tests.project.test_commands import made
from tests.support.documents import ROOT

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
