"""Every variable does what it says: another value shows in a plan, an illegal one is refused.

A variable that is declared and missing here fails a test, and so does one that changes nothing.
"""

# ruff: noqa: FBT003  # a bool is the value that is tried

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.lengths import at_length
from tests.terraform.command import Terraform, copied
from tests.terraform.conftest import REQUIRED
from tests.terraform.declared import FOLDERS, variables

ADA = "user:ada@example.com"
CHANNEL = "projects/my-project/notificationChannels/1"
KEY = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/one"
ELSEWHERE = "europe-west4"
CLEAR: Any = object()
"""A value that type alone bounds, such as a bool."""


@dataclass(frozen=True)
class Tried:
    """Two values of a variable."""

    value: Any
    """A legal one, which is not its default."""
    shows: str
    """An address of the plan, and after a blank the argument in it that changes; or ``output`` and a name."""
    becomes: Any
    """What that argument is then; ``None`` where it is gone."""
    wrong: Any = CLEAR
    """One that breaks each of its rules."""


SERVICE = "google_cloud_run_v2_service.agent"
JOB = 'google_cloud_run_v2_job.scheduled["gc"]'
BUCKET = "google_storage_bucket.this[0]"
IN_STORE = f"module.adk_store.{BUCKET}"
PERIMETER = "google_access_context_manager_service_perimeter.store"

MODULE = {
    "access_logs": Tried(
        {"bucket": "logs-1", "prefix": "store"},
        f"{BUCKET} logging",
        [{"log_bucket": "logs-1", "log_object_prefix": "store"}],
        {"bucket": "gs://logs", "prefix": "x" * 901},
    ),
    "alerts": Tried(
        {"notification_channels": [CHANNEL]},
        "google_monitoring_alert_policy.latency[0] notification_channels",
        [CHANNEL],
        {"notification_channels": ["ada@example.com"], "commit_latency_s": 0},
    ),
    "anchors": Tried(
        {"locked": False, "retention_days": 30},
        "google_storage_bucket.anchors[0] retention_policy.0.retention_period",
        "2592000",
        {"locked": False, "retention_days": 0},
    ),
    "app_pages": Tried(False, 'google_firestore_index.pages["newest"] collection', None),
    "audit_logs": Tried(
        {"exempted_members": [ADA]},
        'google_project_iam_audit_config.data_access["storage.googleapis.com"] service',
        "storage.googleapis.com",
        {"exempted_members": ["ada"], "reads": False, "writes": False},
    ),
    "backups": Tried(
        {"daily_retention_days": 3},
        "google_firestore_backup_schedule.daily[0] retention",
        "259200s",
        {"daily_retention_days": 99, "weekly_day": "Sunday"},
    ),
    "bucket_location": Tried("eur4", f"{BUCKET} location", "EUR4", "Brussels"),
    "bucket_name": Tried("mine-1", f"{BUCKET} name", "mine-1", "gs://mine"),
    "cmek": Tried(
        {"bucket_key": KEY, "database_key": KEY},
        "google_firestore_database.this[0] cmek_config.0.kms_key_name",
        KEY,
        {"bucket_key": "one", "database_key": KEY},
    ),
    "cors_origins": Tried(
        ["https://app.example.com"], f"{BUCKET} cors.0.origin", ["https://app.example.com"], ["*"]
    ),
    "create_bucket": Tried(False, f"{BUCKET} name", None),
    "create_database": Tried(False, "google_firestore_database.this[0] name", None),
    "dashboards": Tried(True, 'google_monitoring_dashboard.this["library"] project', "other-project"),
    "database": Tried("agents", "google_firestore_database.this[0] name", "agents", "Agents"),
    "deletion_protection": Tried(False, f"{BUCKET} force_destroy", True),
    "enable_apis": Tried(False, "google_project_service.storage[0] service", None),
    "encryption": Tried(
        {"rotation_days": 30},
        "google_kms_crypto_key.data_keys[0] rotation_period",
        "2592000s",
        {"create_key": False, "database": "X", "key_location": "moon", "rotation_days": 0.5},
    ),
    "expire_artifacts": Tried(
        False, f"{BUCKET} lifecycle_rule.0.condition.0.matches_prefix", ["Support-payloads/"]
    ),
    "iam_wait_s": Tried(5, "time_sleep.iam create_duration", "5s", -1),
    "labels": Tried({"team": "agents"}, f"{BUCKET} labels", {"team": "agents"}, {"Team": "agents"}),
    "location": Tried(ELSEWHERE, "google_firestore_database.this[0] location_id", ELSEWHERE, "Europe"),
    "members": Tried(
        {"ada": ADA},
        'google_storage_bucket_iam_member.objects["ada"] member',
        ADA,
        {"runtime": "allUsers"},
    ),
    "point_in_time_recovery": Tried(
        False,
        "google_firestore_database.this[0] point_in_time_recovery_enablement",
        "POINT_IN_TIME_RECOVERY_DISABLED",
    ),
    "prefix": Tried(
        "Support", 'google_firestore_field.unindexed["apps.state"] collection', "Support_apps", "a_b"
    ),
    "project_id": Tried(
        "other-project", "google_service_account.runtime[0] project", "other-project", "My Project"
    ),
    "service_account_id": Tried("agents-1", "google_service_account.runtime[0] account_id", "agents-1", "a"),
    "signed_urls": Tried(False, "google_service_account_iam_member.signer[0] role", None),
    "soft_delete_days": Tried(30, f"{BUCKET} soft_delete_policy.0.retention_duration_seconds", 2_592_000, 1),
    "storage_class": Tried("NEARLINE", f"{BUCKET} storage_class", "NEARLINE", "HOT"),
}

