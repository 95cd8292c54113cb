"""Split text of any script into the terms that a search compares."""

import unicodedata
from collections import Counter
from typing import Final

try:
    import regex
except ModuleNotFoundError as exc:
    from gcp_adk_store.extras import how_to_install

    raise ModuleNotFoundError(f"memories need the package regex: {how_to_install('memory')}") from exc

MAX_CHARACTERS: Final = 64 * 1024
"""A longer text is found by its beginning alone."""

GRAM: Final = 4
"""Characters of a part of a word. Questions inflect words: *book*, *booked* and *booking* share a part."""

_GRAM_MARK: Final = "\0"
"""Begins the parts of words, so that no part is taken for a word."""

_RUN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc]+"
)
_WORD: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+")

# Accents, and the vowel signs that Hebrew and Arabic are usually written without. The marks of other scripts
# are letters: without them, Hindi or Thai words would become others.
_ACCENTS: Final = regex.compile(r"[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]+")
_SEPARATE: Final = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "æ": "ae", "œ": "oe"}
)


def terms_of(text: str) -> Counter[str]:
    """Return the terms of *text*, each with its number.

    Case, accents and the forms of one character do not count. Scripts that put no spaces between words, and
    Hangul, which joins endings to words, give pairs of characters. Other scripts give words, and the parts of
    four characters of longer words.
    """
    terms: Counter[str] = Counter()
    for word in _WORD.findall(fold(text[:MAX_CHARACTERS])):
        at = 0
        for run in _RUN.finditer(word):
            _add_word(terms, word[at : run.start()])
            _add_run(terms, run[0])
            at = run.end()
        _add_word(terms, word[at:])
    return terms


def fold(text: str) -> str:
    """Return *text* without what a search does not distinguish: case, accents, width."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold().translate(_SEPARATE)
    return unicodedata.normalize("NFKC", bare)


def is_part(term: str) -> bool:
    """Return whether *term* is a part of a word."""
    return term.startswith(_GRAM_MARK)


def _add_word(terms: Counter[str], word: str) -> None:
    if not word:
        return
    terms[word] += 1
    if len(word) >= GRAM:
        for at in range(len(word) - GRAM + 1):
            terms[_GRAM_MARK + word[at : at + GRAM]] += 1


def _add_run(terms: Counter[str], run: str) -> None:
    if len(run) == 1:
        terms[run] += 1
    for at in range(len(run) - 1):
        terms[run[at : at + 2]] += 1
