"""The module and its examples are what the provider takes, and a mistake in them is reported."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.lengths import at_length
from tests.terraform.command import Terraform
from tests.terraform.conftest import REQUIRED
from tests.terraform.declared import FOLDERS
from tools.setup.tools import ROOT

MODULE = "modules/adk_store"


def test_files_are_formatted(terraform: Terraform) -> None:
    """As ``terraform fmt`` has them."""
    run = terraform("fmt", "-check", "-recursive", "-diff", folder=ROOT / "terraform")

    assert (0, "") == (run.returncode, run.stdout)


UNPLANNED = ["examples/cmek", "examples/dataflow", "examples/org_policies", "examples/vpc_sc"]
"""Those of which no test in the short form makes a plan, which finds as much."""


@pytest.mark.parametrize("name", at_length(UNPLANNED, FOLDERS))
def test_a_configuration_is_valid(terraform: Terraform, prepared: Path, name: str) -> None:
    """Every argument is one that the provider has, of its type, and nothing required is missing."""
    assert [] == terraform.validate(prepared / name)


def test_the_modules_own_tests_pass(terraform: Terraform, module: Path) -> None:
    """They plan, apply to mocked providers, and ask what cannot be. The short form takes those of safety."""
    chosen = at_length(["-filter=tests/safety.tftest.hcl"], [])
    run = terraform("test", "-no-color", *chosen, folder=module)

    assert "0 failed" in run.stdout, run.stdout + run.stderr
    assert "Success!" in run.stdout


BUCKET, FIRESTORE, IAM = "storage.tf", "firestore.tf", "iam.tf"
MISTAKES = [
    (BUCKET, "public_access_prevention ", "public_access_preventoin ", 'mean "public_access_prevention"'),
    (FIRESTORE, "  field      = each.value.field\n", "", 'The argument "field" is required'),
    (FIRESTORE, "  fields {\n", "  field {\n", 'Did you mean "fields"'),
    (BUCKET, "bucket_level_access = true", 'bucket_level_access = "yes"', "a bool is required"),
    (IAM, "account.runtime[0].name", "account.runtime[0].nam", 'exported attribute named "nam"'),
]
"""Misspelt, missing, of another type, or unknown: what is right, what is wrong, and what is said of it."""


def test_mistakes_are_reported(terraform: Terraform, module: Path) -> None:
    """Each of them, in a copy that is right but for them."""
    for file, right, wrong, _ in MISTAKES:
        text = (module / file).read_text()
        assert right in text
        (module / file).write_text(text.replace(right, wrong, 1))
    errors = terraform.validate(module)

    assert [] == [said for *_, said in MISTAKES if not any(said in error for error in errors)], errors


def test_the_provider_may_be_of_two_major_versions() -> None:
    """The same two in each module and example, so that a project can call all of them."""
    folders = [ROOT / "terraform" / name for name in FOLDERS]
    files = "".join(path.read_text() for folder in folders for path in folder.glob("*.tf"))
    wanted = re.findall(r'"hashicorp/google"\n +version = "(.*)"', files)

    assert [">= 7.0, < 9.0"] * len(FOLDERS) == wanted


def test_what_an_earlier_release_made_is_kept(
    terraform: Terraform, plans: Callable[..., Mapping[str, Any]], module: Path
) -> None:
    """Its database and its bucket had no number; an apply that made them anew would lose all data."""
    kinds = ("google_firestore_database", "google_storage_bucket")
    made = plans(MODULE)["planned_values"]["root_module"]["resources"]
    resources = [
        {
            "mode": "managed",
            "type": each["type"],
            "name": "this",
            "provider": 'provider["registry.terraform.io/hashicorp/google"]',
            "instances": [{"schema_version": 0, "attributes": each["values"]}],
        }
        for each in made
        if each["type"] in kinds
    ]
    state = {"version": 4, "terraform_version": "1.5.0", "serial": 1, "lineage": "l", "resources": resources}
    (module / "terraform.tfstate").write_text(json.dumps(state))
    plan = terraform.plan(module, **REQUIRED[MODULE])
    changes = {each["address"]: each for each in plan["resource_changes"] if each["type"] in kinds}

    assert {f"{kind}.this[0]": f"{kind}.this" for kind in kinds} == {
        address: each["previous_address"] for address, each in changes.items()
    }
    assert {("update",)} == {
        tuple(each["change"]["actions"]) for each in changes.values()
    }  # what is computed
