"""Check the identity of a store and its permissions."""

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
    """The known properties of the credentials."""

    says: str
    """Their kind, principal, source and impersonated account."""
    kind: str
    principal: str | None
    """The service account of the requests, if known."""
    quota_project: str | None
    universe_domain: str

    @property
    def member(self) -> str:
        """IAM's name of it; a placeholder if unknown."""
        return f"serviceAccount:{self.principal}" if self.principal else "MEMBER"


def credentials(whose: Whose, place: Place) -> Finding:
    """Check credentials that have a token."""
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
    """Return the APIs that a store calls; the last one signs URLs for a bucket without a key."""
    names = ("firestore", "storage", _SIGNING) if place.bucket else ("firestore",)
    return tuple(f"{name}.{universe_domain}" for name in names)


def apis(answer: Answer, place: Place, whose: Whose) -> Finding:
    """Check ``services:batchGet`` of Service Usage."""
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
    """Check ``testIamPermissions`` of the project; *works* says whether the probe succeeded.

    The project does not show a role with a condition on one database.
    """
    check = "IAM of the database"
    if not answer.is_ok:
        finding = unanswered(check, answer, needs="resourcemanager.projects.get", project=place.project)
        return ok(check, f"enough for the probe; not checked:  {finding.says}") if works else finding
    missing = _missing(answer, DATABASE_PERMISSIONS)
    if not missing:
        return ok(check, f"{whose.member} may read and write")
    if works:
        return ok(check, "enough for the probe, through a role for a part of the project")
    return fail(
        check,
        f"{whose.member} lacks {', '.join(missing)}",
        f"gcloud projects add-iam-policy-binding {place.project} --member={shlex.quote(whose.member)} "
        "--role=roles/datastore.user --condition='title=adk-store,expression=resource.name == "
        f'"{place.database_path}"\'',
        terraform='google_project_iam_member: role = "roles/datastore.user"',
    )


def bucket_access(answer: Answer, place: Place, whose: Whose) -> Finding:
    """Check ``testIamPermissions`` of the bucket."""
    check = "IAM of the bucket"
    if answer.is_missing:
        return skipped(check, "the bucket does not exist")
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
