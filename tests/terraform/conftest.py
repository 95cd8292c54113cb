"""Give tests terraform with stand-ins for its providers, and copies of what it runs on."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.terraform.command import Terraform, copied, offline
from tools.setup.environments import STAND_IN
from tools.setup.tools import ROOT

PLACE = {"project_id": "my-project"}
IMAGE = "europe-west1-docker.pkg.dev/my-project/agents/support:1"
REQUIRED: Mapping[str, Mapping[str, Any]] = {
    "examples/cloud_run": {**PLACE, "image": IMAGE},
    "examples/dataflow": {**PLACE, "image": IMAGE},
    "examples/vpc_sc": {**PLACE, "access_policy": "123456789"},
    "modules/adk_store": {**PLACE, "location": "europe-west1"},
    "modules/bulk_jobs": {
        **PLACE,
        "image": IMAGE,
        "region": "europe-west1",
        "store": {"project": "my-project"},
    },
}
"""What a folder cannot be planned without, beside the project."""


def made(plan: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Return the arguments of each resource of a kind."""
    resources = plan["planned_values"]["root_module"]["resources"]
    return [each["values"] for each in resources if each["type"] == kind]


@pytest.fixture(scope="session")
def terraform() -> Iterator[Terraform]:
    """The command; its stand-ins run as long as the tests do."""
    if shutil.which("terraform") is None or not STAND_IN.is_ready(ROOT):
        # A message to act on, not a traceback; and a failure, since a skipped test shows nothing.
        pytest.fail(
            "Terraform, or what stands in for its providers, is missing; `make ready` installs it",
            pytrace=False,
        )
    with offline() as command:
        yield command


@pytest.fixture(scope="session")
def prepared(terraform: Terraform, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder ``terraform`` in which each example has found its modules."""
    folder = copied(tmp_path_factory.mktemp("prepared"))
    found: dict[str, Path] = {}
    for example in sorted((folder / "examples").iterdir()):
        text = "".join(path.read_text() for path in sorted(example.glob("*.tf")))
        calls = "".join(re.findall(r'^module "\w+" {\n  source += "\S+"$', text, re.MULTILINE))
        if calls in found:  # by the same path, since all are as deep
            shutil.copytree(found[calls] / ".terraform", example / ".terraform")
        else:
            terraform.get(example)
            found[calls] = example
    return folder


@pytest.fixture
def configurations(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the folder ``terraform``."""
    return copied(tmp_path, prepared)


@pytest.fixture(scope="session")
def plans(
    terraform: Terraform, prepared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Mapping[str, Any]]:
    """Plan a folder with these variables; the same ones once."""
    made: dict[str, Mapping[str, Any]] = {}

    def plan(name: str, **variables: Any) -> Mapping[str, Any]:
        key = f"{name} {sorted(variables.items())}"
        if key not in made:
            folder = copied(tmp_path_factory.mktemp("plans"), prepared) / name
            made[key] = terraform.plan(folder, **{**REQUIRED.get(name, PLACE), **variables})
        return made[key]

    return plan


@pytest.fixture
def module(configurations: Path) -> Path:
    """A copy of the module."""
    return configurations / "modules/adk_store"
