"""Each check says ok of what is right, and of what is wrong the command that puts it right, and no more."""

import asyncio
import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gcp_adk_store import InvalidInputError, StoreSettings
from tests.doctor.conftest import IDENTITY, PLACE, SUCCEEDED, Found, Look, examined
from tests.doctor.google_apis import (
    BUCKET,
    DATABASE,
    FORBIDDEN,
    GROUPS,
    MISSING,
    PROJECT,
    GoogleApis,
    configured,
    disabled,
    error,
    single,
)
from tests.support.documents import ROOT
from tests.support.queries import documented_exemptions

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
    """One way in which a deployment can be wrong, with what is to be said of it."""

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


def test_a_healthy_deployment_is_ok(look: Look) -> None:
    """By every check."""
    healthy = look()

    assert {"ok"} == {one.status for one in healthy.values()}
    assert [] == [one for one in healthy.values() if one.commands or one.terraform]
    assert "europe-west4, native mode" in healthy["database"].says


def test_nothing_but_questions_is_asked(look: Look, apis: GoogleApis) -> None:
    """With the token, of each API, page by page."""
    look()
    asked = [(request.method, request.path) for request in apis.asked]

    assert {"Bearer token"} == {request.headers["authorization"] for request in apis.asked}
    assert set(apis.answers) == {path for _, path in asked}
    assert ["testIamPermissions"] == [path.partition(":")[2] for method, path in asked if method == "POST"]
    pages = [request.params for request in apis.asked if request.path.endswith(FIELDS)]
    assert len(pages) > 1
    assert {"indexConfig.usesAncestorConfig:false OR ttlConfig:*"} == {page["filter"][0] for page in pages}
    services = next(request.params for request in apis.asked if request.path.endswith(SERVICES))
    assert [
        f"projects/{PROJECT}/services/{name}.googleapis.com"
        for name in ("firestore", "storage", "iamcredentials")
    ] == services["names"]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.check}: {wrong.says[:40]}")
def test_what_is_wrong_is_named_with_its_remedy(look: Look, apis: GoogleApis, wrong: Wrong) -> None:
    """By the one check that it concerns."""
    apis.change(wrong.at, wrong.change)
    found = look()
    finding = found[wrong.check]

    assert wrong.status == finding.status
    assert wrong.says in finding.says
    assert wrong.command in "\n".join(finding.commands)
    assert wrong.terraform in finding.terraform
    others = {check: one.status for check, one in found.items() if check != wrong.check}
    assert dict.fromkeys(others, "ok") == others


RIGHT: list[tuple[str, Callable[[Any], object], str]] = [
    (BUCKET_OF, with_(location="EU", locationType="multi-region"), "bucket location"),
    (BUCKET_OF, with_(location="EUR4", locationType="dual-region"), "bucket location"),
    (
        BUCKET_OF,
        with_(
            location="EU",
            customPlacementConfig={"dataLocations": ["EUROPE-NORTH1", "EUROPE-WEST4"]},
        ),
        "bucket location",
    ),
    (DATABASE_OF, with_(locationId="europe-west4"), "bucket location"),
    (BUCKET_OF, rules({**ENDED, "matchesPrefix": ["adk-payloads/"]}, UPLOADS), "bucket lifecycle"),
    (BUCKET_OF, rules(ENDED, UPLOADS, {"age": 9, "isLive": False}), "bucket lifecycle"),
    (BUCKET_OF, rules(ENDED, UPLOADS, {"daysSinceNoncurrentTime": 9}), "bucket lifecycle"),
    (
        FIELDS,
        field(
            "adk_sessions",
            "last_update_time",
            indexConfig={"indexes": single("last_update_time"), "usesAncestorConfig": True},
        ),
        "index exemptions",
    ),
    (
        FIELDS,
        with_(
            fields=[
                *(configured(each, "*") for each in documented_exemptions() if each != "sessions"),
                *(configured("sessions", name) for name in documented_exemptions()["sessions"]),
            ]
        ),
        "index exemptions",
    ),
]


