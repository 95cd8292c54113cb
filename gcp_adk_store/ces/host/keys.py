"""Name a session in one word."""

from dataclasses import dataclass
from typing import Final, Self, TypeAlias
from urllib.parse import quote, unquote

from gcp_adk_store.errors import InvalidInputError

_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Which session: of an app, of a user, by its id. As text, ``app/user/session``, each percent-escaped."""

    app: str
    user: str
    session: str

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
        return cls(*(unquote(part) for part in parts))

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.app, self.user, self.session))


SessionKeyLike: TypeAlias = SessionKey | str
"""A `SessionKey`, or its text."""
