"""Decide which headers of user code are sent."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gcp_adk_store.ces.http.policy import RefusedError

_OURS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that say how a request travels: those of code would lead it elsewhere, or break it."""
_MOST: Final = 100
_CHARACTERS: Final = 64 * 1024
"""Of all headers together: servers take 8 to 64 KiB."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")


def header_fault(name: str, value: str) -> str | None:
    """Return what is wrong with a header, or None; never shows *value*, which may be a secret."""
    if not _NAME.fullmatch(name):
        return f"{name[:40]!r} is not a valid name of a header"
    if not _VALUE.fullmatch(value):
        return f"the value of the header {name[:40]} must be ASCII, without spaces or line ends around it"
    return None


def sendable(given: Any, said: list[str]) -> dict[str, str]:
    """Return those headers of *given* that are not the host's to set; of one name the last.

    Args:
        given: Values by name, or None.
        said: Learns what was left out.

    Raises:
        RefusedError: *given* is not valid, or is too large.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise RefusedError("headers must be a dict")
    if len(given) > _MOST:
        raise RefusedError(f"{len(given):,} headers are more than the {_MOST} that a request may have")
    if sum(len(str(name)) + len(str(value)) for name, value in given.items()) > _CHARACTERS:
        raise RefusedError(f"the headers have more than the {_CHARACTERS:,} characters that they may have")
    kept: dict[str, tuple[str, str]] = {}
    for name, value in ((str(name), value) for name, value in given.items()):
        if name.lower() in _OURS:
            said.append(f"the header {name} is the host's to set, and was left out")
        elif value is not None:
            if fault := header_fault(name, str(value)):
                raise RefusedError(fault)
            kept.pop(name.lower(), None)
            kept[name.lower()] = (name, str(value))
    return dict(kept.values())
