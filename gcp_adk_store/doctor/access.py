"""Judge who a store is, and what it may do."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.doctor.answers import Answer, unanswered
from gcp_adk_store.doctor.findings import Finding, Place, fail, ok, skipped, warn

DATABASE_PERMISSIONS: Final = tuple(
    f"datastore.entities.{verb}" for verb in ("create", "delete", "get", "list", "update")
)
BUCKET_PERMISSIONS: Final = tuple(
    f"storage.objects.{verb}" for verb in ("create", "delete", "get", "list", "update")
)
_SIGNING: Final = "iamcredentials"
_KEY: Final = "service account key"
_LOGIN: Final = "user login"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """What is known of the credentials."""

    says: str
    """Kind, principal, where they were found, and as whom they act."""
    kind: str
    principal: str | None
    """The service account that requests are made as, where it is known."""
    quota_project: str | None
    universe_domain: str

    @property
    def member(self) -> str:
        """How IAM spells it; a placeholder where it is not known."""
        return f"serviceAccount:{self.principal}" if self.principal else "MEMBER"


def credentials(whose: Whose, place: Place) -> Finding:
    """Judge credentials that have a token."""
    says = whose.says
    if whose.quota_project:
        says += f", counted for {whose.quota_project}"
    if whose.universe_domain != "googleapis.com":
        says += f", in the universe {whose.universe_domain}"
    if whose.kind == _LOGIN and not whose.quota_project:
        return warn(
            "credentials",
            f"{says}; without a quota project requests may be refused",
            f"gcloud auth application-default set-quota-project {place.project}",
        )
    if whose.kind == _KEY:
        return warn(
            "credentials",
            f"{says}; a key can be lost: attach the service account, impersonate it, or use workload "
            "identity federation",
            f"gcloud run services update SERVICE --service-account={shlex.quote(whose.principal or 'EMAIL')}",
        )
    return ok("credentials", says)


def services(place: Place, universe_domain: str) -> tuple[str, ...]:
    """Return the APIs that a store calls; the last signs URLs where there is a bucket and no key."""
    names = ("firestore", "storage", _SIGNING) if place.bucket else ("firestore",)
    return tuple(f"{name}.{universe_domain}" for name in names)


def apis(answer: Answer, place: Place, whose: Whose) -> Finding:
    """Judge ``services:batchGet`` of Service Usage."""
    if not answer.is_ok:
        return unanswered("APIs", answer, needs="serviceusage.services.get", project=place.project)
    enabled = {
        service.get("name", "").rpartition("/")[2]
        for service in answer.body.get("services", ())
        if service.get("state") == "ENABLED"
    }
    called = services(place, whose.universe_domain)
    if whose.kind == _KEY:
        called = tuple(name for name in called if not _signs(name))
    missing = [name for name in called if name not in enabled]
    if not missing:
        return ok("APIs", f"{', '.join(called)} enabled")
    says = f"{', '.join(missing)} not enabled in {place.project}"
    remedy = f"gcloud services enable {' '.join(missing)} --project={place.project}"
    terraform = "; ".join(f'google_project_service: service = "{name}"' for name in missing)
    if all(map(_signs, missing)):
        return warn("APIs", f"{says}; without a key, signed URLs need it", remedy, terraform=terraform)
    return fail("APIs", says, remedy, terraform=terraform)


def database_access(answer: Answer, place: Place, whose: Whose, *, works: bool) -> Finding:
    """Judge ``testIamPermissions`` of the project; *works* is whether the canary lived and died.

    A role that is conditioned to one database is not seen on the project, where it does not hold.
    """
    check = "IAM of the database"
    if not answer.is_ok:
        finding = unanswered(check, answer, needs="resourcemanager.projects.get", project=place.project)
        return ok(check, f"enough for the canary; not looked at: {finding.says}") if works else finding
    missing = _missing(answer, DATABASE_PERMISSIONS)
    if not missing:
        return ok(check, f"{whose.member} may read and write")
    if works:
        return ok(check, "enough for the canary, through a role that does not hold for the whole project")
    return fail(
        check,
        f"{whose.member} lacks {', '.join(missing)}",
        f"gcloud projects add-iam-policy-binding {place.project} --member={shlex.quote(whose.member)} "
        "--role=roles/datastore.user --condition='title=adk-store,expression=resource.name == "
        f'"{place.database_path}"\'',
        terraform='google_project_iam_member: role = "roles/datastore.user"',
    )


def bucket_access(answer: Answer, place: Place, whose: Whose) -> Finding:
    """Judge ``testIamPermissions`` of the bucket."""
    check = "IAM of the bucket"
    if answer.is_missing:
        return skipped(check, "there is no such bucket")
    if not answer.is_ok:
        return unanswered(check, answer, needs="storage.objects.list", project=place.project)
    missing = _missing(answer, BUCKET_PERMISSIONS)
    if not missing:
        return ok(check, f"{whose.member} may read and write")
    return fail(
        check,
        f"{whose.member} lacks {', '.join(missing)}",
        f"gcloud storage buckets add-iam-policy-binding gs://{place.bucket} "
        f"--member={shlex.quote(whose.member)} --role=roles/storage.objectUser",
        terraform='google_storage_bucket_iam_member: role = "roles/storage.objectUser"',
    )


def _signs(service: str) -> bool:
    return service.startswith(f"{_SIGNING}.")


def _missing(answer: Answer, needed: Sequence[str]) -> list[str]:
    granted = set(answer.body.get("permissions", ()))
    return [permission for permission in needed if permission not in granted]
