"""Choose the page of names that a list request answers with."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_PAGE: Final = 1000  # Also the default; larger requests are cut to it.


class Key(NamedTuple):
    """The place of one entry in a listing.

    Compares as the service orders: by the UTF-8 bytes of the name.
    """

    name: bytes
    is_prefix: bool
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What a list request asks for."""

    prefix: str = ""
    delimiter: str = ""
    start: bytes = b""
    """Inclusive."""
    end: bytes = b""
    """Exclusive; empty means no bound."""
    trailing_delimiter: bool = False
    limit: int = MAX_PAGE
    after: Key | None = None

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> ListQuery:
        """Read the parameters of a list request, or refuse them with 400."""
        try:
            limit = int(args.get("maxResults") or MAX_PAGE)
        except ValueError as exc:
            raise bad_request(f"Invalid value for maxResults: {args['maxResults']!r}") from exc
        if limit < 1:
            raise bad_request(f"Invalid value for maxResults: {limit}")
        token = args.get("pageToken")
        return cls(
            prefix=args.get("prefix", ""),
            delimiter=args.get("delimiter", ""),
            start=args.get("startOffset", "").encode(),
            end=args.get("endOffset", "").encode(),
            trailing_delimiter=args.get("includeTrailingDelimiter", "").lower() == "true",
            limit=min(limit, MAX_PAGE),
            after=_decode(token) if token else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page, in order."""

    items: list[tuple[str, int]]
    """Name and generation, as they were given."""
    prefixes: list[str]
    next_token: str | None


def select_page(
    names: Iterable[tuple[str, int]], query: ListQuery, *, matches: Callable[[str], bool]
) -> Page:
    """Return the page of *names* that *query* asks for.

    A page counts items and prefixes together. Offsets bound object names, so a prefix is
    listed when one of its objects lies inside them even if the prefix itself does not.

    Args:
        names: name and generation of every object; give 0 where a name has one generation,
            so that an object overwritten between two pages is not listed twice.
        query: what was asked for.
        matches: whether a name or a prefix satisfies the request's glob.
    """
    keys: set[Key] = set()
    for name, generation in names:
        if not name.startswith(query.prefix):
            continue
        encoded = name.encode()
        if encoded < query.start or (query.end and encoded >= query.end):
            continue
        keys.update(key for key in _entries(name, generation, query) if matches(key.name.decode()))
    ordered = sorted(key for key in keys if query.after is None or key > query.after)
    page = ordered[: query.limit]
    return Page(
        items=[(key.name.decode(), key.generation) for key in page if not key.is_prefix],
        prefixes=[key.name.decode() for key in page if key.is_prefix],
        next_token=_encode(page[-1]) if len(ordered) > len(page) else None,
    )


def _entries(name: str, generation: int, query: ListQuery) -> Iterable[Key]:
    found = name.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
    end = found + len(query.delimiter)
    if found >= 0:
        yield Key(name[:end].encode(), is_prefix=True, generation=0)
    if found < 0 or (query.trailing_delimiter and end == len(name)):
        yield Key(name.encode(), is_prefix=False, generation=generation)


def _encode(key: Key) -> str:
    text = json.dumps([key.name.decode(), key.is_prefix, key.generation])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decode(token: str) -> Key:
    try:
        name, is_prefix, generation = json.loads(base64.urlsafe_b64decode(token.encode()))
        return Key(name.encode(), bool(is_prefix), int(generation))
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise bad_request("Invalid value for pageToken") from exc
