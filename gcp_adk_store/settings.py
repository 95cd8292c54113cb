"""Hold settings and limits; the only reader of the environment and of service URIs."""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote

from gcp_adk_store.errors import InvalidInputError

EMULATOR_PROJECT: Final = "demo-adk-store"
"""The project used on an emulator when none is given; ``demo-`` never names a real project."""


class _Form(NamedTuple):
    shape: re.Pattern[str]
    says: str


_FORMS: Final = {
    "project": _Form(re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}"), "a Google Cloud project's id"),
    "database": _Form(
        re.compile(r"\(default\)|[a-z][a-z0-9-]{2,61}[a-z0-9]"),
        "'(default)' or a Firestore database's id: 4 to 63 lower-case letters, digits or '-'",
    ),
    "bucket": _Form(
        re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
        "a bucket's name alone, without gs:// and folders: lower-case letters, digits, '-', '_' or '.'",
    ),
    "prefix": _Form(
        re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}"),
        "1 to 32 letters, digits or '-', starting with a letter",
    ),
    "credentials_file": _Form(re.compile(r"[^\x00]+"), "a path"),
    "impersonate_service_account": _Form(
        re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+"), "the email of a service account"
    ),
    "quota_project": _Form(re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}"), "a Google Cloud project's id"),
    "universe_domain": _Form(
        re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+"), "a domain alone, such as googleapis.com"
    ),
}


