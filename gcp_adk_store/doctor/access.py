"""Judge who may access data: IAM, keys, anchors."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from gcp_adk_store.cloud.auth.tokens import Identity
from gcp_adk_store.doctor.findings import (
    Answer,
    Body,
    Facts,
    Finding,
    KeysFacts,
    Place,
    fail,
    ok,
    skipped,
    warn,
)

_VERBS: Final = ("create", "delete", "get", "list", "update")
DATABASE_PERMISSIONS: Final = tuple(f"datastore.entities.{verb}" for verb in _VERBS)
BUCKET_PERMISSIONS: Final = tuple(f"storage.objects.{verb}" for verb in _VERBS)
_SIGNING: Final = "iamcredentials"
_KEY: Final = "service account key"


def credentials(identity: Identity, place: Place) -> Finding:
    """Check credentials that have a token."""
    says = str(identity)
    if identity.quota_project:
        says += f", counted for {identity.quota_project}"
    if identity.universe_domain != "googleapis.com":
        says += f", in the universe {identity.universe_domain}"
    if identity.kind == "user login" and not identity.quota_project:
        return warn(
            f"{says}; without a quota project requests may be refused",
            f"gcloud auth application-default set-quota-project {place.project}",
        )
    if identity.kind == _KEY:
        account = shlex.quote(_account(identity) or "EMAIL")
        return warn(
            f"{says}; a key can be lost: attach the service account, impersonate it, or use workload "
            "identity federation",
            f"gcloud run services update SERVICE --service-account={account}",
        )
    return ok(says)


def services(place: Place, universe_domain: str) -> tuple[str, ...]:
    """Return the APIs that a store calls; the last one signs URLs for a bucket without a key."""
    names = ("firestore", "storage", _SIGNING) if place.bucket else ("firestore",)
    return tuple(f"{name}.{universe_domain}" for name in names)


def apis(body: Body, facts: Facts) -> Finding:
    """Check ``services:batchGet`` of Service Usage."""
    enabled = {
        service.get("name", "").rpartition("/")[2]
        for service in body.get("services", ())
        if service.get("state") == "ENABLED"
    }
    called = services(facts.place, facts.identity.universe_domain)
    if facts.identity.kind == _KEY:
        called = tuple(name for name in called if not _signs(name))
    missing = [name for name in called if name not in enabled]
    if not missing:
        return ok(f"{', '.join(called)} enabled")
    says = f"{', '.join(missing)} not enabled in {facts.place.project}"
    remedy = f"gcloud services enable {' '.join(missing)} --project={facts.place.project}"
    terraform = "; ".join(f'google_project_service: service = "{name}"' for name in missing)
    if all(map(_signs, missing)):
        return warn(f"{says}; without a key, signed URLs need it", remedy, terraform=terraform)
    return fail(says, remedy, terraform=terraform)


def database_access(body: Body, facts: Facts) -> Finding:
    """Check ``testIamPermissions`` of the project, which does not show a role for one database.

    Then the probe decides.
    """
    member, missing = member_of(facts.identity), _missing(body, DATABASE_PERMISSIONS)
    if not missing:
        return ok(f"{member} may read and write")
    if facts.probe_succeeded:
        return ok("enough for the probe, through a role for a part of the project")
    return fail(
        f"{member} lacks {missing}",
        f"gcloud projects add-iam-policy-binding {facts.place.project} --member={shlex.quote(member)} "
        "--role=roles/datastore.user --condition='title=adk-store,expression=resource.name == "
        f'"{facts.place.database_path}"\'',
        terraform='google_project_iam_member: role = "roles/datastore.user"',
    )


def bucket_access(body: Body, facts: Facts) -> Finding:
    """Check ``testIamPermissions`` of the bucket."""
    member, missing = member_of(facts.identity), _missing(body, BUCKET_PERMISSIONS)
    if not missing:
        return ok(f"{member} may read and write")
    return fail(
        f"{member} lacks {missing}",
        f"gcloud storage buckets add-iam-policy-binding gs://{facts.place.bucket} "
        f"--member={shlex.quote(member)} --role=roles/storage.objectUser",
        terraform='google_storage_bucket_iam_member: role = "roles/storage.objectUser"',
    )


def _signs(service: str) -> bool:
    return service.startswith(f"{_SIGNING}.")


def _account(identity: Identity) -> str | None:
    """Return the service account of the requests, if known."""
    return identity.impersonates or identity.principal


def member_of(identity: Identity) -> str:
    """Return IAM's name of the identity; a placeholder if unknown."""
    account = _account(identity)
    return f"serviceAccount:{account}" if account else "MEMBER"


def _missing(body: Body, needed: Sequence[str]) -> str:
    granted = set(body.get("permissions", ()))
    return ", ".join(permission for permission in needed if permission not in granted)


PERMISSIONS: Final = ("storage.objects.delete", "storage.buckets.update", "storage.buckets.setIamPolicy")
"""To remove anchors, to remove a policy that is not locked, and to give oneself either permission."""

_DAY_S: Final = 86_400


