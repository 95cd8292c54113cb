"""Name what a page is about, and link to other pages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The ids of a page; ``None`` for those that it is not about. The empty text is an id, too."""

    app: str | None = None
    user: str | None = None
    session: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the ids among the parameters of a request."""
        return cls(**{name: given[name] for name in ("app", "user", "session") if name in given})

    @property
    def ids(self) -> dict[str, Any]:
        """The ids as the services name them."""
        named = {"app_name": self.app, "user_id": self.user, "session_id": self.session}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def parameters(self) -> dict[str, str]:
        """The ids as parameters of a request."""
        named = {"app": self.app, "user": self.user, "session": self.session}
        return {name: value for name, value in named.items() if value is not None}

    def within(self, **ids: str | None) -> "Place":
        """Return the place with other ids."""
        return replace(self, **ids)


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of pages below the path at which the inspector is mounted."""

    root: str

    def to(self, page: str, place: Place | None = None, /, **parameters: object) -> str:
        """Return the address of *page* about *place*; parameters of ``None`` are left out."""
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        query = urlencode({**(place.parameters if place else {}), **given}, errors="replace")
        return f"{self.root}/{page}" + (f"?{query}" if query else "")

    def is_own(self, address: str) -> bool:
        """Return whether a browser that follows *address* stays in the inspector."""
        plain = address.isascii() and address.isprintable() and "\\" not in address
        return plain and address.startswith(f"{self.root}/") and not address.startswith("//")
