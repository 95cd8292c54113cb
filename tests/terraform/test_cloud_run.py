"""The example for Cloud Run runs the agent, and the collector, on the store that it makes."""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from gcp_adk_store import StoreSettings
from gcp_adk_store.cli.command import command
from tests.support.documents import all_blocks
from tests.terraform.command import Terraform
from tests.terraform.conftest import IMAGE, made
from tools.setup.tools import ROOT

EXAMPLE = "examples/cloud_run"
ADA = {"ada": "user:ada@example.com"}
NUMBER = "stand-in-google_project"
"""Of the project, by the stand-in."""

Plans = Callable[..., Mapping[str, Any]]


@pytest.fixture
def plan(plans: Plans) -> Mapping[str, Any]:
    """What it makes with every default."""
    return plans(EXAMPLE)


@pytest.fixture
def whole(plans: Plans) -> Mapping[str, Any]:
    """What it makes with the jobs, the pages and the inspector."""
    prune = {"app": "agent", "schedule": "1 2 * * *", "options": ["--idle-days", "90"]}
    return plans(EXAMPLE, prune=prune, web=True, iap_members=ADA, inspectors=ADA)


def references(plan: Mapping[str, Any], address: str, *path: str) -> str:
    """Return what an argument of a resource is taken from; *path* leads to it through blocks."""
    (found,) = (
        each for each in plan["configuration"]["root_module"]["resources"] if each["address"] == address
    )
    *blocks, argument = path
    expressions = found["expressions"]
    for block in blocks:
        (expressions,) = expressions[block]
    taken: str = expressions[argument]["references"][0]
    return taken


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a container."""
    return {each["name"]: each["value"] for each in container["env"]}


def test_the_service_gets_the_environment(plan: Mapping[str, Any]) -> None:
    """All of it, with instances that are kept and probes that restart them."""
    (service,) = made(plan, "google_cloud_run_v2_service")
    (template,) = service["template"]
    (container,) = template["containers"]
    given = environment(container)
    output = plan["planned_values"]["outputs"]["environment"]["value"]

    assert output.items() <= given.items()
    assert StoreSettings.from_env(given) == StoreSettings.from_env(output)
    assert 1 == template["scaling"][0]["min_instance_count"]
    assert ["/health"] * 2 == [
        container[probe][0]["http_get"][0]["path"] for probe in ("startup_probe", "liveness_probe")
    ]


def test_the_command_of_the_document_has_the_variables_that_it_needs(
    terraform: Terraform, configurations: Path
) -> None:
    """With ``plan`` in the place of ``apply``, which alone needs a project."""
    lines = [line for block in all_blocks("docs/deploying.md") for line in block.lines]
    (line,) = (line for line in lines if line.startswith("terraform") and " apply " in line)
    _, place, _, *variables = shlex.split(line)
    folder = configurations.parent / place.removeprefix("-chdir=")
    terraform.get(folder)
    run = terraform("plan", "-input=false", "-lock=false", "-no-color", *variables, folder=folder)

    assert 0 == run.returncode, run.stderr
    assert 'member   = "user:ada@example.com"' in run.stdout
    assert re.search(r'name += "notes-gc"', run.stdout)


def test_the_commands_of_the_documents_name_jobs_and_arguments_that_are_there(
    plan: Mapping[str, Any],
) -> None:
    """With the guide's name of the service, and for the job's own program."""
    jobs = {job["name"].replace("agent", "notes") for job in made(plan, "google_cloud_run_v2_job")}
    text = "\n".join(
        line
        for document in ("docs/deploying.md", "docs/doctor.md")
        for block in all_blocks(document)
        for line in block.lines
    )
    named = re.findall(r'(?:jobs (?:execute|pause|resume) |job_name=")([\w-]+)', text)
    given = [each.split(",") for each in re.findall(r"--args=(\S+)", text)]

    assert {"notes-gc"} == {*named} == jobs
    assert ["doctor"] == [name for name, *_ in given]
    for name, *arguments in given:
        part = command.get_command(click.Context(command), name)
        assert part is not None
        assert part.make_context(name, arguments).params["as_json"]


def test_the_collector_runs_on_the_same_store(plan: Mapping[str, Any]) -> None:
    """With the agent's image, as a command that the package has, started on schedule; and nothing else is."""
    (job,) = made(plan, "google_cloud_run_v2_job")
    (task,) = job["template"][0]["template"]
    (container,) = task["containers"]
    output = plan["planned_values"]["outputs"]["environment"]["value"]
    name, *arguments = container["args"]
    part = command.get_command(click.Context(command), name)
    assert part is not None
    parsed = part.make_context(name, arguments)

    assert IMAGE == container["image"]
    assert ["gcp-adk-store"] == container["command"]
    assert 'gcp-adk-store = "gcp_adk_store.cli:main"' in (ROOT / "pyproject.toml").read_text()
    assert "gc" == name
    assert parsed.params["as_json"]
    assert not parsed.params["dry_run"]
    assert output == environment(container)

    # By the one account that may, through the address of the job.
    (grant,) = made(plan, "google_cloud_run_v2_job_iam_member")
    (schedule,) = made(plan, "google_cloud_scheduler_job")
    (target,) = schedule["http_target"]
    place = f"projects/my-project/locations/{job['location']}"

    assert (job["name"], "roles/run.invoker") == (grant["name"], grant["role"])
    assert f"https://run.googleapis.com/v2/{place}/jobs/{job['name']}:run" == target["uri"]
    assert "POST" == target["http_method"]
    assert "module.adk_store.iam_member" == references(
        plan, "google_cloud_run_v2_job_iam_member.scheduled", "member"
    )
    assert "module.adk_store.service_account_email" == references(
        plan, "google_cloud_scheduler_job.scheduled", "http_target", "oauth_token", "service_account_email"
    )


