"""Check the settings of a bucket."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gcp_adk_store.codec.objects import UPLOADS
from gcp_adk_store.doctor.answers import Answer, unanswered
from gcp_adk_store.doctor.findings import Finding, Place, fail, ok, skipped, warn

_DAY_S: Final = 86_400
_OF_CUSTOM_TIME: Final = ("daysSinceCustomTime", "customTimeBefore")
_OF_OLD_VERSIONS: Final = ("daysSinceNoncurrentTime", "noncurrentTimeBefore", "numNewerVersions")
_REGIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "US": ("us-", "nam", "northamerica-"),
    "EU": ("europe-", "eur"),
    "ASIA": ("asia-",),
    "NAM4": ("us-central1", "us-east1", "nam5", "nam7"),
    "EUR4": ("europe-north1", "europe-west4", "eur3"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
}
"""Multi-region -> prefixes of the database locations within it."""


def bucket(answer: Answer, place: Place) -> Finding:
    """Check that the bucket exists."""
    check = "bucket"
    if answer.is_missing:
        return fail(
            check,
            f"gs://{place.bucket} does not exist",
            f"gcloud storage buckets create gs://{place.bucket} --project={place.project} "
            "--location=LOCATION --uniform-bucket-level-access --public-access-prevention",
            terraform=f'google_storage_bucket: name = "{place.bucket}"',
        )
    if not answer.is_ok:
        return unanswered(check, answer, needs="storage.buckets.get", project=place.project)
    if (answer.body.get("billing") or {}).get("requesterPays"):
        return fail(
            check,
            f"gs://{place.bucket} lets requesters pay, which a store's requests do not offer",
            f"gcloud storage buckets update gs://{place.bucket} --no-requester-pays",
            terraform="google_storage_bucket: requester_pays = false",
        )
    return ok(check, f"gs://{place.bucket}, {answer.body.get('storageClass', 'STANDARD')}")


def emulated(place: Place, *, exists: bool) -> Finding:
    """Check that an emulator has the bucket."""
    check = "bucket"
    if exists:
        return ok(check, f"gs://{place.bucket}")
    body = shlex.quote(json.dumps({"name": place.bucket}))
    return fail(
        check,
        f"gs://{place.bucket} does not exist on the emulator, which forgets buckets when it ends",
        f"curl --silent --show-error --fail --header 'Content-Type: application/json' --data {body} "
        f'"$STORAGE_EMULATOR_HOST/storage/v1/b?project={place.project}"',
    )


def location(answer: Answer, place: Place, database_location: str | None) -> Finding:
    """Check that the bucket's location matches the database's."""
    check = "bucket location"
    if not answer.is_ok:
        return _without(check, answer, place)
    where = str(answer.body.get("location", "")).upper()
    if database_location is None:
        return skipped(check, f"in {where}; where the database is, is not known")
    regions = (answer.body.get("customPlacementConfig") or {}).get("dataLocations") or [where]
    if any(_is_beside(str(region).upper(), database_location.lower()) for region in regions):
        return ok(check, f"in {where}, beside the database in {database_location}")
    return warn(
        check,
        f"in {where}, away from the database in {database_location}: every payload crosses, and is paid for",
        f"gcloud storage buckets create gs://NEW --location={shlex.quote(database_location)} "
        f"--project={place.project}",
        terraform=f'google_storage_bucket: location = "{database_location.upper()}"',
    )


def access(answer: Answer, place: Place) -> Finding:
    """Check uniform access and the prevention of public access."""
    check = "bucket access"
    if not answer.is_ok:
        return _without(check, answer, place)
    config = answer.body.get("iamConfiguration") or {}
    wrong, options, lines = [], [], []
    if not (config.get("uniformBucketLevelAccess") or {}).get("enabled"):
        wrong.append("objects can have access lists of their own, past IAM")
        options.append("--uniform-bucket-level-access")
        lines.append("uniform_bucket_level_access = true")
    if config.get("publicAccessPrevention") != "enforced":
        wrong.append("nothing prevents public access")
        options.append("--public-access-prevention")
        lines.append('public_access_prevention = "enforced"')
    if wrong:
        return warn(
            check,
            "; ".join(wrong),
            f"gcloud storage buckets update gs://{place.bucket} {' '.join(options)}",
            terraform=f"google_storage_bucket: {', '.join(lines)}",
        )
    return ok(check, "uniform, and never public")


def soft_delete(answer: Answer, place: Place) -> Finding:
    """Check that deleted objects can be restored."""
    check = "bucket soft delete"
    if not answer.is_ok:
        return _without(check, answer, place)
    seconds = _number((answer.body.get("softDeletePolicy") or {}).get("retentionDurationSeconds"))
    if seconds > 0:
        return ok(check, f"what is deleted can be restored for {seconds / _DAY_S:g} days")
    return warn(
        check,
        "off: an artifact that is deleted by mistake is gone at once",
        f"gcloud storage buckets update gs://{place.bucket} --soft-delete-duration=7d",
        terraform="google_storage_bucket: soft_delete_policy { retention_duration_seconds = 604800 }",
    )


def holds(answer: Answer, place: Place) -> Finding:
    """Check that objects can be deleted."""
    check = "bucket holds"
    if not answer.is_ok:
        return _without(check, answer, place)
    if answer.body.get("retentionPolicy"):
        return fail(
            check,
            "a retention policy refuses every delete for its time: deletions fail, and expiry does not act",
            f"gcloud storage buckets update gs://{place.bucket} --clear-retention-period",
            terraform="google_storage_bucket: remove retention_policy",
        )
    if answer.body.get("defaultEventBasedHold"):
        return fail(
            check,
            "every new object is held: deletions fail, and expiry does not act",
            f"gcloud storage buckets update gs://{place.bucket} --no-default-event-based-hold",
            terraform="google_storage_bucket: default_event_based_hold = false",
        )
    return ok(check, "nothing keeps objects from being deleted")


def lifecycle(answer: Answer, place: Place) -> Finding:
    """Check the lifecycle rules that a store needs, and those that delete data in use."""
    check = "bucket lifecycle"
    if not answer.is_ok:
        return _without(check, answer, place)
    rules = (answer.body.get("lifecycle") or {}).get("rule") or ()
    deletes = [
        rule.get("condition") or {} for rule in rules if (rule.get("action") or {}).get("type") == "Delete"
    ]
    payloads = f"{place.prefix}-payloads/"
    taking = [condition for condition in deletes if _takes(condition)]
    in_use = next((condition for condition in taking if _touches(condition, payloads)), None)
    listing = f"gcloud storage buckets describe gs://{place.bucket} --format='default(lifecycle_config)'"
    if in_use is not None:
        return fail(
            check,
            f"a rule deletes payloads and artifacts that are in use ({_shown(in_use)}); restrict it",
            listing,
            terraform="google_storage_bucket: lifecycle_rule with days_since_custom_time instead of age",
        )
    if taking:
        return warn(
            check,
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
            check,
            f"nothing removes {' and '.join(what for what, _ in missing)}",
            f"printf %s {shlex.quote(file)} > lifecycle.json",
            f"gcloud storage buckets update gs://{place.bucket} --lifecycle-file=lifecycle.json",
            terraform="google_storage_bucket: lifecycle_rule of the module adk_store",
        )
    return ok(check, "removes what has ended and what was never finalized, and nothing in use")


LIFECYCLE: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "rule": [
        {"action": {"type": "Delete"}, "condition": {"daysSinceCustomTime": 0}},
        {"action": {"type": "Delete"}, "condition": {"age": 1, "matchesPrefix": [f"{UPLOADS}/"]}},
    ]
}
"""The rules that a store needs, in the format of ``--lifecycle-file``."""


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


def _shown(condition: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in condition.items()) or "without a condition"


def _is_beside(place: str, database: str) -> bool:
    return place.lower() == database or database.startswith(_REGIONS.get(place, ("?",)))


def _number(value: Any) -> int:
    """Return a number of the JSON API, which writes 64-bit numbers as text."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else 0


def _without(check: str, answer: Answer, place: Place) -> Finding:
    if answer.is_missing:
        return skipped(check, "the bucket does not exist")
    return unanswered(check, answer, needs="storage.buckets.get", project=place.project)
