"""Check the identity of a store and its permissions."""

import shlex
from collections.abc import Sequence
from typing import Final

from gcp_adk_store.cloud.auth.token_errors import Identity
from gcp_adk_store.doctor.findings import Body, Facts, Finding, Place, fail, ok, warn

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