CLOUD_RUN = {
    "binary_authorization": Tried(True, f"{SERVICE} binary_authorization.0.use_default", True),
    "cors_origins": Tried(
        ["https://app.example.com"], f"{IN_STORE} cors.0.origin", ["https://app.example.com"], ["*"]
    ),
    "database": Tried(
        "restored", "module.adk_store.google_firestore_database.this[0] name", "restored", "Restored"
    ),
    "deletion_protection": Tried(False, f"{SERVICE} deletion_protection", False),
    "gc_schedule": Tried(
        "1 2 * * MON", 'google_cloud_scheduler_job.scheduled["gc"] schedule', "1 2 * * MON", "daily"
    ),
    "health_path": Tried(
        "/live",
        f"{SERVICE} template.0.containers.0.liveness_probe.0.http_get.0.path",
        "/live",
        "live",
    ),
    "iap_members": Tried({"ada": ADA}, f"{SERVICE} iap_enabled", True, {"all": "allUsers"}),
    "image": Tried(
        "europe-docker.pkg.dev/p/r/agent@sha256:" + "0" * 64,
        f"{JOB} template.0.template.0.containers.0.image",
        "europe-docker.pkg.dev/p/r/agent@sha256:" + "0" * 64,
        "europe-docker.pkg.dev/p/r/agent:latest",
    ),
    "ingress": Tried(
        "INGRESS_TRAFFIC_INTERNAL_ONLY", f"{SERVICE} ingress", "INGRESS_TRAFFIC_INTERNAL_ONLY", "internal"
    ),
    "inspectors": Tried(
        {"ada": ADA},
        'google_iap_web_cloud_run_service_iam_member.inspector["ada"] member',
        ADA,
        {"all": "allAuthenticatedUsers"},
    ),
    "invokers": Tried(
        {"ada": ADA},
        'google_cloud_run_v2_service_iam_member.invokers["ada"] member',
        ADA,
        {"all": "allUsers"},
    ),
    "labels": Tried({"team": "agents"}, f"{JOB} labels", {"team": "agents"}, {"team": "All Agents"}),
    "max_instances": Tried(3, f"{SERVICE} template.0.scaling.0.max_instance_count", 3, 0),
    "min_instances": Tried(2, f"{SERVICE} template.0.scaling.0.min_instance_count", 2, -1),
    "model_location": Tried("eu", f"{SERVICE} template.0.containers.0.env.GOOGLE_CLOUD_LOCATION", "eu", "EU"),
    "name": Tried("support", f"{SERVICE} name", "support", "Support-"),
    "notification_channels": Tried(
        [CHANNEL],
        'google_monitoring_alert_policy.failed_job["gc"] notification_channels',
        [CHANNEL],
        ["ada@example.com"],
    ),
    "project_id": Tried("other-project", f"{SERVICE} project", "other-project", "p"),
    "prune": Tried(
        {"app": "support", "options": ["--idle-days", "90"]},
        'google_cloud_scheduler_job.scheduled["prune"] schedule',
        "47 3 * * *",
        {"app": "support", "options": [], "schedule": "daily"},
    ),
    "region": Tried(ELSEWHERE, f"{SERVICE} location", ELSEWHERE, "eur3"),
    "secrets": Tried(
        {"API_KEY": {"secret": "api-key", "version": "2"}},
        'google_secret_manager_secret_iam_member.read["api-key"] role',
        "roles/secretmanager.secretAccessor",
        {"PORT": {"secret": "projects/p/secrets/s"}},
    ),
    "vpc": Tried(
        {"network": "n", "subnetwork": "s", "egress": "ALL_TRAFFIC"},
        f"{SERVICE} template.0.vpc_access.0.egress",
        "ALL_TRAFFIC",
        {"network": "n", "subnetwork": "s", "egress": "all"},
    ),
    "web": Tried(True, f"{SERVICE} template.0.containers.0.env.ADK_WEB", "TRUE"),
}

