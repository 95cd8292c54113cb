"""Open a store in a project of Google Cloud, and judge until when data that it deleted can be read back."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from google.auth.credentials import Credentials

from gcp_adk_store import settings
from gcp_adk_store.artifacts.gcs import GcsArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import Objects as CloudObjects
from gcp_adk_store.doctor import admin_api
from gcp_adk_store.doctor.findings import Answer, Place
from gcp_adk_store.erasure.run import RecoveryOf
from gcp_adk_store.errors import CredentialsError, InvalidInputError, StoreError, UnavailableError
from gcp_adk_store.kernel.ports import Objects
from gcp_adk_store.model.erasures import Recovery
from gcp_adk_store.sessions.firestore import FirestoreSessionService
from gcp_adk_store.settings import ArtifactLimits, StoreSettings
from gcp_adk_store.settings.options import StoreOptions, of_sessions
from gcp_adk_store.store.opening import OtherPlaces, kept_where_unknown


def open_in_project(
    place: StoreSettings,
    options: StoreOptions,
    credentials: StoreCredentials | Credentials | None = None,
    impersonates: str | None = None,
    *,
    firestore: FirestoreClient | None = None,
    storage: StorageClient | None = None,
) -> tuple[FirestoreSessionService, GcsArtifactService | None, StoreOptions, OtherPlaces]:
    """Return the services of *place* in Google Cloud, *options*, and what the store knows of other places.

    Clients that are given are used as they are. Otherwise both services have one identity: *credentials*, or
    else that of *place*.

    Raises:
        InvalidInputError: *credentials* and *impersonates* both say whom they impersonate.
    """
    shared: StoreCredentials | None = None
    if impersonates is not None:
        if isinstance(credentials, StoreCredentials):
            raise InvalidInputError("pass impersonate_service_account= to StoreCredentials alone")
        shared = StoreCredentials(credentials, impersonate_service_account=impersonates)
    elif credentials is not None:
        shared = StoreCredentials.of(credentials)
    elif firestore is None:
        shared = StoreCredentials.from_settings(place)
    sessions = FirestoreSessionService(
        project=place.project,
        database=place.database,
        prefix=place.prefix,
        bucket=place.bucket,
        client=firestore,
        storage=storage,
        credentials=shared,
        **of_sessions(options),
    )
    beside = _beside(place, options, storage=storage, credentials=shared)
    if place.bucket is None:
        return sessions, None, options, beside
    artifacts = GcsArtifactService(
        place.bucket,
        project=place.project,
        client=storage,
        credentials=shared,
        limits=options.get("artifact_limits"),
    )
    return sessions, artifacts, options, beside


def _beside(
    place: StoreSettings,
    options: StoreOptions,
    *,
    storage: StorageClient | None = None,
    credentials: StoreCredentials | None = None,
) -> OtherPlaces:
    """Return the places beside a store in Google Cloud."""
    limits = options.get("artifact_limits") or ArtifactLimits()
    envelope = options.get("encryption")
    recovery_of_keys: RecoveryOf = kept_where_unknown
    if envelope is not None:
        of_keys = replace(place, database=envelope.keys_database, bucket=None)
        recovery_of_keys = partial(recoverable, of_keys, credentials)

    def open_objects(name: str) -> Objects:
        named = StoreSettings(project=place.project, bucket=name)
        calls = StorageCalls(
            named.bucket or "", project=named.project, client=storage, credentials=credentials, limits=limits
        )
        return CloudObjects(calls)

    return OtherPlaces(
        recovery=partial(recoverable, place, credentials),
        recovery_of_keys=recovery_of_keys,
        open_objects=open_objects,
    )


_HOUR_S: Final = 3600.0
_WEEK_S: Final = 7 * 24 * _HOUR_S
_NEEDS: Final = {
    "database": "datastore.databases.get",
    "backups": "datastore.backups.list",
    "schedules": "datastore.backupSchedules.list",
    "bucket": "storage.buckets.get",
}
"""The permission that each answer needs."""


async def recoverable(
    place: StoreSettings,
    credentials: StoreCredentials | None,
    removed_at: float,
    *,
    endpoint: str | None = None,
) -> Recovery:
    """Return until when data that was removed at *removed_at* can be read back; it changes nothing.

    What the APIs do not report is ``unknown``: it raises no error.

    Args:
        place: The store.
        credentials: Whose token the requests carry; ``None`` if they are the caller's own.
        removed_at: Unix time in seconds.
        endpoint: As for :func:`~gcp_adk_store.doctor.admin_api.look`.
    """
    if credentials is None:
        return Recovery(unknown=("everything: the store was made of clients; run gcp-adk-store doctor",))
    at_database = settings.firestore_emulator_host() is None
    at_bucket = settings.storage_emulator_url() is None and place.bucket is not None
    if not at_database and not at_bucket:
        return Recovery()
    try:
        found = await asyncio.to_thread(credentials.find)
        await found.token.ready()
        project = (
            place.project or settings.default_project() or await asyncio.to_thread(credentials.find_project)
        )
        there = Place(
            project=project or "", database=place.database, bucket=place.bucket, prefix=place.prefix
        )
        names = [*(admin_api.OF_RECOVERY if at_database else ()), *(["bucket"] if at_bucket else [])]
        answers = await asyncio.to_thread(admin_api.look, found.token, there, names, endpoint=endpoint)
    except (CredentialsError, UnavailableError) as exc:
        return Recovery(unknown=(f"everything: {type(exc).__name__}",))
    except StoreError as exc:
        return Recovery(unknown=(f"everything: {exc}",))
    return judged(answers, there, removed_at)


def judged(answers: Mapping[str, Answer], place: Place, removed_at: float) -> Recovery:
    """Return what *answers* say of data that was removed at *removed_at*."""
    unknown = [
        f"{name}: {_why(answer, _NEEDS[name])}" for name, answer in answers.items() if not answer.is_ok
    ]
    history = backups = kept = None
    database = answers.get("database")
    if database is not None and database.is_ok:
        history = removed_at + _history_s(database.body)
    times = [
        _time(backup.get("expireTime"))
        for backup in _items(answers.get("backups"), "backups")
        if backup.get("database") == place.database_path and backup.get("state") != "NOT_AVAILABLE"
    ]
    # A backup that begins now may still hold what was removed just before.
    times += [
        removed_at + _seconds(schedule.get("retention"))
        for schedule in _items(answers.get("schedules"), "backupSchedules")
    ]
    backups = max((time for time in times if time > removed_at), default=None)
    bucket = answers.get("bucket")
    if bucket is not None and bucket.is_ok:
        policy = bucket.body.get("softDeletePolicy") or {}
        seconds = _seconds(policy.get("retentionDurationSeconds"))
        kept = removed_at + seconds if seconds else None
        if (bucket.body.get("versioning") or {}).get("enabled"):
            unknown.append("bucket: it keeps noncurrent versions, until a lifecycle rule removes them")
    return Recovery(
        firestore_history_until=history,
        backups_until=backups,
        soft_delete_until=kept,
        unknown=tuple(unknown),
    )


def _history_s(database: Mapping[str, Any]) -> float:
    """Return how long the database keeps older versions of documents, in seconds."""
    seconds = _seconds(database.get("versionRetentionPeriod"))
    if seconds:
        return seconds
    is_on = database.get("pointInTimeRecoveryEnablement") == "POINT_IN_TIME_RECOVERY_ENABLED"
    return _WEEK_S if is_on else _HOUR_S


def _items(answer: Answer | None, name: str) -> Sequence[Mapping[str, Any]]:
    return answer.body.get(name) or () if answer is not None and answer.is_ok else ()


def _why(answer: Answer, needs: str) -> str:
    if answer.status == HTTPStatus.FORBIDDEN:
        return f"this identity lacks {needs}"
    return answer.reason or f"the API answered {answer.status}"


def _seconds(value: object) -> float:
    """Return a duration of the APIs, such as ``604800s``; 0 for anything else."""
    text = str(value).removesuffix("s")
    return float(text) if text.replace(".", "", 1).isdecimal() else 0.0


def _time(value: object) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0
