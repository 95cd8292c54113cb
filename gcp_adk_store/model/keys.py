"""Keys of sessions, users and artifacts, which are valid if they exist; texts, and how to show them."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from gcp_adk_store.errors import InvalidInputError

USER_NAMESPACE: Final = "user:"
"""Prefix of the filename of an artifact that belongs to the user, not to one session."""

_DRIVE: Final = re.compile(r"[A-Za-z]:")
_RESERVED_SEGMENTS: Final = frozenset({"apps", "users", "sessions", "artifacts", "versions"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UserKey:
    """One user of one app; any string is a legal id, the empty one too."""

    app: str
    user: str

    def __post_init__(self) -> None:
        require_text(self.app, "app_name")
        require_text(self.user, "user_id")

    def __str__(self) -> str:
        return f"app={self.app!r} user={self.user!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """One session of one user of one app; padding around the session id does not count, as in ADK."""

    app: str
    user: str
    session: str

    def __post_init__(self) -> None:
        require_text(self.app, "app_name")
        require_text(self.user, "user_id")
        require_text(self.session, "session_id")
        object.__setattr__(self, "session", self.session.strip())

    @property
    def owner(self) -> UserKey:
        """The user that the session belongs to."""
        return UserKey(app=self.app, user=self.user)

    @property
    def ids(self) -> dict[str, Any]:
        """Its ids as arguments of ADK's services."""
        return {"app_name": self.app, "user_id": self.user, "session_id": self.session}

    def __str__(self) -> str:
        return f"app={self.app!r} user={self.user!r} session={self.session!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactScope:
    """Where artifacts live: one session, or (``session=None``) all sessions of a user.

    Ids follow ADK's rules for artifact paths, with its messages; padding around the session id does
    not count.
    """

    app: str
    user: str
    session: str | None

    def __post_init__(self) -> None:
        _require_path_segment(self.app, "app_name")
        _require_path_segment(self.user, "user_id")
        if self.session is not None:
            require_text(self.session, "session_id")
            object.__setattr__(self, "session", self.session.strip())
            _require_path_segment(self.session, "session_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactKey:
    """One artifact: a filename within a scope; all its versions share the key."""

    scope: ArtifactScope
    filename: str

    @classmethod
    def of(cls, *, app: str, user: str, session: str | None, filename: str) -> Self:
        """Return the key of *filename*: its ``user:`` start decides the scope.

        Raises:
            InvalidInputError: an id or the filename is unusable, or *session* is missing for a
                filename of session scope.
        """
        require_text(filename, "filename")
        if not filename.removeprefix(USER_NAMESPACE):
            raise InvalidInputError("filename must not be empty.")
        if any(c in filename for c in "\r\n\x00"):
            raise InvalidInputError("filename must not contain line breaks or null bytes.")
        if filename.startswith(USER_NAMESPACE):
            return cls(scope=ArtifactScope(app=app, user=user, session=None), filename=filename)
        if session is None:
            raise InvalidInputError("Session ID must be provided for session-scoped artifacts.")
        return cls(scope=ArtifactScope(app=app, user=user, session=session), filename=filename)

    def require_savable(self) -> None:
        """Refuse a session id that would write into the user's own namespace.

        Raises:
            InvalidInputError: the session id is ``user`` or starts with ``user/``.
        """
        if (self.scope.session or "").replace("\\", "/").split("/")[0] == "user":
            raise InvalidInputError("session_id must not be or start with the reserved value 'user'.")

    def __str__(self) -> str:
        scope = self.scope
        return f"app={scope.app!r} user={scope.user!r} session={scope.session!r} filename={self.filename!r}"


def _require_path_segment(value: str, field: str) -> None:
    # The phrases are ADK's: its servers and users' tests match on them.
    require_text(value, field)
    segments = value.replace("\\", "/").split("/")
    if not value.strip():
        raise InvalidInputError(f"{field} must not be empty.")
    if "\x00" in value:
        raise InvalidInputError(f"{field} must not contain null bytes.")
    if value.startswith(("/", "\\")):
        raise InvalidInputError(f"{field} {value!r} must not be an absolute path or start with a slash.")
    if _DRIVE.match(value):
        raise InvalidInputError(f"{field} {value!r} must not be drive-qualified.")
    if value == "." or ".." in segments:
        raise InvalidInputError(f"{field} {value!r} must not contain traversal segments.")
    if len(segments) > 1 and not _RESERVED_SEGMENTS.isdisjoint(s.casefold() for s in segments):
        raise InvalidInputError(f"{field} {value!r} must not contain reserved path segments.")


def require_text(value: str, field: str) -> None:
    """Check an id: any Unicode text is one.

    Raises:
        InvalidInputError: *value* is not a string, or has a lone surrogate.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{field} must be a string, not {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError(
            f"{field} holds a lone surrogate at index {exc.start}, which Unicode text cannot hold."
        ) from exc


def require_text_keys(metadata: Mapping[Any, object]) -> None:
    """Check the keys of metadata: JSON would make texts of others.

    Raises:
        InvalidInputError: a key is not a string.
    """
    for key in metadata:
        if not isinstance(key, str):
            raise InvalidInputError(f"a key of the metadata must be a string, not {type(key).__name__}")


def in_one_line(text: str) -> str:
    """Return a name in one line, with each invisible character escaped as in Python.

    These include line ends, tabs and characters without width, so that a name cannot look like another one
    or like the next row of a table.
    """
    return "".join(each if each.isprintable() else escaped(each) for each in text)


def moment(timestamp: float | None) -> str:
    """Return Unix time in seconds as date and time in UTC; a number out of range stays, ``None`` is empty."""
    if timestamp is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp:g}"


def quoted(word: str) -> str:
    """Return *word* quoted for bash and zsh, with each invisible character escaped."""
    if word.isprintable():
        return shlex.quote(word)
    inner = ""
    for each in word:
        if each.isprintable():
            inner += f"\\{each}" if each in "\\'" else each
        else:  # \x names a byte there, so characters beyond ASCII take \U
            inner += f"\\x{ord(each):02x}" if each.isascii() else f"\\U{ord(each):08x}"
    return f"$'{inner}'"


def escaped(character: str) -> str:
    """Return *character* as Python escapes it."""
    return character.encode("unicode_escape").decode("ascii")


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can hold *text*; it cannot hold lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_text(text: str) -> str:
    """Return *text* with U+FFFD for lone surrogates."""
    return text if is_unicode(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def values_by_name(what: str, given: Iterable[str], *, form: str = "NAME=VALUE") -> dict[str, str]:
    """Return what a person wrote as *what*, several times in a *form*.

    Raises:
        InvalidInputError: one has no "=", or a name has two values.
    """
    found: dict[str, str] = {}
    for name, equals, value in (each.partition("=") for each in given):
        if not equals:
            raise InvalidInputError(f"{what} {in_one_line(name[:80])} has no value: pass {form}")
        if found.setdefault(name, value) != value:
            raise InvalidInputError(f"{what} {in_one_line(name[:80])} has two values: pass one")
    return found