TABLE: Mapping[str, Mapping[str, Tried]] = {
    "modules/adk_store": MODULE,
    "examples/cloud_run": CLOUD_RUN,
    "examples/cmek": {
        "location": Tried(ELSEWHERE, "google_kms_key_ring.store location", ELSEWHERE, "eur3"),
        "project_id": Tried("other-project", f"{IN_STORE} project", "other-project", "p"),
    },
    "examples/minimal": {
        "location": Tried(ELSEWHERE, f"{IN_STORE} location", ELSEWHERE.upper(), "Europe"),
        "project_id": Tried("other-project", f"{IN_STORE} project", "other-project", "p"),
    },
    "examples/org_policies": {
        "dry_run": Tried(
            True,
            'google_org_policy_policy.store["storage.publicAccessPrevention"] dry_run_spec.0.rules.0.enforce',
            "TRUE",
        ),
        "kms_key": Tried(
            KEY,
            'google_org_policy_policy.store["gcp.restrictNonCmekServices"] '
            "dry_run_spec.0.rules.0.values.0.denied_values",
            ["firestore.googleapis.com", "storage.googleapis.com"],
            "one",
        ),
        "location": Tried(ELSEWHERE, f"{IN_STORE} location", ELSEWHERE.upper(), "eur3"),
        "project_id": Tried("other-project", f"{IN_STORE} project", "other-project", "p"),
    },
    "examples/vpc_sc": {
        "access_policy": Tried("7", f"{PERIMETER} parent", "accessPolicies/7", "accessPolicies/7"),
        "browser_networks": Tried(
            ["203.0.113.0/24"],
            "google_access_context_manager_access_level.browsers[0] basic.0.conditions.0.ip_subnetworks",
            ["203.0.113.0/24"],
            ["0.0.0.0/0"],
        ),
        "enforced": Tried(True, f"{PERIMETER} status.0.resources", ["projects/stand-in-google_project"]),
        "location": Tried(ELSEWHERE, f"{IN_STORE} location", ELSEWHERE.upper(), "Europe"),
        "operators": Tried(
            [ADA],
            f"{PERIMETER} status.0.ingress_policies.0.ingress_from.0.identities",
            [ADA],
            ["group:team@example.com"],
        ),
        "project_id": Tried("other-project", f"{IN_STORE} project", "other-project", "p"),
    },
}

APART: Mapping[str, tuple[str, ...]] = {"modules/adk_store": ("create_bucket", "create_database")}
"""Variables that would hide what others change, in a plan of their own."""


def found(plan: Mapping[str, Any], shows: str) -> Any:
    """Return an argument of a resource in a plan; ``None`` where either is missing.

    A number leads into a list, and a name into a list of variables, or of an object.
    """
    address, _, path = shows.partition(" ")
    at: Any = planned(plan["planned_values"]["root_module"]).get(address)
    for step in path.split("."):
        if isinstance(at, list) and not step.isdigit():
            at = next((each["value"] for each in at if each["name"] == step), None)
        elif isinstance(at, list):
            at = at[int(step)] if int(step) < len(at) else None
        else:
            at = (at or {}).get(step)
    return at


def planned(module: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of each resource, by its address, in a module and those that it calls."""
    made = {each["address"]: each["values"] for each in module.get("resources", ())}
    for child in module.get("child_modules", ()):
        made |= planned(child)
    return made


def test_every_variable_is_in_the_table() -> None:
    """And nothing else; what bulk jobs need has tests of its own."""
    assert {*FOLDERS} - {*TABLE} <= {"examples/dataflow", "modules/bulk_jobs"}
    assert {name: sorted(table) for name, table in TABLE.items()} == {
        folder: [each.name for each in variables(folder)] for folder in TABLE
    }


@pytest.mark.parametrize("folder", at_length(["examples/cloud_run", "modules/adk_store"], sorted(TABLE)))
def test_a_variable_changes_what_it_says(
    terraform: Terraform, prepared: Path, plans: Callable[..., Mapping[str, Any]], tmp_path: Path, folder: str
) -> None:
    """All in one plan, each at its place; it is another there by default. Defaults alone make a plan too."""
    table = TABLE[folder]
    by_default = plans(folder)
    actions = {action for change in by_default["resource_changes"] for action in change["change"]["actions"]}
    apart = APART.get(folder, ())
    wrong = {}
    for group in ([name for name in table if name not in apart], list(apart)):
        if group:
            values = {name: table[name].value for name in group}
            place = copied(tmp_path / group[0], prepared) / folder
            plan = terraform.plan(place, **{**REQUIRED.get(folder, {"project_id": "my-project"}), **values})
            for name in group:
                planned = found(plan, table[name].shows)
                if planned != table[name].becomes or planned == found(by_default, table[name].shows):
                    wrong[name] = planned

    assert {"create"} <= actions <= {"create", "read"}
    assert {} == wrong


@pytest.mark.parametrize("folder", at_length(["examples/cloud_run", "modules/adk_store"], sorted(TABLE)))
def test_an_illegal_value_is_refused_with_the_legal_ones(
    terraform: Terraform, configurations: Path, folder: str
) -> None:
    """By every rule of every variable; what has no rule is bounded by its type, such as a bool."""
    table = TABLE[folder]
    illegal = {name: each.wrong for name, each in table.items() if each.wrong is not CLEAR}
    errors = "\n".join(terraform.refusals(configurations / folder, **illegal))

    for variable in variables(folder):
        assert (variable.name in illegal) == bool(variable.messages) == (variable.type != "bool"), (
            variable.name
        )
        for message in variable.messages:
            assert message in errors, variable.name
        for choice in variable.choices:
            assert choice in " ".join(variable.messages), variable.name
