"""Create services from the URIs of ADK's servers, and register their schemes with ADK."""

import asyncio
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gcp_adk_store import settings
from gcp_adk_store.adk_server.uris import (
    artifact_service_arguments,
    memory_service_arguments,
    session_service_arguments,
    task_store_arguments,
)
from gcp_adk_store.artifacts.gcs import GcsArtifactService
from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.errors import InvalidInputError, NotProvisionedError
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.process import Closing
from gcp_adk_store.sessions.firestore import FirestoreSessionService
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.settings import ArtifactLimits, StoreSettings
from gcp_adk_store.settings.names import require_known
from gcp_adk_store.settings.options import options_of
from gcp_adk_store.store import Store
from gcp_adk_store.tasks.sdk import needs_a2a

if TYPE_CHECKING:
    from google.adk.cli.service_registry import ServiceRegistry

    from gcp_adk_store.memory.service import MemoryService
    from gcp_adk_store.tasks import TaskStore

Service = TypeVar("Service", bound=Closing)

LOOK_S: Final = 5.0
"""Seconds that a server's start waits for its buckets' answers; health probes fail meanwhile."""

_guard = threading.Lock()
_made: list[tuple[dict[str, Any], Closing]] = []
_as_whom: dict[StoreSettings, StoreCredentials] = {}


def register(registry: "ServiceRegistry | None" = None) -> None:
    """Register this store's URIs with ADK's servers.

    ``firestore://PROJECT/DATABASE?...`` is for sessions and memories, ``gs://BUCKET?...`` for artifacts.
    ``firestore+local:///PATH`` and ``gs+local:///PATH`` are the same of a store in a folder. The schemes of
    sessions serve stores of A2A tasks, too, where ADK takes their URIs:
    ``get_fast_api_app(task_store_uri=...)``.

    Call it before ``adk web``, ``adk api_server``, ``adk run`` or ``get_fast_api_app``, in their process; a
    repeated call is harmless. It replaces ADK's own factory for ``gs://``; each service loads what the other
    saved, because both write the same objects. ADK reads a ``services.yaml`` or ``services.py`` of the agents
    later, so that file takes precedence.

    Args:
        registry: By default the registry of the process.
    """
    # Imported here: it loads half of ADK's command line.
    from google.adk.cli.service_registry import get_service_registry  # noqa: PLC0415

    registry = registry or get_service_registry()
    # ADK's own name; its services.yaml offers the same as `type: task_store`.
    register_task_store = getattr(registry, "_register_task_store_service", None)
    for where in ("", "+local"):
        registry.register_session_service(f"firestore{where}", session_service)
        registry.register_artifact_service(f"gs{where}", artifact_service)
        registry.register_memory_service(f"firestore{where}", memory_service)
        if register_task_store is not None:
            register_task_store(f"firestore{where}", task_store)


def session_service(uri: str, *, agents_dir: str | None = None, **options: Any) -> SessionService:
    """Return the session service of a URI; also a ``class:`` of ADK's ``services.yaml``.

    The same URI has the same service, and with it the same connections, until :func:`close_services`. All
    services share one token, for the identity that ``ADK_STORE_CREDENTIALS_FILE`` and the related variables
    of :meth:`~gcp_adk_store.Store.from_env` name.

    Args:
        uri: As :func:`~gcp_adk_store.adk_server.uris.session_service_arguments` reads it.
        agents_dir: The agents' folder; sessions do not depend on it.
        options: Other arguments of :class:`~gcp_adk_store.FirestoreSessionService`, such as *credentials*,
            from ``get_fast_api_app(session_db_kwargs=...)``.

    Raises:
        InvalidInputError: the URI or an option is invalid, or both set the same argument.
    """
    asked, renamed = session_service_arguments(uri), {"limits": "session_limits"}
    return _service(SessionService, asked, options, FirestoreSessionService, of="sessions", renamed=renamed)


