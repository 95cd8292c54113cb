"""Read the URIs of ADK's servers: the only reader of service URIs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import unquote

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.settings import (
    FORMS,
    ArtifactLimits,
    Form,
    MemoryLimits,
    SessionLimits,
    StoreSettings,
    require_forms,
)
from gcp_adk_store.settings.names import require_known

_Options: TypeAlias = Mapping[str, Callable[[str], Any]]
"""Name -> what converts its text."""

_ARTIFACT_FORMS: Final = {
    "kms_key_name": Form(
        re.compile(r"projects/[\w.:-]+/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+", re.ASCII),
        "the full name of a key, projects/P/locations/L/keyRings/R/cryptoKeys/K",
    ),
    "signing_service_account": Form(
        re.compile(r"[A-Za-z0-9.+_-]+@[A-Za-z0-9.-]+"), "the email of a service account"
    ),
}
"""Forms of URI parameters that a service passes on unchecked."""


def session_service_arguments(uri: str) -> dict[str, Any]:
    """Parse ``firestore://PROJECT/DATABASE?...`` into arguments of the session service.

    Both names may be left out, as in ``firestore:///``. ``firestore+local:///PATH?...`` gives a *local* path
    instead of project, database and bucket. Parameters: *prefix*, *bucket*, *on_conflict*,
    *on_missing_payload*, *durability*, *history*, *default_ttl_seconds* and the numbers of
    :class:`SessionLimits`, by their names. Percent-encoding is decoded everywhere; ``+`` stays a plus.

    Raises:
        InvalidInputError: a part of it is unknown, repeated, empty or malformed.
    """
    texts = ("prefix", "on_conflict", "on_missing_payload", "durability", "history")
    options: _Options = {**dict.fromkeys(texts, str), "default_ttl_seconds": _decimal}
    return _firestore_arguments(uri, options, SessionLimits, of_cloud={"bucket": str})


def artifact_service_arguments(uri: str) -> dict[str, Any]:
    """Parse ``gs://BUCKET?...`` into arguments of the artifact service.

    ``gs+local:///PATH?...`` gives a *local* path instead of the bucket, and knows the limits alone.

    Parameters: *project*, *kms_key_name*, *storage_class*, *signing_service_account* and the numbers of
    :class:`ArtifactLimits`, by their names.

    Raises:
        InvalidInputError: as for :func:`session_service_arguments`, or the URI has a folder: ADK alone
            names the artifacts within a bucket.
    """
    parts = _ServiceUri.parse(uri, "gs")
    if parts.is_local:
        StoreSettings(local=parts.path)
        return {"local": parts.path} | parts.typed({}, ArtifactLimits)
    if parts.path not in ("", "/"):
        raise InvalidInputError(f"gs://{parts.authority} is a whole bucket; {parts.path!r} cannot follow it")
    texts = ("project", "kms_key_name", "storage_class", "signing_service_account")
    given = parts.typed(dict.fromkeys(texts, str), ArtifactLimits)
    StoreSettings(bucket=parts.authority, project=given.get("project"))
    require_forms(given, _ARTIFACT_FORMS)
    return {"bucket_name": parts.authority} | given


def memory_service_arguments(uri: str) -> dict[str, Any]:
    """Parse ``firestore://PROJECT/DATABASE?...`` into arguments of a store, for its memory service.

    ``firestore+local:///PATH?...`` gives a *local* path. Parameters: *prefix*, *bucket*,
    *default_ttl_seconds* and the numbers of :class:`MemoryLimits`, by their names.

    Raises:
        InvalidInputError: as for :func:`session_service_arguments`.
    """
    options: _Options = {"prefix": str, "default_ttl_seconds": _decimal}
    return _firestore_arguments(uri, options, MemoryLimits, of_cloud={"bucket": str})


def task_store_arguments(uri: str) -> dict[str, Any]:
    """Parse ``firestore://PROJECT/DATABASE?...`` into arguments of the store of A2A tasks.

    ``firestore+local:///PATH?...`` gives a *local* path instead of project and database. Parameters:
    *prefix*, *ttl_seconds* and the numbers of :class:`SessionLimits`, by their names.

    Raises:
        InvalidInputError: as for :func:`session_service_arguments`.
    """
    return _firestore_arguments(uri, {"prefix": str, "ttl_seconds": _decimal}, SessionLimits)


def _firestore_arguments(
    uri: str,
    options: _Options,
    limits: type[Any],
    *,
    of_cloud: _Options = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the place, the options and the limits that *uri* names; the options *of_cloud* only there."""
    parts = _ServiceUri.parse(uri, "firestore")
    if parts.is_local:
        named = {"local": parts.path}
    else:
        named = {"project": parts.authority, "database": parts.path.removeprefix("/")}
        options = {**options, **of_cloud}
    arguments = {name: value for name, value in named.items() if value} | parts.typed(options, limits)
    StoreSettings(**{name: value for name, value in arguments.items() if name in FORMS})
    return arguments


