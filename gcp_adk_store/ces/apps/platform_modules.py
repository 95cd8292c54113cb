"""Know which modules code can import on the platform, whichever Python looks."""

import sys
from typing import Final

from gcp_adk_store.ces.guest import imports
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
NOT_MEASURED: Final = frozenset(
    {"AsyncTools", "Event", "EventActions", "FunctionDeclaration", "Requests", "ToolContext"}
    | {"ToolDeclaration", "Tools"}
)
"""Documented classes that were missing among the globals of a tool on the platform."""


def missing_module(name: str, members: tuple[str, ...] = ()) -> str | None:
    """Return what of ``import name`` or ``from name import members`` the platform does not have."""
    return imports.missing_module(name, members, importable=IMPORTABLE, standard=STANDARD)