def artifact_service(uri: str, *, agents_dir: str | None = None, **options: Any) -> ArtifactService:
    """Return the artifact service of a URI; also a ``class:`` of ADK's ``services.yaml``.

    *uri* is as :func:`~gcp_adk_store.adk_server.uris.artifact_service_arguments` reads it. *options* are
    other arguments of :class:`~gcp_adk_store.GcsArtifactService`; ADK passes none.

    Raises:
        InvalidInputError: as for :func:`session_service`.
    """
    asked, renamed = artifact_service_arguments(uri), {"limits": "artifact_limits"}
    return _service(ArtifactService, asked, options, GcsArtifactService, of="artifacts", renamed=renamed)


def memory_service(uri: str, *, agents_dir: str | None = None, **options: Any) -> "MemoryService":
    """Return the memory service of a URI; also a ``class:`` of ADK's ``services.yaml``.

    *uri* is as :func:`~gcp_adk_store.adk_server.uris.memory_service_arguments` reads it. *options* are
    *default_ttl_seconds*, *limits*, *embedder* and arguments of :meth:`~gcp_adk_store.Store.connect`; ADK
    passes none.

    Raises:
        InvalidInputError: as for :func:`session_service`.
        ModuleNotFoundError: an embedder is given, and the extra ``vectors`` is not installed; the message has
            the command.
    """
    # Imported here: only those who use it wait for what it imports.
    from gcp_adk_store.memory.service import MemoryService  # noqa: PLC0415

    asked = memory_service_arguments(uri)
    renamed = {"limits": "memory_limits", "default_ttl_seconds": "memory_ttl_seconds"}
    names = options_of(Store.connect) | renamed.keys()
    return _service(MemoryService, asked, options, MemoryService, of="memory", renamed=renamed, names=names)


def task_store(uri: str, *, agents_dir: str | None = None, **options: Any) -> "TaskStore":
    """Return the store of A2A tasks of a URI; also a ``class:`` of ADK's ``services.yaml``.

    *uri* is as :func:`~gcp_adk_store.adk_server.uris.task_store_arguments` reads it. *options* are other
    arguments of :class:`~gcp_adk_store.tasks.FirestoreTaskStore`; ADK passes none.

    Raises:
        InvalidInputError: as for :func:`session_service`, or the extra ``a2a`` is not installed.
    """
    with needs_a2a():
        from gcp_adk_store.tasks.firestore import FirestoreTaskStore  # noqa: PLC0415  # of an extra
        from gcp_adk_store.tasks.task_store import TaskStore  # noqa: PLC0415
    asked, renamed = task_store_arguments(uri), {"limits": "session_limits"}
    renamed |= {"ttl_seconds": "task_ttl_seconds", "owner_resolver": "task_owner_resolver"}
    return _service(TaskStore, asked, options, FirestoreTaskStore, of="tasks", renamed=renamed)


async def missing_bucket(*, session_uri: str | None, artifact_uri: str | None) -> str | None:
    """Return the first missing bucket among those that the URIs name; ``None`` if all of them exist.

    A server calls it at its start, before a save fails. URIs of other services name no bucket. It takes 1
    request per bucket, and ``LOOK_S`` seconds for all of them.

    Raises:
        InvalidInputError: as for :func:`session_service`.
        StoreError: a bucket did not answer in time or refused this identity; it may exist.
    """
    places: dict[str, str | None] = {}
    if artifact_uri and artifact_uri.lower().startswith("gs:"):
        arguments = artifact_service_arguments(artifact_uri)
        places[arguments["bucket_name"]] = arguments.get("project")
    if session_uri and session_uri.lower().startswith("firestore:"):
        arguments = session_service_arguments(session_uri)
        if "bucket" in arguments:
            places.setdefault(arguments["bucket"], arguments.get("project"))
    # A thread that waits for a silent server ends by its timeout.
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


def only_session_service(argument: str = "sessions") -> SessionService:
    """Return the session service of the one URI that this process uses.

    Raises:
        RuntimeError: it uses none, or several: the maker of the app passes the *argument*, not its client.
    """
    with _guard:
        found = [service for _, service in _made if isinstance(service, SessionService)]
    if len(found) != 1:
        raise RuntimeError(
            f"this process uses {len(found)} session services of URIs, not one; pass {argument}= to the "
            "function of gcp_adk_store.adk_server that changes the app"
        )
    return found[0]


