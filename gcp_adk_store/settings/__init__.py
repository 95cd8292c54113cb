"""Hold settings and limits; the only reader of the environment."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from gcp_adk_store.errors import InvalidInputError, require_number, shown
from gcp_adk_store.settings.envelope import KmsEnvelope, is_on
from gcp_adk_store.settings.names import fields_only, warn_of_unknown

EMULATOR_PROJECT: Final = "demo-adk-store"
"""The project used on an emulator if the caller names no other; ``demo-`` never names a real project."""

MEMORY: Final = ":memory:"
"""The path of a local store that ends with its process."""


class Form(NamedTuple):
    """The form of a setting's text, and its name in an error."""

    shape: re.Pattern[str]
    says: str


# The system accepts only those lone surrogates that stand for a byte outside of UTF-8.
_PATH: Final = re.compile(r"[^\x00\ud800-\udc7f\udd00-\udfff]+")

FORMS: Final = {
    "project": Form(re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}"), "a Google Cloud project's id"),
    "database": Form(
        re.compile(r"\(default\)|[a-z][a-z0-9-]{2,61}[a-z0-9]"),
        "'(default)' or a Firestore database's id: 4 to 63 lower-case letters, digits or '-'",
    ),
    "bucket": Form(
        re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
        "a bucket's name, without gs:// and folders: 3 to 222 lower-case letters, digits, '-', '_' or '.'",
    ),
    "prefix": Form(
        re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}"),
        "1 to 32 letters, digits or '-', starting with a letter",
    ),
    "local": Form(
        re.compile(rf"(?![A-Za-z+]+://){_PATH.pattern}"), "the path of a folder, or ':memory:', and no URI"
    ),
    "credentials_file": Form(_PATH, "a path"),
    "impersonate_service_account": Form(
        re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+"), "the email of a service account"
    ),
    "quota_project": Form(re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}"), "a Google Cloud project's id"),
    "universe_domain": Form(
        re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+"), "a domain alone, such as googleapis.com"
    ),
}


