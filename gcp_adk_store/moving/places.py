"""Open stores by their URIs, as ADK's servers name them, or by a service."""

import os
import re
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from google.adk.sessions import BaseSessionService, InMemorySessionService

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.local.backend import DATABASE
from gcp_adk_store.local.opening import APPLICATION_ID
from gcp_adk_store.moving.adk_services import OTHER_FILE, SQL, AdkService
from gcp_adk_store.moving.records import OwnStore, Source, Target
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.settings import StoreSettings

Opened = TypeVar("Opened")

ADK_FIRESTORE: Final = "adk-firestore"
"""Scheme of ADK's Firestore layout; ``firestore`` is that of this library."""

ADK_JAVA: Final = "adk-java-firestore"
"""Scheme of the Firestore layout of ADK for Java."""

_ID_IN_FILE: Final = slice(68, 72)
"""Where a file of SQLite has the id of its application."""

_LOGIN: Final = re.compile(r"(?<=://)[^:/]*(:[^@]*)?@")
"""User and password, as SQLAlchemy reads a URI: a password may have any character but an @."""
_SECRET: Final = re.compile(r"([^=&]*(?:pass|pwd|secret|token|odbc_connect)[^=&]*=)[^&]*", re.IGNORECASE)
"""A parameter of a driver that takes a password, or has one in it."""


def open_source(given: str | BaseSessionService | Source) -> Source:
    """Return the store to read from.

    Raises:
        InvalidInputError: the URI is malformed, or ADK cannot open it; or it names a folder without a store,
            or a file that is missing.
    """
    require_present(given)
    if isinstance(given, str) and _scheme(given) == ADK_JAVA:
        from gcp_adk_store.moving.adk_firestore import AdkJava  # noqa: PLC0415  # with Google's clients

        return AdkJava.connect(**firestore_place(given))
    if isinstance(given, (str, BaseSessionService)):
        return open_target(given)
    _require_store(given)
    return given


def open_target(given: str | BaseSessionService | Target) -> Target:
    """Return the store to write to.

    Raises:
        InvalidInputError: as :func:`open_source`, or the store can only be a source.
    """
    if isinstance(given, str):
        return _of_uri(given)
    if isinstance(given, SessionService):
        return OwnStore(given, closes=False)
    if isinstance(given, BaseSessionService):
        return AdkService(given, closes=False)
    _require_store(given)
    if not hasattr(given, "write"):
        raise InvalidInputError(f"{given.traits.kind} can only be a source; name another target")
    return given


def target_of_dry_run(given: str | BaseSessionService | Target, nowhere: SessionService) -> Target:
    """Return the store that a dry run compares with: an empty one for a place that it must not make.

    Raises:
        InvalidInputError: as :func:`open_target`.
    """
    if not is_missing(given):
        return open_target(given)
    if str(given).lower().startswith("sqlite"):
        _require_usable(_file_of(_split(str(given))))
        return AdkService(InMemorySessionService(), closes=False, traits=SQL)
    return open_target(nowhere)


def _require_store(given: object) -> None:
    if not hasattr(given, "traits"):
        way = "pass a session service of ADK, or a URI such as firestore://PROJECT"
        raise InvalidInputError(f"a {type(given).__name__} is not a store to copy from or to: {way}")


def is_missing(given: object) -> bool:
    """Return whether *given* is the URI of a place on this machine that does not exist: to open it makes one.

    A URI of a folder without an absolute path is none; what opens it says so.
    """
    return bool(_missing(given))


def require_present(given: object) -> None:
    """Require that a URI of a folder or of a file of SQLite to read from names one that exists.

    Raises:
        InvalidInputError: the folder contains no store, or the folder or the file does not exist.
    """
    if says := _missing(given):
        raise InvalidInputError(f"{says}: name another one")


def _missing(given: object) -> str:
    """Return what does not exist where the URI *given* names a place on this machine; empty if it does."""
    parts = _split(given) if isinstance(given, str) else None
    path = None if parts is None else _path_of(parts)
    if parts is None or path is None:
        return ""
    is_store = parts.scheme.endswith("+local")
    if _exists(os.path.join(path, DATABASE) if is_store else path):  # noqa: PTH118  # no OSError
        return ""
    what = "folder" if is_store or parts.scheme == "file" else "file"
    lacks = "contains no local store that this user can read" if is_store else "does not exist"
    return f"the {what} {path[:200]!r} {lacks}"


def _path_of(parts: SplitResult) -> str | None:
    """Return the folder, or the file of SQLite, that a URI names; ``None`` if it names something else."""
    if parts.scheme.partition("+")[0] == "sqlite":
        return _file_of(parts) or None
    folder = unquote(parts.path)
    is_folder = parts.scheme.endswith("+local") or parts.scheme == "file"
    return folder if is_folder and not parts.netloc and folder.startswith("/") else None


def _file_of(parts: SplitResult) -> str:
    """Return the file of a URI of SQLite; empty for a database in memory, and for another URI."""
    file = parts.path.removeprefix("/") if parts.scheme.partition("+")[0] == "sqlite" else ""
    return "" if file.startswith((":memory:", "file:")) else file


