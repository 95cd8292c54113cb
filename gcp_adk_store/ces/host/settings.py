"""The settings of a runtime, and the key of a session."""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias
from urllib.parse import quote, unquote

from gcp_adk_store.ces.guest.contract import RunSettings
from gcp_adk_store.ces.sandbox.interface import Limits
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import require_members

if TYPE_CHECKING:
    from google.adk.sessions import Session

USER: Final = "user"
"""The author of what users say; agents have other names."""
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Which session: of an app, of a user, by its id. As text, ``app/user/session``, each percent-escaped.

    Raises:
        InvalidInputError: one of them is not a string.
    """

    app: str
    user: str
    session: str

    def __post_init__(self) -> None:
        require_members(self)

    @classmethod
    def of(cls, key: "SessionKeyLike") -> Self:
        """Return *key*, read where it is text.

        Raises:
            InvalidInputError: *key* is not a session key.
        """
        if isinstance(key, cls):
            return key
        parts = key.split("/") if isinstance(key, str) else []
        if len(parts) != _PARTS or not all(parts):
            raise InvalidInputError("a session key must be app/user/session, each percent-escaped")
        try:
            return cls(*(unquote(part, errors="strict") for part in parts))
        except UnicodeDecodeError as exc:
            raise InvalidInputError("an escape of a session key is not UTF-8") from exc

    @classmethod
    def of_session(cls, session: "Session") -> Self:
        """Return the key of *session*."""
        return cls(session.app_name, session.user_id, session.id)

    @property
    def names(self) -> dict[str, Any]:
        """The key as arguments of ADK's services."""
        return {"app_name": self.app, "user_id": self.user, "session_id": self.session}

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.app, self.user, self.session))


SessionKeyLike: TypeAlias = SessionKey | str
"""A `SessionKey`, or its text."""


_MIB: Final = 1024 * 1024
_AT_LEAST_ONE: Final = frozenset({"sandboxes_at_once", "sandboxes_per_session", "waiting_per_session"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """Settings of all runs of a runtime; ``guest`` has those of the code.

    Raises:
        InvalidInputError: a value is of another kind, a number is too small, a name cannot be shared, or the
            agent has the name ``user``.
    """

    guest: RunSettings = field(default_factory=RunSettings)
    limits: Limits | None = None
    """Of each run; None means `Limits()`. On a machine with little memory, runs get less."""
    agent_name: str = "agent"
    """Author of the events that runs append, and ``context.agent_name``, unless a call names another."""
    recent_events: int | None = None
    """The most events in ``context.events``, the latest; None means all."""
    history_bytes: int | None = 6 * 1024 * 1024
    """JSON of the latest events that ``context.events`` has, so that a long session's fit into a run's
    ``frame_bytes`` beside its variables; older ones are left out, with a warning. None means no limit."""
    shared_variables: tuple[str, ...] = ()
    """Names of the ``user:`` and ``app:`` variables that code sees and sets, such as ``app:theme``, without
    patterns. Runs of other users see what code sets of the app, so the default is empty."""
    session_variables_bytes: int = 6 * _MIB
    """Bytes of a session's own variables together, names and values, in the JSON of a run's request. A run
    that stores more fails. The default takes 24 variables of the largest size, 256 KiB. With those of the
    user and the app, ``history_bytes`` and an artifact in base64, they fit into ``frame_bytes``."""
    user_variables_bytes: int = 2 * _MIB
    """The same of the ``user:`` variables."""
    app_variables_bytes: int = 2 * _MIB
    """The same of the ``app:`` variables."""
    variables_per_scope: int = 1000
    """Names in each of these three scopes. Names of removed variables count: ADK's state keeps them."""
    reruns_on_conflict: int = 0
    """How often code runs again if another writer was first; its host calls happen again."""
    uncollected_characters: int = 16 * 1024 * 1024
    """Size of the answers to background calls that the code has not collected, and of their changes of
    variables. Above it, the run fails."""
    sandboxes_at_once: int | None = None
    """Sandboxes at a time, those of called tools included; runs beyond wait, sessions in turns. None takes 8
    for each processor that this process may use, and no more than three quarters of the memory hold that is
    available when the runtime is made, or that its control group may have."""
    sandboxes_per_session: int | None = None
    """Sandboxes of one session, and so of one call with all that it starts. None takes one for each depth of
    calls and half of the others."""
    longest_wait_s: float = 60.0
    """Seconds that a run waits for its sandbox, or that the runs it calls wait for theirs, in total. They do
    not count in ``Limits.wall_s``. After that, an OverloadedError, or the wall time continues."""
    waiting_per_session: int = 32
    """The most runs of one session that wait for their turn, and the most of its asynchronous tools that have
    not ended. A further one is an OverloadedError, and its code does not run."""
    max_depth: int = 5
    """How deep tools may call each other; lower if the machine has fewer sandboxes than depths."""
    stored_log_characters: int = 0
    """Characters of what code prints, warns of and fails with that the events of a turn keep, in their
    ``custom_metadata``. Whoever reads the events sees them, so the default is 0."""

    def __post_init__(self) -> None:
        names: object = self.shared_variables  # a caller without types may give anything
        if not isinstance(names, tuple) or not all(map(_is_shareable, names)):
            raise InvalidInputError(
                "shared_variables must be a tuple of names that begin with user: or app:, such as "
                f"('app:theme',), not {str(names)[:100]!r}"
            )
        require_members(self)
        for each in fields(self):
            value, least = getattr(self, each.name), int(each.name in _AT_LEAST_ONE)
            if isinstance(value, int | float) and not value >= least:  # NaN is not
                raise InvalidInputError(f"{each.name} must be at least {least}, not {value}")
        if self.agent_name in {"", USER}:
            raise InvalidInputError(f"agent_name cannot be {self.agent_name!r}")


def _is_shareable(name: object) -> bool:
    """Whether sessions can share a variable with this *name*; marks of removals belong to the runtime."""
    return isinstance(name, str) and name.startswith(("user:", "app:")) and ":ces_removed:" not in name
