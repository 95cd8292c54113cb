"""Combine all findings of one deployment, and explain the checks that could not run."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final, Literal

from gcp_adk_store.doctor import access, bucket, database, measures
from gcp_adk_store.doctor.findings import Answer, Body, Facts, Finding, Place, Probe, fail, ok, skipped

Look = Callable[[Facts], Finding | None]
"""Return the finding of one check; ``None`` if the facts lack what the check needs."""


@dataclass(frozen=True, slots=True)
class _Check:
    of: Literal["deployment", "database", "bucket", "objects", "anchors"]
    """What the check is about."""
    look: Look
    emulated: str = ""
    """Why the check does not apply on an emulator."""


def findings_of(facts: Facts) -> list[Finding]:
    """Return one finding for each check, in the order of the checks.

    An encrypted store has two more, and a bucket of anchors that is to be checked, too.
    """
    found = _looked_at(_CHECKS, facts)
    if facts.keys is not None:
        of_keys = access.encryption_key(facts.keys), access.keys_database(facts.keys, facts.place)
        found += [replace(each, check=name) for name, each in zip(CHECKS_OF_KEYS, of_keys, strict=True)]
    if facts.place.anchors is not None:
        found += _looked_at(_CHECKS_OF_ANCHORS, facts)
    return found


def _looked_at(checks: Mapping[str, _Check], facts: Facts) -> list[Finding]:
    return [
        replace(check.look(facts) or _not_looked_at(name, check, facts), check=name)
        for name, check in checks.items()
    ]


def _not_looked_at(name: str, check: _Check, facts: Facts) -> Finding:
    if facts.place.bucket is None and check.of in {"bucket", "objects"}:
        aside = "" if name == "bucket" else "without a bucket"
        return skipped("the store has no bucket; name one with --bucket or ADK_STORE_BUCKET", aside=aside)
    on_emulator = {
        "deployment": not facts.refusal,
        "database": facts.on_firestore_emulator,
        "bucket": facts.on_storage_emulator,
        "anchors": facts.on_storage_emulator,
    }
    if check.emulated and on_emulator[check.of]:
        return skipped(check.emulated, aside="on an emulator")
    if facts.emulated_bucket is False and check.of == "objects":
        return _NO_BUCKET
    return skipped("the credentials are missing")


def _reads(
    name: str,
    needs: str,
    judge: Callable[[Body, Facts], Finding],
    missing: Finding | Callable[[Place], Finding] | None = None,
) -> Look:
    """Return a check of the answer *name*, which the permission *needs* allows to read.

    *judge* checks its body; *missing* returns the finding if what it describes does not exist.
    """

    def look(facts: Facts) -> Finding | None:
        answer = facts.answers.get(name)
        if answer is None:
            return None
        if answer.is_ok:
            return judge(answer.body, facts)
        if answer.status == HTTPStatus.NOT_FOUND and missing is not None:
            return missing(facts.place) if callable(missing) else missing
        return _unanswered(answer, needs, facts.place.project)

    return look


def _unanswered(answer: Answer, needs: str, project: str) -> Finding:
    if answer.status == 0:
        return fail(f"the API could not be reached ({answer.reason}); try again, or look at the network")
    if answer.disabled_service is not None:
        return skipped(
            f"{answer.disabled_service} is not enabled in {project}",
            f"gcloud services enable {shlex.quote(answer.disabled_service)} --project={project}",
        )
    if answer.status == HTTPStatus.FORBIDDEN:
        return skipped(f"this identity may not look: it lacks {needs}; a store does not need it")
    reason = f"{answer.status} {answer.error}".strip()
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return fail(f"the credentials are refused ({reason})", "gcloud auth application-default login")
    return fail(f"the API answered {reason}; try again")


def _probed(name: Literal["documents", "objects"], judge: Callable[[Probe, Facts], Finding]) -> Look:
    """Return a check of the probe *name*."""

    def look(facts: Facts) -> Finding | None:
        probe: Probe | None = getattr(facts, name)
        return None if probe is None else judge(probe, facts)

    return look


def _credentials(facts: Facts) -> Finding | None:
    if facts.refusal:
        return fail(facts.refusal)
    return access.credentials(facts.identity, facts.place) if facts.answers else None


def _bucket(facts: Facts) -> Finding | None:
    if facts.emulated_bucket is not None:
        return bucket.emulated(facts.place, exists=facts.emulated_bucket)
    return _of_bucket(bucket.bucket, missing=bucket.missing)(facts)


def _database_access(facts: Facts) -> Finding | None:
    name = "project_permissions"
    finding = _reads(name, "resourcemanager.projects.get", access.database_access)(facts)
    if finding and facts.probe_succeeded and not facts.answers[name].is_ok:
        return ok(f"enough for the probe; not checked: {finding.says}")
    return finding


def _vectors(facts: Facts) -> Finding | None:
    place = facts.place
    at = shlex.join([f"--{name}={getattr(place, name)}" for name in ("project", "database", "prefix")])
    return None if facts.memories is None else measures.vectors(facts.memories, at)


_NO_DATABASE: Final = skipped("the database does not exist")
_NO_BUCKET: Final = skipped("the bucket does not exist")
_of_database = partial(_reads, "database", "datastore.databases.get", missing=_NO_DATABASE)
_of_fields = partial(_reads, "fields", "datastore.indexes.list", missing=_NO_DATABASE)
_of_bucket = partial(_reads, "bucket", "storage.buckets.get", missing=_NO_BUCKET)
_OPEN: Final = "an emulator checks no permissions"
_REAL: Final = "only the setting of the real bucket matters"
_CHECKS: Final[Mapping[str, _Check]] = {
    "credentials": _Check("deployment", _credentials, "emulators need none"),
    "APIs": _Check(
        "deployment", _reads("services", "serviceusage.services.get", access.apis), "emulators need none"
    ),
    "database": _Check(
        "database",
        _of_database(database.database, missing=database.missing),
        "an emulator creates any database",
    ),
    "point-in-time recovery": _Check("database", _of_database(database.recovery), "an emulator has none"),
    "delete protection": _Check("database", _of_database(database.protection), "an emulator has none"),
    "indexes": _Check(
        "database",
        _reads("indexes", "datastore.indexes.list", database.indexes, missing=_NO_DATABASE),
        "an emulator answers every query without an index",
    ),
    "index exemptions": _Check("database", _of_fields(database.exemptions), "an emulator has none"),
    "time to live": _Check("database", _of_fields(database.time_to_live), "an emulator removes nothing"),
    "bucket": _Check("bucket", _bucket, "the emulator did not answer; see objects"),
    "bucket location": _Check("bucket", _of_bucket(bucket.location), "an emulator has no location"),
    "bucket access": _Check("bucket", _of_bucket(bucket.access), _OPEN),
    "bucket soft delete": _Check("bucket", _of_bucket(bucket.soft_delete), _REAL),
    "bucket lifecycle": _Check("bucket", _of_bucket(bucket.lifecycle), "an emulator applies no rule"),
    "bucket holds": _Check("bucket", _of_bucket(bucket.holds), _REAL),
    "IAM of the database": _Check("database", _database_access, _OPEN),
    "IAM of the bucket": _Check(
        "bucket",
        _reads("bucket_permissions", "storage.objects.list", access.bucket_access, missing=_NO_BUCKET),
        _OPEN,
    ),
    "clock": _Check("deployment", measures.clock, "an emulator uses the clock of this machine"),
    "documents": _Check(
        "database",
        _probed("documents", lambda probe, facts: measures.written(probe, facts.place.database_path)),
    ),
    "objects": _Check(
        "objects",
        _probed("objects", lambda probe, facts: measures.written(probe, f"gs://{facts.place.bucket}")),
    ),
    "latency of documents": _Check("database", _probed("documents", measures.latency)),
    "latency of objects": _Check("objects", _probed("objects", measures.latency)),
    "vectors of memories": _Check("database", _vectors),
}
_CHECKS_OF_ANCHORS: Final[Mapping[str, _Check]] = {
    "anchors": _Check(
        "anchors",
        _reads("anchors", "storage.buckets.get", access.retention, missing=access.missing),
        "an emulator has no retention policy",
    ),
    "IAM of anchors": _Check(
        "anchors",
        _reads("anchors_permissions", "storage.objects.list", access.access, missing=_NO_BUCKET),
        _OPEN,
    ),
}
CHECKS: Final = tuple(_CHECKS)
"""The names of all checks, in the order of the report."""
CHECKS_OF_KEYS: Final = ("encryption key", "keys database")
"""The names of the checks of encrypted stores, which come after them."""
