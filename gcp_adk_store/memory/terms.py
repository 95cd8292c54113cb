"""Split text of any script into the terms that a search compares."""

import unicodedata
from collections import Counter
from functools import cache
from typing import Final, NamedTuple

import regex

MAX_CHARACTERS: Final = 64 * 1024
"""A longer text is found by its beginning alone."""

GRAM: Final = 4
"""Characters of a part of a word. Questions inflect words: *book*, *booked* and *booking* share a part."""

_GRAM_MARK: Final = "\0"
"""Begins the parts of words, so that no part is taken for a word."""

_SEPARATE: Final = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "æ": "ae", "œ": "oe"}
)


class _Patterns(NamedTuple):
    word: regex.Pattern[str]
    run: regex.Pattern[str]
    """Of scripts that put no spaces between words, and of Hangul."""
    accents: regex.Pattern[str]
    """And the vowel signs that Hebrew and Arabic are usually written without. The marks of other scripts are
    letters: without them, Hindi or Thai words would become others."""


@cache
def _patterns() -> _Patterns:
    return _Patterns(
        regex.compile(r"[\p{L}\p{M}\p{N}]+"),
        regex.compile(
            r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc]+"
        ),
        regex.compile(r"[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]+"),
    )


def terms_of(text: str) -> Counter[str]:
    """Return the terms of *text*, each with its number.

    Case, accents and the forms of one character do not count. Scripts that put no spaces between words, and
    Hangul, which joins endings to words, give pairs of characters. Other scripts give words, and the parts of
    four characters of longer words.
    """
    terms: Counter[str] = Counter()
    patterns = _patterns()
    for word in patterns.word.findall(fold(text[:MAX_CHARACTERS])):
        at = 0
        for run in patterns.run.finditer(word):
            _add_word(terms, word[at : run.start()])
            _add_run(terms, run[0])
            at = run.end()
        _add_word(terms, word[at:])
    return terms


def fold(text: str) -> str:
    """Return *text* without what a search does not distinguish: case, accents, width."""
    if text.isascii():
        return text.lower()
    bare = _patterns().accents.sub("", unicodedata.normalize("NFKD", text)).casefold().translate(_SEPARATE)
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