def _require_usable(file: str) -> None:
    """Require that ADK may and can keep its tables in a *file* of SQLite, if it is one.

    Raises:
        InvalidInputError: it is that of a store of this library, or its folder does not exist.
    """
    folder = os.path.dirname(file)  # noqa: PTH120  # as the URI has it
    if folder and not _exists(folder):
        raise InvalidInputError(f"the folder of the file {file[:200]!r} does not exist; make it")
    begin = b""
    with suppress(OSError, ValueError), open(file or os.devnull, "rb") as opened:  # noqa: PTH123  # as above
        begin = opened.read(_ID_IN_FILE.stop)
    if begin[_ID_IN_FILE] == APPLICATION_ID.to_bytes(4):
        says = f"{file[:200]!r} is the file of a local store; name its folder"
        raise InvalidInputError(f"{says}: firestore+local:///PATH")


def _exists(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110  # it raises no OSError


def is_same(one: object, other: object) -> bool:
    """Return whether both are one service, or URIs of one place, as far as names and paths show."""
    if not isinstance(one, str) or not isinstance(other, str):
        return one is other
    both = _split(one), _split(other)
    paths = [path for path in map(_path_of, both) if path is not None and _exists(path)]
    prefixes = {dict(parse_qsl(parts.query)).get("prefix", StoreSettings().prefix) for parts in both}
    is_one_path = len(paths) == len(both) and os.path.samefile(*paths) and len(prefixes) == 1  # noqa: PTH121
    return is_one_path or source_name(one) == source_name(other)


def source_name(given: object) -> str:
    """Return the name of a store without credentials, for a ledger."""
    if not isinstance(given, str):
        return type(given).__name__
    parts = _split(given)
    query = _SECRET.sub(r"\1...", parts.query)
    return f"{parts.scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}"


def require_place(given: object, what: str) -> None:
    """Require that *given* is the URI of a service, which *what* names.

    Raises:
        InvalidInputError: it is something else.
    """
    if not isinstance(given, str):
        raise InvalidInputError(f"{what} must be a service of ADK or its URI, not {type(given).__name__}")


def closed_by(ends: AsyncExitStack, opened: Opened) -> Opened:
    """Let *ends* close what was opened for it; most services of ADK have nothing to close."""
    if (close := getattr(opened, "close", None)) is not None:
        ends.push_async_callback(close)
    return opened


def _of_uri(uri: str) -> Target:
    scheme = _scheme(uri)
    if scheme in ("firestore", "firestore+local"):
        from gcp_adk_store.adk_server.services import session_service  # noqa: PLC0415  # with Google's clients

        return OwnStore(session_service(uri), closes=True)
    if scheme == ADK_FIRESTORE:
        from gcp_adk_store.moving.adk_firestore import AdkFirestore  # noqa: PLC0415  # as above

        return AdkFirestore.connect(**firestore_place(uri))
    if scheme == ADK_JAVA:
        raise InvalidInputError("the layout of ADK for Java can only be a source; name another target")
    _require_usable(_file_of(_split(uri)))
    from google.adk.cli.utils.service_factory import (  # noqa: PLC0415  # half of ADK's command line
        create_session_service_from_options,
    )

    try:
        service = create_session_service_from_options(base_dir=".", session_service_uri=uri)
    except (ValueError, ImportError, RuntimeError) as exc:
        absent = next((each for each in (exc, exc.__cause__) if isinstance(each, ModuleNotFoundError)), None)
        why = f"the module {absent.name!r} is missing; install it" if absent else type(exc).__name__
        # From None: the URI may hold a password.
        hint = OTHER_FILE if scheme == "sqlite" else ""
        raise InvalidInputError(f"ADK cannot open {source_name(uri)}: {why}{hint}") from None
    return AdkService(service, closes=True)


def _split(uri: str) -> SplitResult:
    """Return the parts of *uri* without user and password."""
    try:
        return urlsplit(_LOGIN.sub("", uri))
    except ValueError:  # from None: the URI may hold a password
        raise InvalidInputError("a URI has a malformed host, such as one with a [ and no ]") from None


def _scheme(uri: str) -> str:
    scheme, colon, _ = uri.partition(":")
    if not colon or not scheme:
        such = "sqlite:///sessions.db or firestore://PROJECT"
        raise InvalidInputError(f"a store is named by a URI, such as {such}")
    return scheme.lower()


def firestore_place(uri: str) -> dict[str, Any]:
    """Return project, database and root of ``adk-firestore://PROJECT/DATABASE?root=...``.

    Raises:
        InvalidInputError: a part is malformed.
    """
    parts = _split(uri)
    options = parse_qsl(parts.query, keep_blank_values=True)
    root = dict(options).get("root")
    if parts.fragment or "/" in parts.path.strip("/") or root == "" or options not in ([], [("root", root)]):
        raise InvalidInputError(f"{parts.scheme}: write {parts.scheme}://PROJECT/DATABASE?root=COLLECTION")
    return {
        "project": unquote(parts.netloc) or None,
        "database": unquote(parts.path.strip("/")) or "(default)",
        "root": root,
    }