@pytest.mark.parametrize(("at", "change", "check"), RIGHT)
def test_what_is_right_in_another_way_is_ok(
    look: Look, apis: GoogleApis, at: str, change: Callable[[Any], object], check: str
) -> None:
    """Multi-regions around the database, rules that take only what has ended, exemptions of all fields."""
    apis.change(at, change)

    assert "ok" == look()[check].status


def test_a_database_of_several_regions_lies_in_a_bucket_around_them(look: Look, apis: GoogleApis) -> None:
    """As Google names them: US has no region of Canada or Mexico, and EU neither London nor Zurich."""
    inside = [("nam5", "US"), ("eur3", "EU"), ("europe-west12", "EU"), ("asia-east1", "ASIA")]
    outside = [("northamerica-northeast1", "US"), ("europe-west2", "EU"), ("europe-west6", "EU")]
    for database, bucket in (*inside, *outside):
        apis.change(DATABASE_OF, with_(locationId=database))
        apis.change(BUCKET_OF, with_(location=bucket))

        says = "ok" if (database, bucket) in inside else "warn"
        assert says == look()["bucket location"].status, database


OF = {
    SERVICES: ("APIs",),
    DATABASE_OF: ("database", "point-in-time recovery", "delete protection"),
    INDEXES: ("indexes",),
    FIELDS: ("index exemptions", "time to live"),
    BUCKET_OF: ("bucket", "bucket location", "bucket access", "bucket soft delete", "bucket lifecycle"),
    BUCKET_IAM: ("IAM of the bucket",),
}


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (FORBIDDEN, "skipped", "this identity may not look: it lacks "),
        (disabled("firestore.googleapis.com"), "skipped", "firestore.googleapis.com is not enabled"),
        (error(401, "UNAUTHENTICATED"), "fail", "the credentials are refused (401 UNAUTHENTICATED)"),
        (error(503, "UNAVAILABLE"), "fail", "the API answered 503 UNAVAILABLE; try again"),
        ((502, b"<html>words of a proxy</html>"), "fail", "the API answered 502; try again"),
        ((302, b""), "fail", "the API answered 302; try again"),
        (
            (200, b"<html>words of a proxy</html>"),
            "fail",
            "could not be reached (the answer is not a JSON",
        ),
        ((200, b'["words of"]'), "fail", "could not be reached (the answer is not a JSON object)"),
        ((200, b'{"words of'), "fail", "could not be reached (the answer is not a JSON object)"),
    ],
)
@pytest.mark.parametrize("at", OF)
def test_an_api_that_does_not_say_is_not_taken_for_one_that_says_no(
    look: Look, apis: GoogleApis, at: str, answer: tuple[int, Any], status: str, says: str
) -> None:
    """What may not be looked at is skipped, what does not work fails; the server's words are not shown."""
    apis.refuse(at, answer)
    found = look()

    assert dict.fromkeys(OF[at], status) == {check: found[check].status for check in OF[at]}
    assert all(says in found[check].says for check in OF[at])
    assert "words of" not in str(found)


def test_an_api_that_is_not_enabled_is_named_with_the_command(look: Look, apis: GoogleApis) -> None:
    """So that it can be looked at next time."""
    apis.refuse(SERVICES, disabled("serviceusage.googleapis.com"))

    assert (f"gcloud services enable serviceusage.googleapis.com --project={PROJECT}",) == (
        look()["APIs"].commands
    )


