"""Examine a deployment: ask the APIs and run the probes."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from gcp_adk_store import settings
from gcp_adk_store.cloud import errors as translate
from gcp_adk_store.cloud.auth.credentials import PLATFORM_SCOPES, StoreCredentials
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.doctor import admin_api
from gcp_adk_store.doctor.findings import Facts, KeysFacts, Place
from gcp_adk_store.doctor.measures import count_memories
from gcp_adk_store.doctor.probes import probe_document, probe_object
from gcp_adk_store.encryption.wrapping import wrapper_of
from gcp_adk_store.errors import CredentialsError, NotProvisionedError, StoreError, UnavailableError
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings
from gcp_adk_store.settings.envelope import KmsEnvelope

DEADLINE_S: Final = 15.0
SAMPLES: Final = 20

_KEY_BYTES: Final = 32
_CONTEXT: Final = b"gcp-adk-store/1/doctor"


async def examine(
    chosen: StoreSettings,
    *,
    anchors: str | None = None,
    endpoint: str | None = None,
    samples: int = SAMPLES,
    deadline_s: float = DEADLINE_S,
) -> Facts:
    """Return the facts of the deployment that *chosen* names, and leave nothing behind.

    Args:
        chosen: The place of the deployment and the identity to use.
        anchors: The bucket of anchors, to check it too.
        endpoint: As for :func:`~gcp_adk_store.doctor.admin_api.look`.
        samples: How often each probe reads its document or object.
        deadline_s: The deadline of each request of a probe, in seconds.

    Raises:
        NotProvisionedError: neither the settings nor the credentials name a project.
        InvalidInputError: the credentials name a malformed project.
    """
    on_firestore = settings.firestore_emulator_host() is not None
    on_storage = settings.storage_emulator_url() is not None
    on_emulators = on_firestore and (on_storage or (chosen.bucket is None and anchors is None))
    place = Place(
        project=chosen.project or "",
        database=chosen.database,
        bucket=chosen.bucket,
        prefix=chosen.prefix,
        anchors=anchors,
    )
    facts = Facts(place=place, on_firestore_emulator=on_firestore, on_storage_emulator=on_storage)
    if on_emulators:
        project = chosen.project or settings.default_project() or settings.EMULATOR_PROJECT
        facts = replace(facts, place=replace(place, project=project))
    else:
        facts = await _asked(facts, chosen, endpoint)
    facts = await _probed(facts, chosen, samples=samples, deadline_s=deadline_s)
    if chosen.encryption is None:
        return facts
    return replace(facts, keys=await _of_keys(facts, chosen, chosen.encryption, endpoint))


async def _of_keys(
    facts: Facts, chosen: StoreSettings, envelope: KmsEnvelope, endpoint: str | None
) -> KeysFacts:
    """Return what is known of the keys: the key wraps and unwraps once, and the APIs are asked."""
    key = envelope.key if isinstance(envelope.key, str | os.PathLike) else type(envelope.key).__name__
    found = KeysFacts(key=os.fspath(key), database=envelope.keys_database)
    if isinstance(key, os.PathLike) and not await asyncio.to_thread(Path(key).exists):
        found = replace(found, is_missing=True)  # a wrapper would make it
    else:
        found = await _tried(found, chosen, envelope)
    if facts.on_firestore_emulator or facts.refusal:
        return found
    credentials = StoreCredentials.from_settings(chosen, scopes=PLATFORM_SCOPES)
    place = replace(facts.place, database=envelope.keys_database, bucket=None)
    token = await credentials.ready()
    answers = await asyncio.to_thread(admin_api.look, token, place, admin_api.OF_RECOVERY, endpoint=endpoint)
    return replace(found, answers=answers)


async def _tried(found: KeysFacts, chosen: StoreSettings, envelope: KmsEnvelope) -> KeysFacts:
    """Return what is known once the key has wrapped and unwrapped."""
    try:
        wrapper = wrapper_of(envelope, StoreCredentials.from_settings(chosen))
        try:
            wrapped = await wrapper.wrap(bytes(_KEY_BYTES), _CONTEXT)
            await wrapper.unwrap(wrapped, _CONTEXT)
        finally:
            await wrapper.close()
    except StoreError as exc:
        return replace(found, failure=str(exc))
    return found


async def _asked(facts: Facts, chosen: StoreSettings, endpoint: str | None) -> Facts:
    """Return the facts with the APIs' answers."""
    credentials = StoreCredentials.from_settings(chosen, scopes=PLATFORM_SCOPES)
    project = chosen.project or settings.default_project()
    try:
        found = await asyncio.to_thread(credentials.find)
        await found.token.ready()
        project = project or await asyncio.to_thread(credentials.find_project)
        if project is None:
            raise translate.project_error()
        StoreSettings(project=project)  # refuses a malformed project of the credentials
        place = replace(facts.place, project=project)
        answers = await asyncio.to_thread(
            admin_api.look, found.token, place, asked_of(facts), endpoint=endpoint
        )
    except (CredentialsError, UnavailableError) as exc:
        place = replace(facts.place, project=project or "PROJECT")
        return replace(facts, place=place, refusal=str(exc))
    # Some credentials know their account only once they have a token.
    return replace(facts, place=place, identity=credentials.identity(), answers=answers)


