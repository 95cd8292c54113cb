"""Check the bucket of anchors: nobody may change or remove what is in it."""

import shlex
from typing import Final

from gcp_adk_store.doctor.access import member_of
from gcp_adk_store.doctor.findings import Body, Facts, Finding, Place, fail, ok, warn

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
