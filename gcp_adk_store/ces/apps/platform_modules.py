"""Know which modules code can import on the platform, whichever Python looks."""

import sys
from typing import Final

from gcp_adk_store.ces.guest.contract import IMPORTABLE
from gcp_adk_store.ces.guest.namespace import CLASSES

# CPython 3.12 beside the releases that this runs on.
_GONE_IN_3_12: Final = frozenset({"asynchat", "asyncore", "distutils", "imp", "smtpd"})
_GONE_AFTER_3_12: Final = frozenset(
    {"aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "msilib", "nis"}
    | {"nntplib", "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"}
)
_NEW_AFTER_3_12: Final = frozenset({"annotationlib", "compression"})

STANDARD: Final = (sys.stdlib_module_names - _GONE_IN_3_12 - _NEW_AFTER_3_12) | _GONE_AFTER_3_12
"""Top-level modules of the standard library of CPython 3.12."""

GLOBALS: Final = frozenset(
    {*CLASSES, "async_tools", "ces_requests", "context", "get_variable", "remove_variable", "set_variable"}
    | {"tools"}
)
"""Names that are there without an import."""


def missing_module(name: str, members: tuple[str, ...] = ()) -> str | None:
    """Return what of ``import name`` or ``from name import members`` the platform does not have."""
    if name.partition(".")[0] in STANDARD or _is_within(name):
        return None
    if not _leads(name):
        return name if _leads(name.partition(".")[0]) else name.partition(".")[0]
    for member in members:
        whole = f"{name}.{member}"
        if not _is_within(whole) and not _leads(whole):
            return whole
    return None


def _is_within(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in IMPORTABLE)


def _leads(name: str) -> bool:
    return any(known.startswith(f"{name}.") for known in IMPORTABLE)