def missing(place: Place) -> Finding:
    """Name the missing bucket."""
    return fail(
        f"gs://{place.anchors} does not exist",
        f"gcloud storage buckets create gs://{place.anchors} --project={place.project} --location=LOCATION "
        "--uniform-bucket-level-access --public-access-prevention --retention-period=365d",
        terraform="the variable anchors of the module adk_store",
    )


def retention(body: Body, facts: Facts) -> Finding:
    """Check that a locked retention policy keeps each anchor."""
    name, update = facts.place.anchors, f"gcloud storage buckets update gs://{facts.place.anchors}"
    if name == facts.place.bucket:
        return fail(
            f"gs://{name} is the store's own bucket: a retention policy would keep what the store deletes; "
            "use another one"
        )
    policy = body.get("retentionPolicy") or {}
    period = str(policy.get("retentionPeriod") or 0)
    if not period.isdecimal() or not int(period):
        return fail(
            f"gs://{name} has no retention policy: anchors can be removed and replaced",
            f"{update} --retention-period=365d",
            terraform="google_storage_bucket: retention_policy",
        )
    days = f"keeps each anchor for {int(period) / _DAY_S:,.4g} days"
    if not policy.get("isLocked"):
        return warn(
            f"{days}, but whoever may change the bucket can remove the policy; locking it is final",
            f"{update} --lock-retention-period",
            terraform="google_storage_bucket: retention_policy with is_locked = true",
        )
    return ok(f"{days}; the policy is locked")


def access(body: Body, facts: Facts) -> Finding:
    """Check ``testIamPermissions`` of the bucket: the store's identity has to lack :data:`PERMISSIONS`."""
    member = member_of(facts.identity)
    granted = [each for each in PERMISSIONS if each in body.get("permissions", ())]
    if not granted:
        return ok(f"{member} can neither remove anchors nor change the bucket")
    return warn(
        f"{member} has {', '.join(granted)}: the identity of a store must not",
        f"gcloud storage buckets get-iam-policy gs://{facts.place.anchors}",
        f"gcloud storage buckets remove-iam-policy-binding gs://{facts.place.anchors} "
        f"--member={shlex.quote(member)} --role=ROLE",
    )


def encryption_key(keys: KeysFacts) -> Finding:
    """Check that the key wraps and unwraps."""
    if keys.is_missing:
        return warn(f"{keys.key} does not exist: a store makes a new key there, which reads nothing older")
    return fail(keys.failure) if keys.failure else ok(f"{keys.key} wraps and unwraps")


def keys_database(keys: KeysFacts, place: Place) -> Finding:
    """Check that nothing keeps the keys of erased users, and that nobody deletes those of the others."""
    of_keys = f"--database={keys.database} --project={place.project}"
    if not keys.answers:
        return skipped("an emulator has no backups", aside="on an emulator")
    database = keys.answers["database"]
    if database.status == HTTPStatus.NOT_FOUND:
        return fail(
            f"the database {keys.database} does not exist",
            f"gcloud firestore databases create {of_keys} --location=LOCATION --delete-protection",
        )
    unknown = [name for name, answer in keys.answers.items() if not answer.is_ok]
    if unknown:
        reasons = ", ".join(f"{name}: {_why(keys.answers[name])}" for name in unknown)
        return skipped(f"not everything could be looked at ({reasons})")
    wrong = []
    if database.body.get("pointInTimeRecoveryEnablement") == "POINT_IN_TIME_RECOVERY_ENABLED":
        command = f"gcloud firestore databases update {of_keys} --no-enable-pitr"
        wrong.append(("point-in-time recovery is on", command))
    for schedule in keys.answers["schedules"].body.get("backupSchedules") or ():
        named = f"--backup-schedule={str(schedule.get('name', '')).rpartition('/')[2]}"
        wrong.append(("backups are made", f"gcloud firestore backups schedules delete {of_keys} {named}"))
    path = replace(place, database=keys.database).database_path
    for backup in keys.answers["backups"].body.get("backups") or ():
        if backup.get("database") != path or backup.get("state") == "NOT_AVAILABLE":
            continue
        *_, location, _, name = ("", "", *str(backup.get("name", "")).split("/"))
        named = shlex.join([f"--backup={name}", f"--location={location}", f"--project={place.project}"])
        wrong.append(("backups exist", f"gcloud firestore backups delete {named}"))
    if wrong:
        problem = " and ".join(dict.fromkeys(says for says, _ in wrong))
        return fail(
            f"{problem} of {keys.database}: the keys of erased users stay", *(command for _, command in wrong)
        )
    if database.body.get("deleteProtectionState") != "DELETE_PROTECTION_ENABLED":
        return warn(
            f"one command deletes {keys.database}, and with it all that is encrypted",
            f"gcloud firestore databases update {of_keys} --delete-protection",
            terraform='google_firestore_database: delete_protection_state = "DELETE_PROTECTION_ENABLED"',
        )
    return ok(f"{keys.database} has no backups, keeps an hour of history, and is protected from deletion")


def _why(answer: Answer) -> str:
    if answer.status == HTTPStatus.FORBIDDEN:
        return "this identity may not look"
    return answer.reason or f"the API answered {answer.status}"
