"""List the ways in which a deployment can be wrong, each with what is to be said of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.doctor.google_apis import BUCKET, DATABASE, GROUPS, PROJECT

DATABASE_OF = f"/databases/{DATABASE}"
INDEXES, FIELDS = "/-/indexes", "/-/fields"
SERVICES = "services:batchGet"
PROJECT_IAM = f"{PROJECT}:testIamPermissions"
BUCKET_OF = f"/b/{BUCKET}"
BUCKET_IAM = "/iam/testPermissions"
WHERE = f"--database='{DATABASE}' --project={PROJECT}"


def without(name: str) -> Callable[[Any], object]:
    """Return what removes a setting."""
    return lambda body: body.pop(name)


def with_(**settings: Any) -> Callable[[Any], object]:
    """Return what changes settings."""
    return lambda body: body.update(settings)


def rules(*conditions: dict[str, Any], action: str = "Delete") -> Callable[[Any], object]:
    """Return what replaces the lifecycle rules."""
    listed = [{"action": {"type": action}, "condition": condition} for condition in conditions]
    return with_(lifecycle={"rule": listed})


def field(collection: str, name: str, **settings: Any) -> Callable[[Any], object]:
    """Return what gives a field another configuration, ``None`` for none of its own."""

    def change(body: Any) -> None:
        ending = f"/{collection}/fields/{name}"
        body["fields"] = [one for one in body["fields"] if not one["name"].endswith(ending)]
        if settings:
            body["fields"].append({"name": f"{GROUPS}{ending}", **settings})

    return change


class Wrong(NamedTuple):
    """One way to be wrong."""

    at: str
    change: Callable[[Any], object]
    check: str
    status: str
    says: str
    command: str
    terraform: str = ""


ENDED = {"daysSinceCustomTime": 0}
UPLOADS = {"age": 1, "matchesPrefix": ["adk-store-uploads/"]}
UPDATE = f"gcloud storage buckets update gs://{BUCKET}"

WRONG = [
    Wrong(
        SERVICES,
        lambda body: body["services"][1].update(state="DISABLED"),
        "APIs",
        "fail",
        "storage.googleapis.com not enabled in demo",
        f"gcloud services enable storage.googleapis.com --project={PROJECT}",
        'google_project_service: service = "storage.googleapis.com"',
    ),
    Wrong(
        SERVICES,
        lambda body: body["services"][2].update(state="DISABLED"),
        "APIs",
        "warn",
        "iamcredentials.googleapis.com not enabled in demo; without a key, signed URLs need it",
        f"gcloud services enable iamcredentials.googleapis.com --project={PROJECT}",
        'google_project_service: service = "iamcredentials.googleapis.com"',
    ),
    Wrong(
        DATABASE_OF,
        with_(type="DATASTORE_MODE"),
        "database",
        "fail",
        "of the type DATASTORE_MODE",
        "gcloud firestore databases create --database=NEW --type=firestore-native",
        'type = "FIRESTORE_NATIVE"',
    ),
    Wrong(
        DATABASE_OF,
        with_(databaseEdition="ENTERPRISE"),
        "database",
        "warn",
        "Enterprise edition",
        "",
    ),
    Wrong(
        DATABASE_OF,
        with_(pointInTimeRecoveryEnablement="POINT_IN_TIME_RECOVERY_DISABLED"),
        "point-in-time recovery",
        "warn",
        "gone after an hour",
        f"gcloud firestore databases update {WHERE} --enable-pitr",
        'point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"',
    ),
    Wrong(
        DATABASE_OF,
        without("deleteProtectionState"),
        "delete protection",
        "warn",
        "one command deletes",
        f"gcloud firestore databases update {WHERE} --delete-protection",
        'delete_protection_state = "DELETE_PROTECTION_ENABLED"',
    ),
    Wrong(
        INDEXES,
        lambda body: body["indexes"].pop(),
        "indexes",
        "fail",
        "adk_sessions by app ascending and last_update_time descending is missing",
        f"--field-config=field-path=last_update_time,order=descending {WHERE}",
        "google_firestore_index",
    ),
    Wrong(
        INDEXES,
        lambda body: body["indexes"].pop(1),
        "indexes",
        "fail",
        "adk_sessions by label_set contains and last_update_time ascending of one user is missing",
        "--query-scope=collection --field-config=field-path=label_set,array-config=contains "
        f"--field-config=field-path=last_update_time,order=ascending {WHERE}",
        "google_firestore_index",
    ),
    Wrong(
        INDEXES,
        lambda body: body["indexes"][0].update(queryScope="COLLECTION"),
        "indexes",
        "fail",
        "last_update_time ascending is missing",
        "--query-scope=collection-group",
    ),
    Wrong(
        INDEXES,
        lambda body: body["indexes"][0].update(state="NEEDS_REPAIR"),
        "indexes",
        "fail",
        "ascending is in need of repair",
        "gcloud firestore indexes composite create",
    ),
    Wrong(
        INDEXES,
        lambda body: body["indexes"][0].update(state="CREATING"),
        "indexes",
        "warn",
        "still being built",
        "gcloud firestore indexes composite list",
    ),
    Wrong(
        FIELDS,
        field("adk_sessions", "tail"),
        "index exemptions",
        "warn",
        "indexed without use: adk_sessions.tail;",
        "gcloud firestore indexes fields update tail --disable-indexes "
        f"--collection-group=adk_sessions {WHERE}",
        "index_config {}",
    ),
    Wrong(
        FIELDS,
        field("adk_sessions", "last_update_time", indexConfig={}),
        "index exemptions",
        "fail",
        "last_update_time of adk_sessions is exempt",
        "gcloud firestore indexes fields update last_update_time --collection-group=adk_sessions "
        "--clear-exemption",
        'remove the one with field = "last_update_time"',
    ),
    Wrong(
        FIELDS,
        field("__default__", "*", indexConfig={}),
        "index exemptions",
        "fail",
        "last_update_time of adk_sessions is exempt",
        "--clear-exemption",
    ),
    Wrong(
        FIELDS,
        field("adk_segments", "expire_at", indexConfig={}),
        "time to live",
        "warn",
        "adk_segments (not set)",
        f"gcloud firestore fields ttls update expire_at --enable-ttl --collection-group=adk_segments {WHERE}",
        "ttl_config {}",
    ),
    Wrong(
        FIELDS,
        field("adk_chunks", "expire_at", indexConfig={}, ttlConfig={"state": "NEEDS_REPAIR"}),
        "time to live",
        "warn",
        "adk_chunks (NEEDS_REPAIR)",
        "--collection-group=adk_chunks",
    ),
    Wrong(
        FIELDS,
        field("adk_chunks", "expire_at", indexConfig={}, ttlConfig={"state": "CREATING"}),
        "time to live",
        "warn",
        "still being applied to adk_chunks",
        "gcloud firestore fields ttls list",
    ),
    Wrong(
        BUCKET_OF,
        with_(billing={"requesterPays": True}),
        "bucket",
        "fail",
        "lets requesters pay",
        f"{UPDATE} --no-requester-pays",
        "requester_pays = false",
    ),
    Wrong(
        BUCKET_OF,
        with_(location="US-CENTRAL1"),
        "bucket location",
        "warn",
        "in US-CENTRAL1, away from the database in europe-west4",
        "--location=europe-west4",
        'location = "EUROPE-WEST4"',
    ),
    Wrong(
        BUCKET_OF,
        with_(iamConfiguration={"publicAccessPrevention": "enforced"}),
        "bucket access",
        "warn",
        "their own access lists",
        f"{UPDATE} --uniform-bucket-level-access",
        "uniform_bucket_level_access = true",
    ),
    Wrong(
        BUCKET_OF,
        lambda body: body["iamConfiguration"].update(publicAccessPrevention="inherited"),
        "bucket access",
        "warn",
        "nothing prevents public access",
        f"{UPDATE} --public-access-prevention",
        'public_access_prevention = "enforced"',
    ),
    Wrong(
        BUCKET_OF,
        with_(softDeletePolicy={"retentionDurationSeconds": "0"}),
        "bucket soft delete",
        "warn",
        "gone at once",
        f"{UPDATE} --soft-delete-duration=7d",
        "retention_duration_seconds = 604800",
    ),
    Wrong(
        BUCKET_OF,
        rules(UPLOADS),
        "bucket lifecycle",
        "warn",
        "nothing removes payloads of sessions that have ended (adk-payloads/)",
        f"{UPDATE} --lifecycle-file=lifecycle.json",
        "lifecycle_rule",
    ),
    Wrong(
        BUCKET_OF,
        rules(ENDED),
        "bucket lifecycle",
        "warn",
        "nothing removes files that browsers put and nobody finalized (adk-store-uploads/)",
        "--lifecycle-file",
    ),
    Wrong(
        BUCKET_OF,
        rules(ENDED, UPLOADS, {"age": 30}),
        "bucket lifecycle",
        "fail",
        "deletes payloads and artifacts that are in use (age 30)",
        f"gcloud storage buckets describe gs://{BUCKET}",
        "instead of age",
    ),
    Wrong(
        BUCKET_OF,
        rules(ENDED, UPLOADS, {"age": 30, "matchesPrefix": ["logs/"]}),
        "bucket lifecycle",
        "warn",
        "below logs/: artifacts of an app of that name would go",
        "gcloud storage buckets describe",
    ),
    Wrong(
        BUCKET_OF,
        with_(retentionPolicy={"retentionPeriod": "86400"}),
        "bucket holds",
        "fail",
        "a retention policy refuses every delete",
        f"{UPDATE} --clear-retention-period",
        "remove retention_policy",
    ),
    Wrong(
        BUCKET_OF,
        with_(defaultEventBasedHold=True),
        "bucket holds",
        "fail",
        "every new object is held",
        f"{UPDATE} --no-default-event-based-hold",
        "default_event_based_hold = false",
    ),
    Wrong(
        BUCKET_IAM,
        lambda body: body["permissions"].remove("storage.objects.update"),
        "IAM of the bucket",
        "fail",
        "agent@demo.iam.gserviceaccount.com lacks storage.objects.update",
        f"gcloud storage buckets add-iam-policy-binding gs://{BUCKET} "
        "--member=serviceAccount:agent@demo.iam.gserviceaccount.com --role=roles/storage.objectUser",
        'role = "roles/storage.objectUser"',
    ),
    Wrong(
        BUCKET_IAM,
        without("permissions"),
        "IAM of the bucket",
        "fail",
        "lacks storage.objects.create, storage.objects.delete",
        "roles/storage.objectUser",
    ),
]