def asked_of(facts: Facts) -> list[str]:
    """Return what to ask the APIs about the parts that are not emulated."""
    names = ["services", *(() if facts.on_firestore_emulator else admin_api.OF_DATABASE)]
    buckets = {"bucket": facts.place.bucket, "anchors": facts.place.anchors}
    for name, bucket in buckets.items():
        names += [name, f"{name}_permissions"] if bucket and not facts.on_storage_emulator else []
    return names


async def _probed(facts: Facts, chosen: StoreSettings, *, samples: int, deadline_s: float) -> Facts:
    """Return the facts with the probes' results, under the identity of a store.

    One probe follows the other, so that the measured times do not overlap.
    """
    place, credentials = facts.place, StoreCredentials.from_settings(chosen)
    if facts.on_firestore_emulator or not facts.refusal:
        documents = open_documents(
            project=place.project,
            database=place.database,
            credentials=credentials,
            client=None,
            interceptors=(),
            limits=SessionLimits(deadline_s=deadline_s),
        )
        try:
            probe = await probe_document(documents, place.prefix, samples=samples)
            if documents.clock.is_set:
                probe = replace(probe, clock_ahead_s=documents.clock.ahead_s)
            memories = await count_memories(documents, place.prefix)
            facts = replace(facts, documents=probe, memories=memories)
        finally:
            await documents.close()
    if place.bucket is not None and (facts.on_storage_emulator or not facts.refusal):
        calls = object_calls(
            place.bucket, project=place.project, credentials=credentials, deadline_s=deadline_s
        )
        try:
            exists = await _is_there(calls) if facts.on_storage_emulator else None
            of_objects = None if exists is False else await probe_object(Objects(calls), samples=samples)
        finally:
            await calls.close()
        facts = replace(facts, emulated_bucket=exists, objects=of_objects)
    return facts


def object_calls(
    bucket: str, *, project: str, credentials: StoreCredentials | None, deadline_s: float
) -> StorageCalls:
    """Return calls to *bucket* for :func:`probe_object`.

    They run one at a time: an abandoned request continues, and a concurrent deletion could overtake it.
    """
    limits = ArtifactLimits(deadline_s=deadline_s, request_timeout_s=deadline_s, max_workers=1)
    return StorageCalls(bucket, project=project, client=None, credentials=credentials, limits=limits)


async def _is_there(calls: StorageCalls) -> bool | None:
    """Return whether the bucket exists; ``None`` without an answer, which the probe reports."""
    try:
        await calls.require_bucket()
    except NotProvisionedError:
        return False
    except StoreError:
        return None
    return True
