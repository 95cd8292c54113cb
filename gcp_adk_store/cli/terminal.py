"""Show untrusted text without control of the terminal."""

import shlex
import unicodedata
from datetime import UTC, datetime
from typing import Final

_KEPT: Final = "\n\t"
_STEERING: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Characters that change the displayed order of text."""


def visible(text: str) -> str:
    r"""Return *text* with control characters escaped as in Python, such as ``\x1b``.

    Line ends and tabs stay; characters that a terminal cannot encode are escaped too.
    """
    text = text.replace("\r\n", "\n")
    return "".join(each if each in _KEPT or not _steers(each) else _escaped(each) for each in text)


def in_one_line(text: str) -> str:
    """Return a name in one line, with each invisible character escaped as in Python.

    These include line ends, tabs and characters without width, so that a name cannot look like another one
    or like the next row of a table.
    """
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


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


def moment(timestamp: float) -> str:
    """Return Unix time in seconds as date and time in UTC; a number out of range stays as it is."""
    try:
        return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp:g}"


def _steers(character: str) -> bool:
    if character.isprintable():
        return False
    category = unicodedata.category(character)
    return category in _STEERING or unicodedata.bidirectional(character) in _TURNING


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