def test_sessions_are_pruned_on_a_schedule_of_their_own(whole: Mapping[str, Any]) -> None:
    """As a command that the package has, with the options that the variable names."""
    jobs = {job["name"]: job for job in made(whole, "google_cloud_run_v2_job")}
    schedules = {each["name"]: each["schedule"] for each in made(whole, "google_cloud_scheduler_job")}
    (name,) = (name for name in jobs if name.endswith("-prune"))
    (container,) = jobs[name]["template"][0]["template"][0]["containers"]
    _, *arguments = container["args"]
    part = command.get_command(click.Context(command), "prune")
    assert part is not None
    parsed = part.make_context("prune", arguments)

    assert "1 2 * * *" == schedules[name]
    assert ("agent", 90.0, False) == tuple(
        parsed.params[each] for each in ("app_name", "idle_days", "dry_run")
    )
    assert 2 == len(schedules) == len(made(whole, "google_cloud_run_v2_job_iam_member"))


def test_an_alert_fires_for_each_job_that_fails_or_does_not_start(whole: Mapping[str, Any]) -> None:
    """By the name of the job and of its schedule; its text has the command that shows the log."""
    alerts = made(whole, "google_monitoring_alert_policy")
    conditions = {alert["display_name"]: alert["conditions"][0] for alert in alerts}

    assert 4 == len(alerts)
    for job in ("agent-gc", "agent-prune"):
        failed = conditions[f"{job} fails"]["condition_threshold"][0]
        unstarted = conditions[f"{job} cannot be started"]["condition_matched_log"][0]
        assert f'resource.labels.job_name = "{job}"' in failed["filter"]
        assert 'metric.labels.result = "failed"' in failed["filter"]
        assert ("COMPARISON_GT", 0) == (failed["comparison"], failed["threshold_value"])
        assert f'resource.labels.job_id="{job}"' in unstarted["filter"]
    assert all("job" in alert["documentation"][0]["content"] for alert in alerts)


def test_pages_are_behind_the_proxy_alone(whole: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Both services ask it; nobody but its agent and the members comes in."""
    services = {each["name"]: each for each in made(whole, "google_cloud_run_v2_service")}
    invokers = made(whole, "google_cloud_run_v2_service_iam_member")
    members = made(whole, "google_iap_web_cloud_run_service_iam_member")
    (agent,) = services["agent"]["template"]
    (by_default,) = made(plan, "google_cloud_run_v2_service")

    assert {"agent", "agent-inspector"} == set(services)
    assert all(each["iap_enabled"] for each in services.values())
    assert not by_default["iap_enabled"]
    assert {f"serviceAccount:service-{NUMBER}@gcp-sa-iap.iam.gserviceaccount.com"} == {
        each["member"] for each in invokers
    }
    assert {("agent", ADA["ada"]), ("agent-inspector", ADA["ada"])} == {
        (each["cloud_run_service_name"], each["member"]) for each in members
    }
    assert "TRUE" == environment(agent["containers"][0])["ADK_WEB"]


def test_the_inspector_reads_the_store_and_nothing_else(whole: Mapping[str, Any]) -> None:
    """As an account of its own, on the same database and bucket."""
    (service,) = (
        each for each in made(whole, "google_cloud_run_v2_service") if each["name"] == "agent-inspector"
    )
    (container,) = service["template"][0]["containers"]
    (grant,) = (
        each for each in made(whole, "google_project_iam_member") if each["role"] != "roles/aiplatform.user"
    )
    (on_bucket,) = made(whole, "google_storage_bucket_iam_member")
    given = environment(container)
    output = whole["planned_values"]["outputs"]["environment"]["value"]

    assert ["python", "inspector.py"] == container["command"]
    assert (ROOT / "examples/cloud_run/inspector.py").exists()
    assert output.items() <= given.items()
    assert "roles/datastore.viewer" == grant["role"]
    assert 'resource.name == "projects/my-project/databases/(default)"' == grant["condition"][0]["expression"]
    assert ("roles/storage.objectViewer", "my-project-adk") == (on_bucket["role"], on_bucket["bucket"])
    assert (
        f"/projects/{NUMBER}/locations/europe-west1/services/agent-inspector" == given["INSPECTOR_AUDIENCE"]
    )
    assert (
        f"https://{given['INSPECTOR_HOST']}/" == whole["planned_values"]["outputs"]["inspector_uri"]["value"]
    )


def test_pages_without_the_proxy_are_refused(terraform: Terraform, configurations: Path) -> None:
    """They show every user's sessions to whoever opens them."""
    refused = terraform.refusals(configurations / EXAMPLE, project_id="my-project", image=IMAGE, web=True)

    assert ["web shows every user's sessions to whoever opens it: name in iap_members who may."] == refused


@pytest.mark.long
def test_the_collector_can_be_left_out(plans: Plans) -> None:
    """With everything that it alone needs."""
    plan = plans(EXAMPLE, gc_schedule=None)
    kinds = {each["type"] for each in plan["planned_values"]["root_module"]["resources"]}
    apis = {each["service"] for each in made(plan, "google_project_service")}

    assert "google_cloud_run_v2_service" in kinds
    assert not {kind for kind in kinds if "job" in kind or "scheduler" in kind}
    assert {"aiplatform.googleapis.com", "run.googleapis.com"} == apis