@fields_only
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
    local: str | None = None
    """Folder of a local store, or ``:memory:``; such a store has no project and no bucket."""
    credentials_file: str | None = None
    """Path of credentials; ``None`` takes those of the environment."""
    impersonate_service_account: str | None = None
    """Email of the service account to act as."""
    quota_project: str | None = None
    """Project whose quota the requests use; ``None`` takes that of the credentials."""
    universe_domain: str | None = None
    """``None`` takes that of the credentials, usually ``googleapis.com``."""
    encryption: KmsEnvelope | None = None
    """How content is encrypted; ``None`` stores it as it is."""

    def __post_init__(self) -> None:
        require_forms({name: getattr(self, name) for name in FORMS})
        encryption: object = self.encryption
        if not isinstance(encryption, KmsEnvelope | None):
            raise InvalidInputError(
                f"encryption must be a KmsEnvelope or None, not {type(encryption).__name__}"
            )
        if self.local is not None and (self.project or self.bucket):
            raise InvalidInputError(
                "local names a folder, project and bucket name a cloud store; pass only one kind, or set the "
                "variables of one: ADK_STORE_LOCAL, or ADK_STORE_PROJECT and ADK_STORE_BUCKET"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read ``ADK_STORE_PROJECT``, ``_DATABASE``, ``_BUCKET``, ``_PREFIX``, ``_LOCAL`` and the identity.

        ``ADK_STORE_CREDENTIALS_FILE``, ``ADK_STORE_IMPERSONATE``, ``ADK_STORE_QUOTA_PROJECT`` and
        ``GOOGLE_CLOUD_UNIVERSE_DOMAIN`` name the identity, ``ADK_STORE_ENCRYPTION_KEY``, ``_KEYS_DATABASE``,
        ``_ACCEPT_PLAINTEXT`` and ``_ENCRYPT_ARTIFACTS`` the encryption. An unset or empty variable means the
        default; the project of a cloud store falls back to ``GOOGLE_CLOUD_PROJECT``. A variable that begins
        with ``ADK_STORE_`` and that nothing reads is logged as a warning, once in a process.

        Raises:
            InvalidInputError: a variable is malformed, ``ADK_STORE_TELEMETRY_IDS`` included.
        """
        env = os.environ if environ is None else environ
        warn_of_unknown(env)
        names_ids(env)  # raises for spans, which read it later
        local = env.get("ADK_STORE_LOCAL") or None
        return cls(
            encryption=KmsEnvelope.from_variables(env),
            local=local,
            project=env.get("ADK_STORE_PROJECT") or (not local and env.get("GOOGLE_CLOUD_PROJECT")) or None,
            database=env.get("ADK_STORE_DATABASE") or "(default)",
            bucket=env.get("ADK_STORE_BUCKET") or None,
            prefix=env.get("ADK_STORE_PREFIX") or "adk",
            credentials_file=env.get("ADK_STORE_CREDENTIALS_FILE") or None,
            impersonate_service_account=env.get("ADK_STORE_IMPERSONATE") or None,
            quota_project=env.get("ADK_STORE_QUOTA_PROJECT") or None,
            universe_domain=env.get("GOOGLE_CLOUD_UNIVERSE_DOMAIN") or None,
        )

    def session_service_uri(self) -> str:
        """Return ``--session_service_uri`` for ADK's servers: ``firestore://PROJECT/DATABASE?...``.

        That of a local store is ``firestore+local:///PATH?...``.
        """
        if self.local is not None:
            return f"firestore+local://{_quoted_path(self.local)}?prefix={self.prefix}"
        query = f"prefix={self.prefix}" + (f"&bucket={self.bucket}" if self.bucket else "")
        return f"firestore://{quote(self.project or '', safe='')}/{quote(self.database, safe='()')}?{query}"

    def artifact_service_uri(self) -> str:
        """Return ``--artifact_service_uri`` for ADK's servers: ``gs://BUCKET?project=PROJECT``.

        That of a local store is ``gs+local:///PATH``.

        Raises:
            InvalidInputError: the settings have no bucket. Without a URI, ADK's servers use memory.
        """
        if self.local is not None:
            return f"gs+local://{_quoted_path(self.local)}"
        if self.bucket is None:
            raise InvalidInputError("these settings have no bucket; pass bucket= or set ADK_STORE_BUCKET")
        query = f"?project={quote(self.project, safe='')}" if self.project else ""
        return f"gs://{self.bucket}{query}"


@fields_only
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Sizes at which a session changes how it is stored, and bounds of a call."""

    seal_tail_bytes: int = 64 * 1024
    """UTF-8 bytes of events kept in the session document before they are sealed into a segment."""
    segment_cache_bytes: int = 64 * 1024 * 1024
    """Memory for cached segments, so that a process reads each from storage once. Reads since a compaction
    remember their windows in as many bytes again."""
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
    redactor_timeout_s: float = 10.0
    """Seconds of one call of one redactor; after that, the append is refused."""
    max_in_flight: int = 64
    """Operations of one service that run at a time; further ones wait for a permit."""
    max_waiting: int = 10_000
    """Operations that may wait for a permit, each ``deadline_s`` at most; one more is an OverloadedError."""

    def __post_init__(self) -> None:
        _require_sizes(
            self,
            at_least_one=("max_payload_bytes", "max_values", "max_in_flight"),
            above_zero=("rpc_timeout_s", "deadline_s", "payload_deadline_s", "redactor_timeout_s"),
        )


@fields_only
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


MAX_RESULTS: Final = 1000
"""Memories that one search returns, and one page of a listing."""


@fields_only
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """Bounds of memory operations."""

    max_results: int = 10
    """Memories that ``search_memory`` returns, as many as ADK's own service in memory; 1,000 at most."""
    max_memories: int = 100_000
    """Memories of one user: each process that searches them holds all, some 250 MB of them."""
    cache_bytes: int = 128 * 1024 * 1024
    """Memory for the memories of users and the indexes over them; 10,000 memories take about 25 MB."""
    embed_timeout_s: float = 10.0
    """Seconds of one call of an embedder; after that, memories are stored, and searched, without vectors."""
    deadlines_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Deadlines of whole operations by the method's name, as ``{"search_memory": 2}``; none by default."""
    max_in_flight: int = 64
    """Operations of one service that run at a time; further ones wait for a permit."""
    max_waiting: int = 10_000
    """Operations that may wait for a permit, each 30 seconds at most; one more is an OverloadedError."""

    def __post_init__(self) -> None:
        counts = ("max_results", "max_memories", "max_in_flight")
        _require_sizes(self, at_least_one=counts, above_zero=("embed_timeout_s",))
        if self.max_results > MAX_RESULTS:
            raise InvalidInputError(f"max_results is {self.max_results}, it must be at most {MAX_RESULTS}")


def _quoted_path(local: str) -> str:
    """Return the path of a URI.

    Raises:
        InvalidInputError: the store is in memory, which a server's two services cannot share, or the path is
            not UTF-8.
    """
    if local == MEMORY:
        raise InvalidInputError("a store in memory has no URI; name a folder")
    try:
        return quote(os.path.abspath(local))  # noqa: PTH100  # resolve() would follow links
    except UnicodeEncodeError as exc:
        raise InvalidInputError(
            f"the path {local!r} is not UTF-8, and has no URI; name another folder"
        ) from exc


_ADDRESS: Final = re.compile(r"(https?://)?((\[[0-9a-fA-F:.]+\]|[^\s/:@\[\]]+)(:[0-9]{1,5})?)/*")


def firestore_emulator_host() -> str | None:
    """Return ``host:port`` from ``FIRESTORE_EMULATOR_HOST``, or ``None`` for production.

    A scheme, as in the other emulator's variable, is removed.

    Raises:
        InvalidInputError: the variable has something else, which must not be taken for production.
    """
    value = os.environ.get("FIRESTORE_EMULATOR_HOST", "")
    found = _ADDRESS.fullmatch(value)
    if value and (found is None or not found[4]):
        raise _no_address("FIRESTORE_EMULATOR_HOST", value, "host:port, such as 127.0.0.1:8080")
    return found[2] if found else None


def storage_emulator_url() -> str | None:
    """Return the URL in ``STORAGE_EMULATOR_HOST``, or ``None`` for production.

    Raises:
        InvalidInputError: the variable has something else.
    """
    value = os.environ.get("STORAGE_EMULATOR_HOST", "")
    if value and not _ADDRESS.fullmatch(value):
        raise _no_address("STORAGE_EMULATOR_HOST", value, "URL, such as http://127.0.0.1:9023")
    return value or None


def _no_address(variable: str, value: str, wanted: str) -> InvalidInputError:
    return InvalidInputError(f"{variable} is {value!r:.60}, not a {wanted}; unset it for Google Cloud itself")


def names_ids(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether ``ADK_STORE_TELEMETRY_IDS`` is ``true`` or ``1``: spans then name users and sessions.

    Raises:
        InvalidInputError: the variable has something else.
    """
    return is_on(environ, "ADK_STORE_TELEMETRY_IDS")


def default_project() -> str | None:
    """Return ``GOOGLE_CLOUD_PROJECT``, which overrides the project of the credentials."""
    return os.environ.get("GOOGLE_CLOUD_PROJECT") or None


def adk_default_app() -> str | None:
    """Return ``ADK_DEFAULT_APP_NAME``, the app of requests to ADK's server that name none."""
    return os.environ.get("ADK_DEFAULT_APP_NAME") or None


def default_credentials_file() -> str | None:
    """Return ``GOOGLE_APPLICATION_CREDENTIALS``, which Google's library reads."""
    return os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or None


def universe_domain() -> str | None:
    """Return ``GOOGLE_CLOUD_UNIVERSE_DOMAIN``, which the credentials must belong to."""
    return os.environ.get("GOOGLE_CLOUD_UNIVERSE_DOMAIN") or None


def require_forms(values: Mapping[str, Any], forms: Mapping[str, Form] = FORMS) -> None:
    """Check the *values* that are given.

    Raises:
        InvalidInputError: a value does not have its form.
    """
    for name, form in forms.items():
        value = values.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not form.shape.fullmatch(value):
            raise InvalidInputError(f"{name} {shown(value)} must be {form.says}")


def _require_sizes(limits: Any, *, at_least_one: tuple[str, ...], above_zero: tuple[str, ...]) -> None:
    for setting in fields(limits):
        name, value = setting.name, getattr(limits, setting.name)
        if name == "deadlines_s":
            _require_deadlines(value)
            continue
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise InvalidInputError(f"{name} must be a number, not {type(value).__name__}")
        require_number(name, value)
        if setting.type is int and not isinstance(value, int):
            raise InvalidInputError(f"{name} is {value}, it must be a whole number")
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
        require_number(f"deadlines_s[{shown(name)}]", seconds)
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or seconds <= 0:
            raise InvalidInputError(f"deadlines_s[{shown(name)}] must be a number of seconds above 0")
