"""Make services from the URIs that ADK's servers are given, and tell ADK of them."""

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gcp_adk_store.artifacts.service import GcsArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.errors import InvalidInputError, NotProvisionedError
from gcp_adk_store.operations.forks import Guard
from gcp_adk_store.operations.operation import part_of
from gcp_adk_store.sessions.service import FirestoreSessionService
from gcp_adk_store.settings import (
    ArtifactLimits,
    StoreSettings,
    artifact_service_arguments,
    require_known,
    session_service_arguments,
)

if TYPE_CHECKING:
    from google.adk.cli.service_registry import ServiceRegistry

Service = TypeVar("Service", FirestoreSessionService, GcsArtifactService)

LOOK_S: Final = 5.0
"""Seconds that a server's start may wait for its buckets' answers; its probes fail meanwhile."""

_guard = Guard()
_made: list[tuple[dict[str, Any], FirestoreSessionService | GcsArtifactService]] = []
_as_whom: dict[StoreSettings, StoreCredentials] = {}


def register(registry: "ServiceRegistry | None" = None) -> None:
    """Teach ADK ``firestore://PROJECT/DATABASE?...`` for sessions and ``gs://BUCKET?...`` for artifacts.

    For ``adk web``, ``adk api_server``, ``adk run`` and ``get_fast_api_app``, called before them and in their
    process; again does no harm. ADK's own factory for ``gs://`` is replaced: both have the same objects, so
    what one saved the other loads. A ``services.yaml`` or ``services.py`` of the agents is read later, and
    has the last word.

    Args:
        registry: By default the one of the process.
    """
    # Here: it brings half of ADK's command line.
    from google.adk.cli.service_registry import get_service_registry  # noqa: PLC0415

    registry = registry or get_service_registry()
    registry.register_session_service("firestore", session_service)
    registry.register_artifact_service("gs", artifact_service)


def session_service(
    uri: str,
    *,
    agents_dir: str | None = None,  # noqa: ARG001  # ADK's
    **options: Any,
) -> FirestoreSessionService:
    """Return the session service of a URI; a ``class:`` of ADK's ``services.yaml``, too.

    The same URI has the same service, and with it the same connections, until :func:`close_services`. All
    services share one token; as whom, ``ADK_STORE_CREDENTIALS_FILE`` and its like say, as for
    :meth:`~gcp_adk_store.Store.from_env`.

    Args:
        uri: As :func:`~gcp_adk_store.settings.session_service_arguments` reads it.
        agents_dir: Where ADK found the agents; sessions do not depend on it.
        options: Other arguments of :class:`~gcp_adk_store.FirestoreSessionService`, such as *credentials*:
            what ``get_fast_api_app(session_db_kwargs=...)`` was given.

    Raises:
        InvalidInputError: the URI or an option is none, or both say the same thing.
    """
    return _service(FirestoreSessionService, session_service_arguments(uri), options)


def artifact_service(
    uri: str,
    *,
    agents_dir: str | None = None,  # noqa: ARG001  # ADK's
    **options: Any,
) -> GcsArtifactService:
    """Return the artifact service of a URI; a ``class:`` of ADK's ``services.yaml``, too.

    Args:
        uri: As :func:`~gcp_adk_store.settings.artifact_service_arguments` reads it.
        agents_dir: Where ADK found the agents; artifacts do not depend on it.
        options: Other arguments of :class:`~gcp_adk_store.GcsArtifactService`; ADK has none.

    Raises:
        InvalidInputError: as for :func:`session_service`.
    """
    return _service(GcsArtifactService, artifact_service_arguments(uri), options)


async def missing_bucket(*, session_uri: str | None, artifact_uri: str | None) -> str | None:
    """Return the bucket that one of the URIs names and that does not exist; ``None`` if all of them do.

    A server asks before the first save would tell. URIs of other services have no bucket. 1 request a bucket,
    ``LOOK_S`` seconds for all of them.

    Raises:
        InvalidInputError: as for :func:`session_service`.
        StoreError: a bucket did not answer in time, or not to this identity: it may exist.
    """
    places = _buckets(session_uri, artifact_uri)
    # A thread that waits for a silent server ends by itself.
    limits = ArtifactLimits(request_timeout_s=LOOK_S)
    with part_of(LOOK_S):
        for bucket, project in places.items():
            calls = StorageCalls(
                bucket, project=project, client=None, credentials=_credentials(), limits=limits
            )
            try:
                await calls.require_bucket()
            except NotProvisionedError:
                return bucket
    return None


def _buckets(session_uri: str | None, artifact_uri: str | None) -> dict[str, str | None]:
    """Return the buckets of this store's URIs, each with the project that is to be acted in."""
    found: dict[str, str | None] = {}
    if artifact_uri and artifact_uri.lower().startswith("gs:"):
        arguments = artifact_service_arguments(artifact_uri)
        found[arguments["bucket_name"]] = arguments.get("project")
    if session_uri and session_uri.lower().startswith("firestore:"):
        arguments = session_service_arguments(session_uri)
        if "bucket" in arguments:
            found.setdefault(arguments["bucket"], arguments.get("project"))
    return found


async def close_services() -> None:
    """Close the connections of all services made for URIs; one that is used again opens its own anew."""
    with _guard:
        services = [service for _, service in _made]
        _made.clear()
        _as_whom.clear()
    # Side by side, and all of them: one that waits for a request to end, or fails, is in nobody's way.
    failures = await asyncio.gather(*(service.close() for service in services), return_exceptions=True)
    for failure in failures:
        if isinstance(failure, BaseException):
            raise failure


def _service(kind: type[Service], arguments: dict[str, Any], options: dict[str, Any]) -> Service:
    require_known(options, inspect.signature(kind).parameters, of=kind.__name__)
    for name in options:
        if name in arguments:
            raise InvalidInputError(f"{name} is in the URI and in an option; say it once")
    asked = arguments | options
    with _guard:
        # Compared, not hashed: an option may be any object.
        for known, service in _made:
            if isinstance(service, kind) and known == asked:
                return service
        if asked.get("credentials") is None:
            asked["credentials"] = _credentials()
        made = kind(**asked)
        _made.append((arguments | options, made))
        return made


def _credentials() -> StoreCredentials:
    """Return as whom the environment says, and no URI: with one token for sessions and artifacts."""
    place = StoreSettings.from_env()
    return _as_whom.setdefault(place, StoreCredentials.from_settings(place))