@pytest.mark.parametrize(
    ("missing", "check", "says", "command", "skipped"),
    [
        (
            (DATABASE_OF, INDEXES, FIELDS),
            "database",
            f"projects/{PROJECT}/databases/{DATABASE} does not exist",
            f"gcloud firestore databases create {WHERE} --location=LOCATION",
            [*OF[DATABASE_OF][1:], *OF[INDEXES], *OF[FIELDS], "bucket location"],
        ),
        (
            (BUCKET_OF, BUCKET_IAM),
            "bucket",
            "",
            f"gcloud storage buckets create gs://{BUCKET}",
            [*OF[BUCKET_OF][1:], "bucket holds", *OF[BUCKET_IAM]],
        ),
    ],
    ids=["database", "bucket"],
)
def test_what_is_missing_is_one_finding(
    look: Look,
    apis: GoogleApis,
    missing: tuple[str, ...],
    check: str,
    says: str,
    command: str,
    skipped: list[str],
) -> None:
    """What hangs on it is skipped."""
    for at in missing:
        apis.refuse(at, MISSING)
    found = look()

    assert "fail" == found[check].status
    assert says in found[check].says
    assert command in found[check].commands[0]
    assert skipped == [name for name, one in found.items() if one.status == "skipped"]


def test_a_deployment_without_a_bucket_is_looked_at_without_one(look: Look, apis: GoogleApis) -> None:
    """Sessions need none: nothing is asked of Cloud Storage."""
    found = look(place=replace(PLACE, bucket=None))

    assert [] == [request for request in apis.asked if request.path.startswith("/storage/")]
    assert "ADK_STORE_BUCKET" in found["bucket"].says
    assert {"ok", "skipped"} == {
        one.status for check, one in found.items() if check not in ("objects", "latency of objects")
    }


def test_a_role_for_the_database_alone_is_not_missed(look: Look, apis: GoogleApis) -> None:
    """Where the project says no and the probe lived, a role is conditioned to the database.

    A project that may not be asked leaves it to the probe: least privilege is no fault.
    """
    failed = {"failure": "no"}

    def after(probe: dict[str, Any]) -> Found:
        return look(documents=probe)["IAM of the database"]

    granted = after(failed)
    apis.change(PROJECT_IAM, without("permissions"))
    of_a_part, lacking = after(SUCCEEDED), after(failed)
    apis.refuse(PROJECT_IAM, FORBIDDEN)
    unknown = [after(probe).status for probe in (SUCCEEDED, failed)]

    assert ("ok", True) == (granted.status, "may read and write" in granted.says)
    assert "ok" == of_a_part.status
    assert "through a role for a part of the project" in of_a_part.says
    assert "fail" == lacking.status
    assert "lacks datastore.entities.create" in lacking.says
    assert f'resource.name == "projects/{PROJECT}/databases/{DATABASE}"' in lacking.commands[0]
    assert "roles/datastore.user" in lacking.terraform
    assert ["ok", "skipped"] == unknown


@pytest.mark.parametrize(
    ("identity", "status", "says"),
    [
        (IDENTITY, "ok", "metadata server of agent@demo"),
        (replace(IDENTITY, quota_project="q"), "ok", "counted for q"),
        (replace(IDENTITY, universe_domain="example.test"), "ok", "in the universe example.test"),
        (replace(IDENTITY, kind="service account key"), "warn", "a key can be lost"),
        (
            replace(IDENTITY, kind="user login", principal=None),
            "warn",
            "without a quota project requests may be refused",
        ),
        (replace(IDENTITY, kind="user login", quota_project="q"), "ok", "counted for q"),
    ],
)
def test_credentials_are_judged(look: Look, identity: Any, status: str, says: str) -> None:
    """Keys, and logins that count for nobody, are remarked."""
    finding = look(identity=identity)["credentials"]

    assert status == finding.status
    assert says in finding.says
    assert bool(finding.commands) == (status == "warn")


@pytest.mark.parametrize(
    ("ages_s", "status", "says"),
    [
        (0, "ok", "agrees with Google's"),
        (20, "warn", "s behind Google's"),
        (-20, "warn", "s ahead of Google's"),
        (3600, "fail", "keys and signed URLs are refused"),
        (-3600, "fail", "expires_after of artifacts"),
    ],
)
def test_a_clock_that_is_wrong_is_seen(
    look: Look, apis: GoogleApis, ages_s: float, status: str, says: str
) -> None:
    """By the dates of the answers."""
    apis.ages_s = ages_s
    finding = look()["clock"]

    assert status == finding.status
    assert says in finding.says


