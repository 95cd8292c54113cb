"""The module and its examples are what the provider takes, and a mistake in them is reported.

The module for Dataflow makes a template of the jobs that the command has, and starts them.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.lengths import at_length
from tests.terraform.command import Terraform
from tests.terraform.conftest import IMAGE, REQUIRED, made
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


METADATA = json.loads((ROOT / "terraform/modules/bulk_jobs/metadata.json").read_text())
JOBS: dict[str, Any] = {
    "nightly": {
        "app": "support",
        "job": "prune",
        "schedule": "47 3 * * *",
        "parameters": {"idle_days": "90", "labels": "a=b,c=d"},
    },
    "once": {"app": "support", "job": "export", "parameters": {"out": "gs://results/export"}},
}


@pytest.fixture
def plan(plans: Callable[..., Mapping[str, Any]]) -> Mapping[str, Any]:
    """What it makes for two jobs, one of them with a schedule."""
    store = {"project": "my-project", "bucket": "my-store", "database": "agents"}
    return plans("modules/bulk_jobs", store=store, bucket_name="my-jobs", jobs=JOBS)


def test_the_template_names_the_image_and_its_parameters(plan: Mapping[str, Any]) -> None:
    """In the form of Dataflow's containers."""
    (template,) = made(plan, "google_storage_bucket_object")

    assert {"image": IMAGE, "metadata": METADATA, "sdkInfo": {"language": "PYTHON"}} == json.loads(
        template["content"]
    )


def test_a_schedule_launches_the_template_as_its_own_account(plan: Mapping[str, Any]) -> None:
    """With the parameters of the store and the job; the workers have another account."""
    (scheduled,) = made(plan, "google_cloud_scheduler_job")
    (target,) = scheduled["http_target"]
    configuration = {each["address"]: each for each in plan["configuration"]["root_module"]["resources"]}
    taken = configuration["google_cloud_scheduler_job.scheduled"]["expressions"]["http_target"][0]

    assert "adk-bulk-nightly" == scheduled["name"]
    assert target["uri"].endswith("/projects/my-project/locations/europe-west1/flexTemplates:launch")
    assert (
        "google_service_account.launcher[0].email"
        in taken["oauth_token"][0]["service_account_email"]["references"]
    )


def test_the_grants_are_those_that_jobs_need(plan: Mapping[str, Any]) -> None:
    """On one database, two buckets and one account."""
    roles = sorted(
        each["role"]
        for kind in ("project", "service_account")
        for each in made(plan, f"google_{kind}_iam_member")
    )
    (database,) = (
        each for each in made(plan, "google_project_iam_member") if each["role"] == "roles/datastore.user"
    )
    readme = (ROOT / "terraform/modules/bulk_jobs/README.md").read_text()
    all_roles = {*roles, *(each["role"] for each in made(plan, "google_storage_bucket_iam_member"))}

    assert [
        "roles/dataflow.developer",
        "roles/dataflow.worker",
        "roles/datastore.user",
        "roles/iam.serviceAccountUser",
    ] == roles
    assert database["condition"][0]["expression"].endswith('/databases/agents"')
    assert ["my-jobs", "my-jobs", "my-store"] == sorted(
        each["bucket"] for each in made(plan, "google_storage_bucket_iam_member")
    )
    assert all_roles == set(re.findall(r"`(roles/[\w.]+)`", readme))


def test_no_schedule_makes_no_launcher(plans: Callable[..., Mapping[str, Any]]) -> None:
    """And the output says what to run instead."""
    shown = plans("modules/bulk_jobs", jobs={"once": JOBS["once"]})
    resources = [each["type"] for each in shown["planned_values"]["root_module"]["resources"]]
    text = (ROOT / "terraform/modules/bulk_jobs/outputs.tf").read_text()

    assert 1 == resources.count("google_service_account")
    assert "google_cloud_scheduler_job" not in resources
    assert "gcloud dataflow flex-template run" in text
