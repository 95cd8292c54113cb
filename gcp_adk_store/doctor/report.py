"""Combine all findings of one deployment, and explain the checks that could not run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.doctor import access, bucket, database, measures
from gcp_adk_store.doctor.access import Whose
from gcp_adk_store.doctor.answers import Answer
from gcp_adk_store.doctor.findings import CHECKS, Finding, Place, fail, skipped
from gcp_adk_store.doctor.measures import Probe

_OF_FIRESTORE: Final[Mapping[str, str]] = {
    "database": "an emulator makes any database at its first use",
    "point-in-time recovery": "an emulator has none",
    "delete protection": "an emulator has none",
    "indexes": "an emulator answers every query without an index",
    "index exemptions": "an emulator knows none",
    "time to live": "an emulator removes nothing by itself",
    "IAM of the database": "an emulator lets everybody do everything",
}
_OF_STORAGE: Final[Mapping[str, str]] = {
    "bucket": "the emulator did not say; the objects below show whether it is there",
    "bucket location": "an emulator is nowhere",
    "bucket access": "an emulator lets everybody do everything",
    "bucket soft delete": "what matters is the setting of the real bucket",
    "bucket lifecycle": "an emulator applies no rule",
    "bucket holds": "what matters is the setting of the real bucket",
    "IAM of the bucket": "an emulator lets everybody do everything",
}
_OF_BOTH: Final[Mapping[str, str]] = {
    "credentials": "emulators take none",
    "APIs": "emulators need none",
    "clock": "an emulator has this machine's",
}
_OF_OBJECTS: Final = ("objects", "latency of objects")
_OF_BUCKET: Final = (*_OF_STORAGE, *_OF_OBJECTS)
_ON_EMULATORS: Final = "on an emulator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The APIs' answers about a deployment; ``None`` for questions that were not asked."""

    services: Answer | None = None
    database: Answer | None = None
    indexes: Answer | None = None
    fields: Answer | None = None
    project_permissions: Answer | None = None
    bucket: Answer | None = None
    bucket_permissions: Answer | None = None

    @property
    def all(self) -> list[Answer]:
        """The APIs that were asked for."""
        given = (
            self.services,
            self.database,
            self.indexes,
            self.fields,
            self.project_permissions,
            self.bucket,
            self.bucket_permissions,
        )
        return [answer for answer in given if answer is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All known facts of a deployment."""

    place: Place
    on_firestore_emulator: bool = False
    on_storage_emulator: bool = False
    whose: Whose | None = None
    refusal: str = ""
    """Why the credentials yield no token."""
    answers: Answers = Answers()
    documents: Probe | None = None
    objects: Probe | None = None
    emulated_bucket: bool | None = None
    """Whether the emulator has the bucket; ``None`` if unknown."""


def findings_of(facts: Facts) -> list[Finding]:
    """Return one finding for each check, in the order of the checks."""
    found = {finding.check: finding for finding in (*_measured(facts), *_answered(facts))}
    return [found.get(check) or _not_looked_at(check, facts) for check in CHECKS]


def _answered(facts: Facts) -> list[Finding]:
    """Check the answers of the APIs and the credentials."""
    place, whose, answers = facts.place, facts.whose, facts.answers
    if facts.refusal:
        return [fail("credentials", facts.refusal)]
    if whose is None:
        return []
    found = [access.credentials(whose, place), measures.clock(answers.all, facts.documents)]
    if answers.services is not None:
        found.append(access.apis(answers.services, place, whose))
    if answers.database is not None:
        found += [judge(answers.database, place) for judge in (database.database, database.recovery)]
        found.append(database.protection(answers.database, place))
    if answers.indexes is not None:
        found.append(database.indexes(answers.indexes, place))
    if answers.fields is not None:
        found += [judge(answers.fields, place) for judge in (database.exemptions, database.time_to_live)]
    if answers.project_permissions is not None:
        works = facts.documents is not None and facts.documents.succeeded
        found.append(access.database_access(answers.project_permissions, place, whose, works=works))
    if answers.bucket is not None:
        judges = (bucket.bucket, bucket.access, bucket.soft_delete, bucket.lifecycle, bucket.holds)
        found += [judge(answers.bucket, place) for judge in judges]
        found.append(bucket.location(answers.bucket, place, _location(answers.database)))
    if answers.bucket_permissions is not None:
        found.append(access.bucket_access(answers.bucket_permissions, place, whose))
    return found


def _measured(facts: Facts) -> list[Finding]:
    location = _location(facts.answers.database)
    found = []
    if facts.emulated_bucket is not None:
        found.append(bucket.emulated(facts.place, exists=facts.emulated_bucket))
    if facts.documents is not None:
        found += [
            measures.probe("documents", facts.documents, facts.place.database_path),
            measures.latency("latency of documents", facts.documents.samples_ms, location=location),
        ]
    if facts.objects is not None:
        found += [
            measures.probe("objects", facts.objects, f"gs://{facts.place.bucket}"),
            measures.latency("latency of objects", facts.objects.samples_ms, location=location),
        ]
    return found


def _not_looked_at(check: str, facts: Facts) -> Finding:
    if facts.place.bucket is None and check in _OF_BUCKET:
        aside = "" if check == "bucket" else "without a bucket"
        return skipped(
            check, "the store has no bucket; name one with --bucket or ADK_STORE_BUCKET", aside=aside
        )
    if facts.on_firestore_emulator and check in _OF_FIRESTORE:
        return skipped(check, _OF_FIRESTORE[check], aside=_ON_EMULATORS)
    if facts.on_storage_emulator and check in _OF_STORAGE:
        return skipped(check, _OF_STORAGE[check], aside=_ON_EMULATORS)
    if facts.emulated_bucket is False and check in _OF_OBJECTS:
        return skipped(check, "the bucket does not exist")
    if check in _OF_BOTH and not facts.refusal:
        return skipped(check, _OF_BOTH[check], aside=_ON_EMULATORS)
    return skipped(check, "the credentials are missing")


def _location(answer: Answer | None) -> str | None:
    told = answer.body.get("locationId") if answer is not None and answer.is_ok else None
    return told if isinstance(told, str) else None