@pytest.mark.parametrize(
    ("ahead_s", "status", "says"),
    [
        (-1.5, "ok", "agrees with Firestore's"),
        (20, "warn", "20 s behind Firestore's: sessions end by Firestore's time"),
        (-600, "fail", "600 s ahead of Firestore's"),
    ],
)
def test_firestores_own_clock_decides_where_it_is_known(
    look: Look, apis: GoogleApis, ahead_s: float, status: str, says: str
) -> None:
    """It is the one that sessions end by, and it is exact; an answer without a date of HTTP says nothing."""
    for apis.date in ("", "yesterday", "2026-01-01T00:00:00Z"):
        assert "skipped" == look()["clock"].status

    finding = look(documents={"clock_ahead_s": ahead_s})["clock"]

    assert status == finding.status
    assert says in finding.says


@pytest.mark.parametrize(
    ("probe", "status", "says"),
    [
        (SUCCEEDED, "ok", "written, read, listed and deleted"),
        ({"failure": "doctor: PERMISSION_DENIED; grant it"}, "fail", "grant it"),
        ({"left": "adk_doctor/1"}, "fail", "adk_doctor/1 could not be deleted: delete it by hand"),
        ({"failure": "cut", "left": "adk_doctor/1"}, "fail", "cut; adk_doctor/1 could not"),
    ],
)
def test_a_probe_that_did_not_live_is_reported(
    look: Look, probe: dict[str, Any], status: str, says: str
) -> None:
    """And where it lies, if it is still there."""
    found = look(documents=probe, objects=probe)

    for check in ("documents", "objects"):
        assert (status, True) == (found[check].status, says in found[check].says), check


@pytest.mark.parametrize(
    ("samples_ms", "status", "says"),
    [
        ([1.0, 2.0, 900.0], "ok", "half of 3 reads took less than 2.0 ms, none more than 900.0 ms"),
        ([150.0, 160.0, 170.0], "warn", "let the agent run beside its data"),
        ([], "skipped", "nothing could be read"),
    ],
)
def test_reads_that_take_long_are_reported(
    look: Look, samples_ms: list[float], status: str, says: str
) -> None:
    """With where to run instead."""
    finding = look(documents={"samples_ms": samples_ms})["latency of documents"]

    assert status == finding.status
    assert says in finding.says
    assert (status == "warn") == (finding.commands == ("gcloud run deploy SERVICE --region=europe-west4",))


def test_a_database_without_any_gets_the_commands_of_the_page(look: Look, apis: GoogleApis) -> None:
    """Those of docs/data-model.md for indexes, TTL policies and fields without an index, and no other."""
    every = {"name": f"{GROUPS}/__default__/fields/*", "indexConfig": {"indexes": single("*")}}
    apis.change(INDEXES, with_(indexes=[]))
    apis.change(FIELDS, with_(fields=[every]))
    found = look()

    def of_check(check: str) -> set[frozenset[str]]:
        place = {f"--database='{DATABASE}'", f"--project={PROJECT}"}
        return {frozenset(each.split()) - place for each in found[check].commands}

    text = (ROOT / "docs/data-model.md").read_text()
    page = [frozenset(line.split()) for line in text.splitlines() if line.startswith("gcloud firestore ")]
    update = "gcloud firestore indexes fields update --disable-indexes"
    assert {each for each in page if "indexes" in each} == of_check("indexes")
    assert {each for each in page if "ttls" in each} == of_check("time to live")
    assert of_check("index exemptions") == {
        frozenset([*update.split(), field, f"--collection-group=adk_{collection}"])
        for collection, fields in documented_exemptions().items()
        for field in fields
    }


def test_a_prefix_of_its_own_has_indexes_of_its_own(look: Look, apis: GoogleApis) -> None:
    """Those of another prefix are not taken for them."""
    found = look(place=replace(PLACE, prefix="team"))
    wrong = {check for check, one in found.items() if one.status != "ok"}

    assert {"indexes", "index exemptions", "time to live"} == wrong
    assert "--collection-group=team_sessions" in found["indexes"].commands[0]
    assert apis.asked


