"""What the module's documents say of it is so."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from setup.tools import ROOT
from tests.terraform.command import Terraform

README = (ROOT / "terraform/modules/adk_store/README.md").read_text()
BULK_JOBS = (ROOT / "terraform/modules/bulk_jobs/README.md").read_text()


def rows(title: str, readme: str = README) -> list[list[str]]:
    """Return the cells of the table below a title of a module's README."""
    section = readme.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


@pytest.fixture
def plan(terraform: Terraform, module: Path) -> dict[str, Any]:
    """What the module says of itself, and what it makes with every default."""
    return terraform.plan(module, project_id="my-project", location="europe-west1")


def test_inputs_and_outputs_are_in_the_readme(plan: dict[str, Any]) -> None:
    """By name, with the default and the description that they have."""
    require_described(plan, README)


def test_inputs_and_outputs_of_bulk_jobs_are_in_their_readme(
    terraform: Terraform, configurations: Path
) -> None:
    """As those of the store."""
    place = {"project_id": "my-project", "region": "europe-west1", "store": {"project": "my-project"}}
    folder = configurations / "modules/bulk_jobs"
    require_described(terraform.plan(folder, image="image", **place), BULK_JOBS)


def require_described(plan: dict[str, Any], readme: str) -> None:
    """Compare what a module has with the tables of its *readme*."""
    configuration = plan["configuration"]["root_module"]
    inputs = [
        [
            f"`{name}`",
            f"`{json.dumps(each['default'])}`" if "default" in each else "required",
            each["description"],
        ]
        for name, each in sorted(configuration["variables"].items())
    ]
    outputs = [[f"`{name}`", each["description"]] for name, each in sorted(configuration["outputs"].items())]

    assert inputs == rows("Inputs", readme)
    assert outputs == rows("Outputs", readme)


def test_what_it_makes_is_in_the_readme(plan: dict[str, Any]) -> None:
    """As many fields, TTL policies, indexes and rules; each file by its name."""
    made = [
        each["values"] | {"kind": each["type"]} for each in plan["planned_values"]["root_module"]["resources"]
    ]
    fields = [each for each in made if each["kind"] == "google_firestore_field"]
    indexes = [each for each in made if each["kind"] == "google_firestore_index"]
    (bucket,) = (each for each in made if each["kind"] == "google_storage_bucket")
    roles = {each["role"] for each in made if each["kind"].endswith("_iam_member")}
    table = rows("What it makes")
    cells = [resources for _, resources, _ in table]
    ending = sum(bool(each["ttl_config"]) for each in fields)
    files = {path.name for path in (ROOT / "terraform/modules/adk_store").glob("*.tf")}

    assert f"{len(fields)} fields without an index, {ending} of them with a TTL policy" in cells
    assert f"{len(indexes)} composite indexes" in cells
    assert f"{len(bucket['lifecycle_rule'])} lifecycle rules" in cells
    assert roles == set(re.findall(r"`(roles/[\w.]+)`", "".join(why for _, _, why in table)))
    assert files - {"variables.tf", "outputs.tf", "versions.tf"} == {
        file.strip("`") for file, _, _ in table if file
    }


@pytest.mark.parametrize("readme", [README, BULK_JOBS], ids=["adk_store", "bulk_jobs"])
def test_the_configurations_of_the_readme_are_valid(
    terraform: Terraform, configurations: Path, readme: str
) -> None:
    """Together, as a reader has them below this repository."""
    folder = configurations / "reader"
    folder.mkdir()
    text = "\n".join(re.findall(r"^```hcl\n(.*?)^```", readme, re.DOTALL | re.MULTILINE))
    (folder / "main.tf").write_text(text.replace("./terraform/", "../"))

    assert 'source = "../modules/' in (folder / "main.tf").read_text()
    assert [] == terraform.validate(folder)


def test_every_folder_is_in_the_overview() -> None:
    """Modules and examples, by their READMEs."""
    overview = (ROOT / "terraform/README.md").read_text()
    folders = [
        f"{parent}/{folder.name}"
        for parent in ("modules", "examples")
        for folder in (ROOT / "terraform" / parent).iterdir()
    ]

    assert sorted(f"{folder}/README.md" for folder in folders) == sorted(re.findall(r"\]\((\S+)\)", overview))