_URI: Final = re.compile(r"([a-z]+(?:\+local)?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
_USER: Final = re.compile(r"//[^/?#]*@")
"""The user part of other services' URIs, which may hold a password."""
_NOT_ENCODED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class _ServiceUri(NamedTuple):
    scheme: str
    authority: str
    path: str
    query: Mapping[str, str]

    @classmethod
    def parse(cls, uri: str, scheme: str) -> Self:
        # Not urlsplit(): it drops line breaks and blanks, and reads a port in example.com:project.
        found = _URI.fullmatch(uri)
        fits = found is not None and found[1].lower() in (scheme, f"{scheme}+local") and "@" not in found[2]
        if found is None or not fits or not uri.isprintable() or " " in uri:
            shown = _USER.sub("//...@", uri)[:80]
            raise InvalidInputError(
                f"{shown!r} is not a URI of the form {scheme}://...?name=value&..., "
                f"or {scheme}+local:///PATH, with a space as %20 and # as %23"
            )
        query: dict[str, str] = {}
        for pair in (found[4] or "").split("&") if found[4] else []:
            name, _, value = (_decoded(text) for text in pair.partition("="))
            if not name or not value:
                raise InvalidInputError(f"{scheme}://: the parameter {name[:80]!r} has no name or no value")
            if name in query:
                raise InvalidInputError(f"{scheme}://: the parameter {name[:80]!r} is there twice")
            query[name] = value
        made = cls(found[1].lower(), _decoded(found[2]), _decoded(found[3]), query)
        if made.is_local and (made.authority or len(made.path) < len("/x")):
            says = f"{made.scheme}:// must go on with an absolute path"
            raise InvalidInputError(f"{says}: {made.scheme}:///PATH")
        return made

    @property
    def is_local(self) -> bool:
        return self.scheme.endswith("+local")

    def typed(self, parameters: _Options, limits: type[Any]) -> dict[str, Any]:
        """Return the converted parameters, with all limits in one ``limits`` object."""
        numbers = {
            each.name: _whole if each.type is int else _decimal
            for each in fields(limits)
            if each.type in (int, float)
        }
        kinds = {**parameters, **numbers}
        require_known(self.query, kinds, of=f"{self.scheme}://")
        values = {}
        for name, text in self.query.items():
            try:
                values[name] = kinds[name](text)
            except ValueError as exc:
                raise InvalidInputError(f"{self.scheme}://: {name} is {text[:80]!r}, {exc}") from exc
        given = {name: value for name, value in values.items() if name in parameters}
        own = {name: value for name, value in values.items() if name in numbers}
        return given | ({"limits": limits(**own)} if own else {})


def _decoded(text: str) -> str:
    if _NOT_ENCODED.search(text):
        raise InvalidInputError(f"in {text[:80]!r} a % is not followed by two hexadecimal digits")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as exc:
        raise InvalidInputError(f"{text[:80]!r} is not percent-encoded UTF-8") from exc


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError("it must be a whole number")
    return int(text)


def _decimal(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", text):
        raise ValueError("it must be a number such as 30 or 0.5")
    return float(text)