HOSTILE = "x'; touch mine #"


@pytest.mark.parametrize(
    ("conditions", "missing"),
    [
        ((), [ENDED, UPLOADS]),
        (({"daysSinceNoncurrentTime": 9}, UPLOADS), [ENDED]),
        (({**ENDED, "matchesPrefix": ["it's mine/"]}, UPLOADS), [ENDED]),
        (({**ENDED, "matchesPrefix": ["adk-payloads/app/"]}, UPLOADS), [ENDED]),
        (({**ENDED, "matchesSuffix": [".png"]}, UPLOADS), [ENDED]),
        ((ENDED, {**UPLOADS, "matchesPrefix": ["adk-store-uploads/a"]}), [UPLOADS]),
    ],
)
def test_lifecycle_rules_are_added_to_those_that_are_there(
    look: Look,
    apis: GoogleApis,
    tmp_path: Path,
    conditions: tuple[dict[str, Any], ...],
    missing: list[dict[str, Any]],
) -> None:
    """Rules that take a part of what they should are not enough; a file of rules replaces all of them."""
    apis.change(BUCKET_OF, rules(*conditions))
    finding = look()["bucket lifecycle"]
    written, applied = finding.commands
    subprocess.run(["/bin/sh", "-c", written], cwd=tmp_path, check=True)

    assert "warn" == finding.status
    assert [*conditions, *missing] == [
        rule["condition"] for rule in json.loads((tmp_path / "lifecycle.json").read_text())["rule"]
    ]
    assert f"gcloud storage buckets update gs://{BUCKET} --lifecycle-file=lifecycle.json" == applied


def test_the_rule_that_takes_what_is_in_use_is_shown(look: Look, apis: GoogleApis) -> None:
    """Not another one before it."""
    logs = {"age": 7, "matchesPrefix": ["logs/"]}
    apis.change(BUCKET_OF, rules(ENDED, UPLOADS, logs, {"age": 30}))

    assert "(age 30)" in look()["bucket lifecycle"].says


@pytest.mark.parametrize(
    ("at", "answer", "check"),
    [
        (BUCKET_IAM, without("permissions"), "IAM of the bucket"),
        (PROJECT_IAM, without("permissions"), "IAM of the database"),
        (DATABASE_OF, with_(locationId=HOSTILE, type="DATASTORE_MODE"), "database"),
        (DATABASE_OF, with_(locationId=HOSTILE), "bucket location"),
        (DATABASE_OF, with_(locationId=HOSTILE), "latency of documents"),
        (SERVICES, disabled(HOSTILE), "APIs"),
        (SERVICES, lambda _: None, "credentials"),
    ],
)
def test_a_name_that_others_chose_is_one_word_of_a_command(
    look: Look, apis: GoogleApis, at: str, answer: Any, check: str
) -> None:
    """Of an account in a file of credentials, or in an API's answer."""
    if callable(answer):
        apis.change(at, answer)
    else:
        apis.refuse(at, answer)
    slow = {"samples_ms": [1000.0], "failure": "slow"}
    identity = replace(IDENTITY, kind="service account key", principal=HOSTILE)
    (command,) = look(identity=identity, documents=slow)[check].commands

    assert [HOSTILE] == [word[-len(HOSTILE) :] for word in shlex.split(command) if "touch" in word]


@pytest.mark.usefixtures("in_production")
def test_a_project_that_cannot_be_one_is_in_no_command(apis: GoogleApis, key_file: Path) -> None:
    """It is refused where the credentials name it."""
    key_file.write_text(json.dumps({**json.loads(key_file.read_text()), "project_id": HOSTILE}))
    with pytest.raises(InvalidInputError, match="must be a Google Cloud project's id"):
        asyncio.run(examined(StoreSettings(credentials_file=str(key_file)), apis))

    assert [] == apis.asked
