"""Describe sessions by titles and labels, and check what a caller calls them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Final

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import quoted

MAX_TITLE: Final = 256
"""The most characters of a title."""

MAX_LABELS: Final = 64
"""The most labels of a session, as in Google Cloud."""

MAX_LABEL: Final = 63
"""The most characters of a label's name, and of its value."""

_NAME: Final = re.compile(r"[^\W_][\w.-]*")
_NOT_IN_A_LINE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SHOWN: Final = 40  # characters of a name in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOrigin:
    """The point of the session that a fork was made of."""

    app_name: str
    user_id: str
    session_id: str
    position: int
    """The number of events that the fork has from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """What a session is, without its events and its state."""

    app_name: str
    user_id: str
    session_id: str
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """In the order of their names."""
    events: int
    """The number of appends."""
    turns: int | None
    """The number of turns: user events with another invocation id than the user event with one before them.
    ``None`` if it is unknown, because the session had events before the store counted turns."""
    create_time: float
    """Unix time in seconds."""
    last_update_time: float
    """The timestamp of the last event, or else the time of creation; Unix time in seconds."""
    last_text: str | None
    """The first 200 characters of the newest message: of the texts, without thoughts, of the newest event
    that has any. ``None`` if no event has, or only events from before the store kept it."""
    origin: SessionOrigin | None = None
    """Where a fork comes from; ``None`` for any other session."""
    archived_events: int = 0
    """The first of *events*, which a read of all leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableSession:
    """A stored session that cannot be read, as a listing of others names it."""

    path: str
    """Path of its document."""
    app_name: str
    user_id: str | None
    """``None`` if the path is not that of any session."""
    session_id: str | None
    reason: str
    """What is wrong with it: names of fields and kinds of values, never content."""

    @property
    def command(self) -> str:
        """The command that looks at it, without the place of the store."""
        ids = {"app": self.app_name, "user": self.user_id, "session": self.session_id}
        options = (f"--{name} {quoted(id_)}" for name, id_ in ids.items() if id_ is not None)
        return " ".join(["gcp-adk-store fsck", *options])


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A change of a session's title and labels."""

    title: str | EllipsisType | None
    """``...`` leaves the title."""
    labels: Mapping[str, str | None] | EllipsisType | None
    """A value of ``None`` removes a label; labels that are not named stay. ``None`` removes all labels."""

    def __post_init__(self) -> None:
        """Require a title and labels within their limits; otherwise raise ``InvalidInputError``."""
        if self.title is not None and self.title is not ...:
            _require_title(self.title)
        if self.labels is not None and self.labels is not ...:
            require_labels(self.labels, removable=True)

    def applied_to(self, info: SessionInfo) -> SessionInfo:
        """Return *info* with this change.

        Raises:
            InvalidInputError: the session would have too many labels.
        """
        changes = {} if isinstance(self.labels, EllipsisType) else self.labels
        changed = {} if changes is None else {**info.labels, **changes}
        labels = {name: value for name, value in changed.items() if value is not None}
        _require_few(labels)
        title = info.title if isinstance(self.title, EllipsisType) else self.title
        return replace(info, title=title, labels=labels)


def require_described(title: object, labels: object) -> None:
    """Require the title, or ``None``, and the labels of a whole session, as changes of them are required.

    Raises:
        InvalidInputError: one is malformed or too long, or there are too many labels.
    """
    if title is not None:
        _require_title(title)
    require_labels(labels)
    if isinstance(labels, Mapping):
        _require_few(labels)


def require_labels(labels: object, *, removable: bool = False) -> None:
    """Require a mapping of labels within their limits; values may be ``None`` if they are *removable*.

    Raises:
        InvalidInputError: they are malformed, or one is too long, or there are too many.
    """
    if not isinstance(labels, Mapping):
        raise InvalidInputError(
            "labels must be a mapping of names to values, such as {'team': 'x'}, "
            f"not {type(labels).__name__}"
        )
    if len(labels) > 2 * MAX_LABELS:  # all may be replaced by as many others
        raise InvalidInputError(
            f"labels has {len(labels)} labels, the limit of a session is {MAX_LABELS}: pass fewer"
        )
    for name, value in labels.items():
        if not isinstance(name, str):
            raise InvalidInputError(f"the name of a label must be a string, not {type(name).__name__}")
        if len(name) > MAX_LABEL or not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"labels: the name {name[:_SHOWN]!r} of {len(name)} characters is not a label's: 1 to "
                f"{MAX_LABEL} letters, digits, '_', '-' and '.', the first one a letter or a digit"
            )
        if value is not None or not removable:
            _require_text(f"labels[{name[:_SHOWN]!r}]", value, limit=MAX_LABEL, way_out=None)


def _require_title(title: object) -> None:
    _require_text("title", title, limit=MAX_TITLE, way_out="pass None to remove the title")


def _require_few(labels: Mapping[str, object]) -> None:
    if len(labels) > MAX_LABELS:
        raise InvalidInputError(
            f"labels: the session would have {len(labels)} labels, the limit is {MAX_LABELS}; "
            "remove some with the value None, or put several into one"
        )


def _require_text(what: str, text: Any, *, limit: int, way_out: str | None) -> None:
    """Require a line of text that storage can hold; the error says nothing of its content."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be a string, not {type(text).__name__}")
    if way_out is not None and not text.strip():
        raise InvalidInputError(f"{what} is blank; {way_out}")
    if len(text) > limit:
        raise InvalidInputError(f"{what} has {len(text)} characters, the limit is {limit}: shorten it")
    if wrong := _NOT_IN_A_LINE.search(text):
        raise InvalidInputError(
            f"{what} has a control character, a line break or a lone surrogate at {wrong.start()}: "
            "leave it out"
        )
