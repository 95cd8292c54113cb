"""Check the settings of a bucket."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gcp_adk_store.codec.names import UPLOADS
from gcp_adk_store.doctor.findings import Body, Facts, Finding, Place, fail, ok, skipped, warn

_DAY_S: Final = 86_400
_OF_CUSTOM_TIME: Final = ("daysSinceCustomTime", "customTimeBefore")
_OF_OLD_VERSIONS: Final = ("daysSinceNoncurrentTime", "noncurrentTimeBefore", "numNewerVersions")
_REGIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "US": ("us-", "nam5", "nam7"),
    "EU": (
        *("eur3", "europe-central", "europe-north", "europe-southwest"),
        *(f"europe-west{number}" for number in (1, 3, 4, 8, 9)),
    ),
    "ASIA": ("asia-",),
    "NAM4": ("us-central1", "us-east1", "nam5", "nam7"),
    "EUR4": ("europe-north1", "europe-west4", "eur3"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}
"""Multi-region -> prefixes of the database locations within it; EU has neither London nor Zurich."""
LIFECYCLE: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "rule": [
        {"action": {"type": "Delete"}, "condition": {"daysSinceCustomTime": 0}},
        {"action": {"type": "Delete"}, "condition": {"age": 1, "matchesPrefix": [f"{UPLOADS}/"]}},
    ]
}
"""The rules that a store needs, in the format of ``--lifecycle-file``."""


def missing(place: Place) -> Finding:
    """Name the missing bucket."""
    return fail(
        f"gs://{place.bucket} does not exist",
        f"gcloud storage buckets create gs://{place.bucket} --project={place.project} "
        "--location=LOCATION --uniform-bucket-level-access --public-access-prevention",
        terraform=f'google_storage_bucket: name = "{place.bucket}"',
    )


def bucket(body: Body, facts: Facts) -> Finding:
    """Check who pays for the bucket."""
    if (body.get("billing") or {}).get("requesterPays"):
        return fail(
            f"gs://{facts.place.bucket} lets requesters pay, which a store's requests do not offer",
            f"gcloud storage buckets update gs://{facts.place.bucket} --no-requester-pays",
            terraform="google_storage_bucket: requester_pays = false",
        )
    return ok(f"gs://{facts.place.bucket}, {body.get('storageClass', 'STANDARD')}")


def emulated(place: Place, *, exists: bool) -> Finding:
    """Check that an emulator has the bucket."""
    if exists:
        return ok(f"gs://{place.bucket}")
    return fail(
        f"gs://{place.bucket} does not exist on the emulator, which forgets buckets when it ends",
        make_on_emulator(f"{place.bucket}", place.project),
    )


def make_on_emulator(bucket: str, project: str, at: str = "$STORAGE_EMULATOR_HOST") -> str:
    """Return the command that makes a bucket on any emulator, by its URL *at*; ``gcloud`` cannot."""
    body = shlex.quote(json.dumps({"name": bucket}))
    return (
        f"curl --silent --show-error --fail --header 'Content-Type: application/json' --data {body} "
        f'"{at}/storage/v1/b?project={project}"'
    )


def location(body: Body, facts: Facts) -> Finding:
    """Check that the bucket's location matches the database's."""
    database = facts.database_location
    where = str(body.get("location", "")).upper()
    if database is None:
        return skipped(f"in {where}; the location of the database is unknown")
    regions = (body.get("customPlacementConfig") or {}).get("dataLocations") or [where]
    if any(_is_beside(str(region).upper(), database.lower()) for region in regions):
        return ok(f"in {where}, beside the database in {database}")
    return warn(
        f"in {where}, away from the database in {database}: each payload crosses regions and costs more",
        f"gcloud storage buckets create gs://NEW --location={shlex.quote(database)} "
        f"--project={facts.place.project}",
        terraform=f'google_storage_bucket: location = "{database.upper()}"',
    )


def access(body: Body, facts: Facts) -> Finding:
    """Check uniform access and the prevention of public access."""
    config = body.get("iamConfiguration") or {}
    wrong, options, lines = [], [], []
    if not (config.get("uniformBucketLevelAccess") or {}).get("enabled"):
        wrong.append("objects can have their own access lists beside IAM")
        options.append("--uniform-bucket-level-access")
        lines.append("uniform_bucket_level_access = true")
    if config.get("publicAccessPrevention") != "enforced":
        wrong.append("nothing prevents public access")
        options.append("--public-access-prevention")
        lines.append('public_access_prevention = "enforced"')
    if wrong:
        return warn(
            "; ".join(wrong),
            f"gcloud storage buckets update gs://{facts.place.bucket} {' '.join(options)}",
            terraform=f"google_storage_bucket: {', '.join(lines)}",
        )
    return ok("uniform, without public access")


def soft_delete(body: Body, facts: Facts) -> Finding:
    """Check that deleted objects can be restored."""
    seconds = _number((body.get("softDeletePolicy") or {}).get("retentionDurationSeconds"))
    if seconds > 0:
        return ok(f"what is deleted can be restored for {seconds / _DAY_S:g} days")
    return warn(
        "off: an artifact that is deleted by mistake is gone at once",
        f"gcloud storage buckets update gs://{facts.place.bucket} --soft-delete-duration=7d",
        terraform="google_storage_bucket: soft_delete_policy { retention_duration_seconds = 604800 }",
    )


def holds(body: Body, facts: Facts) -> Finding:
    """Check that objects can be deleted."""
    if body.get("retentionPolicy"):
        return fail(
            "a retention policy refuses every delete for its time: deletions fail, and expiry does not act",
            f"gcloud storage buckets update gs://{facts.place.bucket} --clear-retention-period",
            terraform="google_storage_bucket: remove retention_policy",
        )
    if body.get("defaultEventBasedHold"):
        return fail(
            "every new object is held: deletions fail, and expiry does not act",
            f"gcloud storage buckets update gs://{facts.place.bucket} --no-default-event-based-hold",
            terraform="google_storage_bucket: default_event_based_hold = false",
        )
    return ok("nothing keeps objects from being deleted")


def lifecycle(body: Body, facts: Facts) -> Finding:
    """Check the lifecycle rules that a store needs, and those that delete data in use."""
    rules = (body.get("lifecycle") or {}).get("rule") or ()
    deletes = [
        rule.get("condition") or {} for rule in rules if (rule.get("action") or {}).get("type") == "Delete"
    ]
    payloads = f"{facts.place.prefix}-payloads/"
    taking = [condition for condition in deletes if _takes(condition)]
    in_use = next((condition for condition in taking if _touches(condition, payloads)), None)
    listing = (
        f"gcloud storage buckets describe gs://{facts.place.bucket} --format='default(lifecycle_config)'"
    )
    if in_use is not None:
        shown = ", ".join(f"{name} {value}" for name, value in in_use.items()) or "without a condition"
        return fail(
            f"a rule deletes payloads and artifacts that are in use ({shown}); restrict it",
            listing,
            terraform="google_storage_bucket: lifecycle_rule with days_since_custom_time instead of age",
        )
    if taking:
        return warn(
            f"a rule deletes objects below {', '.join(taking[0].get('matchesPrefix', ()))}: artifacts of an "
            "app of that name would go",
            listing,
        )
    needed = (
        (f"payloads of sessions that have ended ({payloads})", payloads, "daysSinceCustomTime"),
        (f"files that browsers put and nobody finalized ({UPLOADS}/)", f"{UPLOADS}/", "age"),
    )
    missing = [
        (what, rule)
        for (what, below, by), rule in zip(needed, LIFECYCLE["rule"], strict=True)
        if not any(_removes(condition, below, by) for condition in deletes)
    ]
    if missing:
        # A lifecycle file replaces all existing rules.
        file = json.dumps({"rule": [*rules, *(rule for _, rule in missing)]})
        return warn(
            f"nothing removes {' and '.join(what for what, _ in missing)}",
            f"printf %s {shlex.quote(file)} > lifecycle.json",
            f"gcloud storage buckets update gs://{facts.place.bucket} --lifecycle-file=lifecycle.json",
            terraform="google_storage_bucket: lifecycle_rule of the module adk_store",
        )
    return ok("removes what has ended and what was never finalized, and nothing in use")


def _takes(condition: Mapping[str, Any]) -> bool:
    """Return whether a rule deletes live objects without a custom time, other than waiting uploads."""
    if any(name in condition for name in (*_OF_CUSTOM_TIME, *_OF_OLD_VERSIONS)):
        return False
    if condition.get("isLive") is False:
        return False
    prefixes: Sequence[str] = condition.get("matchesPrefix") or ()
    return not prefixes or any(not prefix.startswith(f"{UPLOADS}/") for prefix in prefixes)


def _touches(condition: Mapping[str, Any], name: str) -> bool:
    """Return whether a rule matches at least some objects below *name*."""
    prefixes = condition.get("matchesPrefix") or ("",)
    return any(name.startswith(prefix) or prefix.startswith(name) for prefix in prefixes)


def _removes(condition: Mapping[str, Any], name: str, by: str) -> bool:
    """Return whether a rule matches all objects below *name*, with *by* as its only condition."""
    asked = {key for key, value in condition.items() if (key, value) != ("isLive", True)}
    prefixes = condition.get("matchesPrefix") or ("",)
    return asked - {"matchesPrefix"} == {by} and any(name.startswith(prefix) for prefix in prefixes)


def _is_beside(place: str, database: str) -> bool:
    return place.lower() == database or database.startswith(_REGIONS.get(place, ("?",)))


def _number(value: Any) -> int:
    """Return a number of the JSON API, which writes 64-bit numbers as text."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else 0
