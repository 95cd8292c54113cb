"""Show what others wrote without letting it steer the terminal."""

import unicodedata
from typing import Final

_KEPT: Final = "\n\t"
_STEERING: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Characters that let text be seen in another order than it has."""


def visible(text: str) -> str:
    r"""Return *text* with control characters as they are escaped in Python, such as ``\x1b``.

    The ends of lines and tabs stay; what no terminal can encode is escaped too.
    """
    text = text.replace("\r\n", "\n")
    return "".join(each if each in _KEPT or not _steers(each) else _escaped(each) for each in text)


def _steers(character: str) -> bool:
    if character.isprintable():
        return False
    category = unicodedata.category(character)
    return category in _STEERING or unicodedata.bidirectional(character) in _TURNING


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