_ARTIFACT_FORMS: Final = {
    "kms_key_name": _Form(
        re.compile(r"projects/[\w.:-]+/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+", re.ASCII),
        "the full name of a key, projects/P/locations/L/keyRings/R/cryptoKeys/K",
    ),
    "signing_service_account": _Form(
        re.compile(r"[A-Za-z0-9.+_-]+@[A-Za-z0-9.-]+"), "the email of a service account"
    ),
}
"""Forms of URI parameters that a service passes on unchecked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where a store keeps its data, and the identity that it uses.

    Raises:
        InvalidInputError: a setting is malformed. *prefix* becomes part of every collection's name and has
            1 to 32 letters, digits or ``-``, starting with a letter.
    """

    project: str | None = None
    """Google Cloud project; ``None`` takes the one of the credentials."""
    database: str = "(default)"
    """Firestore database id."""
    bucket: str | None = None
    """Cloud Storage bucket for artifacts; ``None`` means a store without artifacts."""
    prefix: str = "adk"
    """Start of every collection's name; stores with different prefixes never see each other."""
    credentials_file: str | None = None
    """Path of credentials; ``None`` takes those of the environment."""
    impersonate_service_account: str | None = None
    """Email of the service account to act as."""
    quota_project: str | None = None
    """Project whose quota the requests use; ``None`` takes that of the credentials."""
    universe_domain: str | None = None
    """``None`` takes that of the credentials, usually ``googleapis.com``."""

    def __post_init__(self) -> None:
        _require_forms({name: getattr(self, name) for name in _FORMS}, _FORMS)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read ``ADK_STORE_PROJECT``, ``_DATABASE``, ``_BUCKET`` and ``_PREFIX``, and the identity.

        ``ADK_STORE_CREDENTIALS_FILE``, ``ADK_STORE_IMPERSONATE``, ``ADK_STORE_QUOTA_PROJECT`` and
        ``GOOGLE_CLOUD_UNIVERSE_DOMAIN`` name the identity. An unset or empty variable means the
        default; the project falls back to ``GOOGLE_CLOUD_PROJECT``.
        """
        env = os.environ if environ is None else environ
        return cls(
            project=env.get("ADK_STORE_PROJECT") or env.get("GOOGLE_CLOUD_PROJECT") or None,
            database=env.get("ADK_STORE_DATABASE") or "(default)",
            bucket=env.get("ADK_STORE_BUCKET") or None,
            prefix=env.get("ADK_STORE_PREFIX") or "adk",
            credentials_file=env.get("ADK_STORE_CREDENTIALS_FILE") or None,
            impersonate_service_account=env.get("ADK_STORE_IMPERSONATE") or None,
            quota_project=env.get("ADK_STORE_QUOTA_PROJECT") or None,
            universe_domain=env.get("GOOGLE_CLOUD_UNIVERSE_DOMAIN") or None,
        )

    def session_service_uri(self) -> str:
        """Return ``--session_service_uri`` for ADK's servers: ``firestore://PROJECT/DATABASE?...``."""
        query = f"prefix={self.prefix}" + (f"&bucket={self.bucket}" if self.bucket else "")
        return f"firestore://{quote(self.project or '', safe='')}/{quote(self.database, safe='()')}?{query}"

    def artifact_service_uri(self) -> str:
        """Return ``--artifact_service_uri`` for ADK's servers: ``gs://BUCKET?project=PROJECT``.

        Raises:
            InvalidInputError: the settings have no bucket. Without a URI, ADK's servers use memory.
        """
        if self.bucket is None:
            raise InvalidInputError("these settings have no bucket; pass bucket= or set ADK_STORE_BUCKET")
        query = f"?project={quote(self.project, safe='')}" if self.project else ""
        return f"gs://{self.bucket}{query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Sizes at which a session changes how it is stored, and bounds of a call."""

    seal_tail_bytes: int = 64 * 1024
    """UTF-8 bytes of events kept in the session document before they are sealed into a segment."""
    segment_cache_bytes: int = 64 * 1024 * 1024
    """Memory for cached segments: they never change, so a process reads each from storage once."""
    delivered_events: int = 8192
    """Ids of recently stored events that this process remembers to recognise a repeated delivery."""
    inline_bytes: int = 64 * 1024
    """The store keeps inline data of an event over this size as a payload of its own."""
    event_text_bytes: int = 256 * 1024
    """An event over this size as JSON, without its payloads, is stored as a compressed payload."""
    state_value_bytes: int = 64 * 1024
    """A state value over this size as JSON is stored as a compressed payload."""
    max_payload_bytes: int = 100 * 1024 * 1024
    """The largest piece of content that the store accepts."""
    max_values: int = 2_000_000
    """Values in one event or one state delta, maps and lists included, each counted as often as the JSON
    repeats it. Python takes about 100 bytes for each, several times over while it encodes and decodes."""
    rpc_timeout_s: float = 10.0
    """Deadline of one attempt of one RPC."""
    deadline_s: float = 30.0
    """Deadline of one RPC, all attempts and waits together; most operations send one or two."""
    payload_deadline_s: float = 120.0
    """Deadline of one request for a payload that lies in a bucket, all attempts and waits together."""
    deadlines_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Deadlines of whole operations by the method's name, as ``{"get_session": 5}``; none by default."""
    max_in_flight: int = 64
    """Operations of one service that run at a time; further ones wait for a permit."""
    max_waiting: int = 10_000
    """Operations that may wait for a permit, each ``deadline_s`` at most; one more is an OverloadedError."""

    def __post_init__(self) -> None:
        _require_sizes(
            self,
            at_least_one=("max_payload_bytes", "max_values", "max_in_flight"),
            above_zero=("rpc_timeout_s", "deadline_s", "payload_deadline_s"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """Bounds of artifact operations."""

    max_workers: int = 16
    """Threads, and connections of the pool, that one service uses for blocking calls."""
    save_attempts: int = 100
    """Version numbers that a save tries while other writers take them first."""
    known_versions: int = 4096
    """Artifacts whose latest version this process remembers, to save without a listing."""
    known_for_s: float = 60.0
    """How long it remembers them: if others delete versions, a free number may not be the next."""
    request_timeout_s: float = 60.0
    """Longest silence of the server within one attempt of one request."""
    deadline_s: float = 120.0
    """Deadline of one request, all attempts and waits together."""
    deadlines_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Deadlines of whole operations by the method's name, as ``{"load_artifact": 10}``; none by default."""
    max_waiting: int = 10_000
    """Requests that may wait for a thread, ``deadline_s`` at most; one more is an OverloadedError."""

    def __post_init__(self) -> None:
        _require_sizes(
            self,
            at_least_one=("max_workers", "save_attempts"),
            above_zero=("request_timeout_s", "deadline_s"),
        )


def session_service_arguments(uri: str) -> dict[str, Any]:
    """Parse ``firestore://PROJECT/DATABASE?...`` into arguments of the session service.

    Both names may be left out, as in ``firestore:///``. Parameters: *prefix*, *bucket*, *on_conflict*,
    *on_missing_payload*, *default_ttl_seconds* and the numbers of :class:`SessionLimits`, by their names.
    Percent-encoding is decoded everywhere; ``+`` stays a plus.

    Raises:
        InvalidInputError: a part of it is unknown, repeated, empty or malformed.
    """
    parts = _ServiceUri.parse(uri, "firestore")
    project, database = parts.authority, parts.path.removeprefix("/")
    given = parts.typed(
        {
            "prefix": str,
            "bucket": str,
            "on_conflict": str,
            "on_missing_payload": str,
            "default_ttl_seconds": _decimal,
        },
        SessionLimits,
    )
    named = {"project": project, "database": database}
    arguments = {name: value for name, value in named.items() if value} | given
    StoreSettings(**{name: value for name, value in arguments.items() if name in _FORMS})
    return arguments


def artifact_service_arguments(uri: str) -> dict[str, Any]:
    """Parse ``gs://BUCKET?...`` into arguments of the artifact service.

    Parameters: *project*, *kms_key_name*, *storage_class*, *signing_service_account* and the numbers of
    :class:`ArtifactLimits`, by their names.

    Raises:
        InvalidInputError: as for :func:`session_service_arguments`, or the URI has a folder: ADK alone
            names the artifacts within a bucket.
    """
    parts = _ServiceUri.parse(uri, "gs")
    if parts.path not in ("", "/"):
        raise InvalidInputError(f"gs://{parts.authority} is a whole bucket; {parts.path!r} cannot follow it")
    given = parts.typed(
        {"project": str, "kms_key_name": str, "storage_class": str, "signing_service_account": str},
        ArtifactLimits,
    )
    StoreSettings(bucket=parts.authority, project=given.get("project"))
    _require_forms(given, _ARTIFACT_FORMS)
    return {"bucket_name": parts.authority} | given


def require_known(names: Iterable[str], known: Iterable[str], *, of: str) -> None:
    """Check that all *names* are among *known*.

    Raises:
        InvalidInputError: a name is unknown; the message suggests a similar known name.
    """
    known = sorted(known)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
            raise InvalidInputError(f"{of} has no {name[:80]!r}; {hint}")


_URI: Final = re.compile(r"([a-z]+)://([^/?#]*)([^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
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
        fits = found is not None and found[1].lower() == scheme and "@" not in found[2]
        if found is None or not fits or not uri.isprintable() or " " in uri:
            shown = _USER.sub("//...@", uri)[:80]
            raise InvalidInputError(f"{shown!r} is not a URI of the form {scheme}://...?name=value&...")
        query: dict[str, str] = {}
        for pair in (found[4] or "").split("&") if found[4] else []:
            name, _, value = (_decoded(text) for text in pair.partition("="))
            if not name or not value:
                raise InvalidInputError(f"{scheme}://: the parameter {name[:80]!r} has no name or no value")
            if name in query:
                raise InvalidInputError(f"{scheme}://: the parameter {name[:80]!r} is there twice")
            query[name] = value
        return cls(scheme, _decoded(found[2]), _decoded(found[3]), query)

    def typed(self, parameters: Mapping[str, Callable[[str], Any]], limits: type[Any]) -> dict[str, Any]:
        """Return the converted parameters, with all limits in one ``limits`` object."""
        numbers = {
            each.name: _whole if each.type is int else _decimal
            for each in fields(limits)
            if each.type in (int, float)
        }
        kinds = {**parameters, **numbers}
        require_known(self.query, kinds, of=f"a URI {self.scheme}://")
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


def firestore_emulator_host() -> str | None:
    """Return ``host:port`` from ``FIRESTORE_EMULATOR_HOST``, or ``None`` for production.

    A scheme, as in the other emulator's variable, is removed.
    """
    return os.environ.get("FIRESTORE_EMULATOR_HOST", "").rpartition("://")[2].rstrip("/") or None


def storage_emulator_url() -> str | None:
    """Return the URL in ``STORAGE_EMULATOR_HOST``, or ``None`` for production."""
    return os.environ.get("STORAGE_EMULATOR_HOST") or None


def names_ids() -> bool:
    """Return whether ``ADK_STORE_TELEMETRY_IDS`` is ``true`` or ``1``: spans then name users and sessions."""
    return os.environ.get("ADK_STORE_TELEMETRY_IDS", "").lower() in ("true", "1")


def default_project() -> str | None:
    """Return ``GOOGLE_CLOUD_PROJECT``, which overrides the project of the credentials."""
    return os.environ.get("GOOGLE_CLOUD_PROJECT") or None


def default_credentials_file() -> str | None:
    """Return ``GOOGLE_APPLICATION_CREDENTIALS``, which Google's library reads."""
    return os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or None


def universe_domain() -> str | None:
    """Return ``GOOGLE_CLOUD_UNIVERSE_DOMAIN``, which the credentials must belong to."""
    return os.environ.get("GOOGLE_CLOUD_UNIVERSE_DOMAIN") or None


def _require_forms(values: Mapping[str, Any], forms: Mapping[str, _Form]) -> None:
    for name, form in forms.items():
        value = values.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not form.shape.fullmatch(value):
            raise InvalidInputError(f"{name} {str(value)[:80]!r} must be {form.says}")


def _require_sizes(limits: Any, *, at_least_one: tuple[str, ...], above_zero: tuple[str, ...]) -> None:
    for name in [setting.name for setting in fields(limits)]:
        value = getattr(limits, name)
        if name == "deadlines_s":
            _require_deadlines(value)
            continue
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise InvalidInputError(f"{name} must be a number, not {type(value).__name__}")
        if name in at_least_one and value < 1:
            raise InvalidInputError(f"{name} is {value}, it must be at least 1")
        if name in above_zero and value <= 0:
            raise InvalidInputError(f"{name} is {value}, it must be above 0")
        if value < 0:
            raise InvalidInputError(f"{name} is {value}, it must not be negative")


def _require_deadlines(deadlines: Any) -> None:
    if not isinstance(deadlines, Mapping):
        raise InvalidInputError(
            f"deadlines_s must map names of methods to seconds, not be of {type(deadlines).__name__}"
        )
    for name, seconds in deadlines.items():
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds > 0:
            raise InvalidInputError(f"deadlines_s[{name!r}] must be a number of seconds above 0")
