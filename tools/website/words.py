"""Find words and sentences that make documents hard to read: ``python -m tools.website.words``.

The rules are those of Google's developer documentation style that a program can check, and the terms that
this project once had of its own. In documents code is left out: blocks, spans, addresses. In the package,
names, docstrings, comments and messages are read for the terms.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("docs", "emulators", "terraform", "tools", "examples")

INSTEAD: Final = {
    r"simply|easily|obviously|of course|basically|just": "leave it out",
    r"please": "leave it out",
    r"very|really|quite|extremely": "leave it out, or give a number",
    r"in order to": "to",
    r"utili[sz]e[sd]?|leverag(?:e[sd]?|ing)": "use",
    r"e\.g\.": "for example",
    r"i\.e\.": "that is",
    r"etc\.": "name the rest, or write 'such as' before",
    r"via": "through, or with",
    r"and/or": "or",
    r"allows? you to|enables? you to": "you can, or lets you",
    r"functionality": "feature, or name it",
    r"black-?lists?|black-?listed": "denylist",
    r"white-?lists?|white-?listed": "allowlist",
    r"sanity[ -]checks?": "check",
    r"dumm(?:y|ies)": "placeholder",
    r"prior to": "before",
    r"subsequent(?:ly)?": "later, or next",
    r"whilst|amongst": "while, among",
    r"should be able to": "can",
    r"currently": "leave it out, or say from which release on",
    r"there (?:is|are) no|(?:is|are) none": "say what there is, or make the thing the subject",
    r"seamless(?:ly)?|blazing(?:ly)?|powerful|robust(?:ly)?|performant": "say what it does, with a number",
    r"we|our|us": "name who: the store, the authors, you",
}
"""What documents do not say, each with what to say instead."""

TERMS: Final = {
    r"mend(?:s|ed|ing)?": "repair, or fix",
    r"spell(?:s|ed)?": "encode, or write",
    r"in vain": "until it gives up, or say what comes of it",
    r"rests of": "leftovers of",
    r"halves of": "lone surrogates",
    r"tell(?:s|ing)?|told": "report, show, raise, return, or distinguish",
    r"of which little": "say how much",
}
"""What neither documents nor the package say: terms that this project once had of its own."""

IN_CODE: Final = {
    r"whilst|amongst|utili[sz]e[sd]?|e\.g\.|i\.e\.|and/or|via": "as in documents",
    r"(?:this|that) very|really|simply|obviously|basically": "leave it out",
}
"""What docstrings, comments and messages of the package do not say either."""

NAMES: Final = {
    r"told|tells": TERMS[r"tell(?:s|ing)?|told"],
    r"mend(?:s|ed|ing)?": "repair",
    r"spell(?:s|ed)?": "encode",
    r"halves": "lone surrogates",
}
"""Words that are in no name of the package, each with what to write instead."""

LONGEST: Final = 40
"""Words of a sentence."""

_ALLOWED: Final = {
    "docs/ces-runtime.md": ("what we chose",),
    "docs/ces-conversations.md": ("what we chose",),
    "docs/ces-commands.md": ("what we chose",),
}
"""Titles of older pages, which others link to."""
_CODE: Final = (
    re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE),
    re.compile(r"``.*?``|`[^`]*`", re.DOTALL),
    re.compile(r"^---\n.*?^---$", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"(?<=\])\([^)]*\)"),
    re.compile(r"https?://\S+"),
    re.compile(r"^:::.*$", re.MULTILINE),
)

_TEXTS: Final = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""Kinds of tokens that people read; from Python 3.12 on, the texts of an f-string are tokens of their own."""

_LOWER: Final = re.compile(r"(?:^|[.!?:|*>-] )[A-Z](?=[a-z])", re.MULTILINE)
"""The first letters of sentences: names such as None and US stay as they are."""


class Finding(NamedTuple):
    """Something to say in another way."""

    line: int
    found: str
    instead: str


def findings(text: str, *, allowed: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield what *text* should say in another way, in the order of the rules; *allowed* stays as it is."""
    prose = text
    for pattern in _CODE:
        prose = pattern.sub(_blank, prose)
    for phrase in allowed:
        prose = re.sub(re.escape(phrase), _blank, prose, flags=re.IGNORECASE)
    for words, instead in (INSTEAD | TERMS).items():
        for found in re.finditer(rf"(?<![\w.-])(?:{words})(?![\w-])", _LOWER.sub(_lower, prose)):
            yield Finding(_line(prose, found.start()), found[0], instead)
    for start, sentence in _sentences(prose):
        count = len(sentence.split())
        if count > LONGEST:
            shown = " ".join(sentence.split()[:6])
            yield Finding(
                _line(prose, start),
                f"{shown} ...",
                f"{count} words; at most {LONGEST}, so make it two sentences",
            )


def findings_in_code(text: str) -> Iterator[Finding]:
    """Yield what names, docstrings, comments and messages of the module *text* should say in another way."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            terms, pattern = NAMES, r"(?:(?<=_)|\b)(?:{})(?=_|\b)"
        elif token.type in _TEXTS and " " in token.string:
            terms, pattern = TERMS | IN_CODE, r"(?<![\w.-])(?:{})(?![\w-])"
        else:
            continue
        for words, instead in terms.items():
            for found in re.finditer(pattern.format(words), token.string, re.IGNORECASE):
                line = token.start[0] + token.string.count("\n", 0, found.start())
                yield Finding(line, found[0], instead)


def _sentences(prose: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences outside of tables, with their places; an item of a list begins a new one."""
    for block in re.finditer(r"(?:^(?!\s*\||#).+\n?)+", prose, re.MULTILINE):
        for found in re.finditer(r"(?:(?![.!?:;](?:\s|$)|\n\s*(?:[-*]|\d+\.)\s).)+", block[0], re.DOTALL):
            yield block.start() + found.start() + 1, found[0]


def _lower(found: re.Match[str]) -> str:
    return found[0].lower()


def _blank(found: re.Match[str]) -> str:
    """Return as many lines, and a word that stands for the rest."""
    lines = "\n" * found[0].count("\n")
    return lines or ("" if found[0].startswith("(") else "x")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def documents() -> list[Path]:
    """Return the documents for readers; the changelog is a record."""
    found = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]
    found += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md")]
    return sorted(path for path in found if ".terraform" not in path.parts)


def main() -> int:
    """Print all findings; return 1 if there are any."""
    status = 0
    for path in (*documents(), *sorted((ROOT / "gcp_adk_store").rglob("*.py"))):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        of_code = path.suffix == ".py"
        for found in findings_in_code(text) if of_code else findings(text, allowed=_ALLOWED.get(name, ())):
            sys.stdout.write(f"{name}:{found.line}: {' '.join(found.found.split())!r}: {found.instead}\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