def only_store() -> Store:
    """Return a store of the session service and the artifact service that URIs of this process name.

    Raises:
        RuntimeError: it uses no session service, or several, or several artifact services, or keeps memories
            or tasks elsewhere than sessions, where the store would not erase them.
    """
    with _guard:
        artifacts = [service for _, service in _made if isinstance(service, ArtifactService)]
        others = [asked for asked, service in _made if not isinstance(service, ArtifactService)]
    places = {_place_of(asked) for asked in others}
    # One that names no project has that of the environment, or of the credentials, which nobody knows yet.
    projects = {asked.get("project") or settings.default_project() for asked in others} - {None}
    if len(artifacts) > 1:
        raise RuntimeError(f"this process uses {len(artifacts)} artifact services of URIs; pass store=")
    if (count := max(len(places), len(projects))) > 1:
        raise RuntimeError(
            f"the URIs of this process keep sessions, memories and tasks in {count} places, and a store has "
            "one; pass store=, or give them one project, database and prefix"
        )
    return Store(sessions=only_session_service("store"), artifacts=artifacts[0] if artifacts else None)


def _place_of(asked: Mapping[str, Any]) -> tuple[str | None, str, str]:
    """Return the folder or the database, and the prefix, of a service that was *asked* for."""
    place = {name: asked[name] for name in ("local", "database", "prefix") if asked.get(name)}
    named = StoreSettings(**place)
    return named.local, named.database, named.prefix


async def close_services() -> None:
    """Close the connections of all services of URIs; a later call of a service opens its own again."""
    with _guard:
        services = [service for _, service in _made]
        _made.clear()
        _as_whom.clear()
    # Concurrently, so that a slow or failing service does not keep the others open.
    failures = await asyncio.gather(*(service.close() for service in services), return_exceptions=True)
    for failure in failures:
        if isinstance(failure, BaseException):
            raise failure


def _service(
    kind: type[Service],
    arguments: dict[str, Any],
    options: dict[str, Any],
    makes: type[Service],
    *,
    of: str,
    renamed: Mapping[str, str],
    names: Iterable[str] | None = None,
) -> Service:
    """Return the service with these arguments, which *makes* makes if it takes them all; else a store has it.

    *of* is the store's attribute, and *renamed* has the store's names of the service's options.

    Raises:
        InvalidInputError: an option is unknown, is in the URI, too, or does not fit the store, such as a
            project that of a folder.
    """
    require_known(options, names or options_of(makes), of=makes.__name__)
    for name in options:
        if name in arguments:
            raise InvalidInputError(f"{name} is in the URI and in an option; say it once")
    asked = arguments | options
    with _guard:
        # Compared, not hashed: an option may be an unhashable object.
        for known, service in _made:
            if isinstance(service, kind) and known == asked:
                return service
        given = {**asked}
        encryption = StoreSettings.from_env().encryption  # that of the environment's store
        if encryption is not None and kind is not ArtifactService:
            given.setdefault("encryption", encryption)
        elif encryption is not None and encryption.artifacts:
            raise InvalidInputError(
                "ADK_STORE_ENCRYPT_ARTIFACTS is set, and an artifact service of a URI cannot encrypt; "
                "pass Store.from_env().artifacts to a Runner, or leave the variable out"
            )
        if "local" not in given and given.get("credentials") is None:
            given["credentials"] = _credentials()
        made: Service
        if given.keys() <= options_of(makes):
            made = makes(**given)
        else:
            of_store = {renamed.get(name, name): value for name, value in given.items()}
            local = of_store.pop("local", None)
            store = Store.connect(**of_store) if local is None else Store.local(local, **of_store)
            made = getattr(store, of)
        _made.append((asked, made))
        return made


def _credentials() -> StoreCredentials:
    """Return the environment's credentials, with one token for sessions and artifacts."""
    place = StoreSettings.from_env()
    return _as_whom.setdefault(place, StoreCredentials.from_settings(place))
