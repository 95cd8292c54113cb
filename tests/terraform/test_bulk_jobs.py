"""The module for Dataflow makes a template of the jobs that the command has, and starts them."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.terraform.conftest import IMAGE, made
from tools.setup.tools import ROOT

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
