"""Find the fields of requests that are values of the session, at every depth, and fill them."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

from pydantic.alias_generators import to_camel

from gcp_adk_store.errors import InvalidInputError

MARK: Final = "x-ces-session-context"
"""What a document gives a parameter or a field that is of the session."""

_FIELDS: Final = ("project_id", "project_number", "location", "app_id", "session_id")
_EXPRESSION: Final = re.compile(
    rf"\$context\.(?:(?P<field>{'|'.join(_FIELDS)})|variables(?:\.(?P<variable>\w+))?)"
)
_CHARACTERS: Final = 2 * 1024 * 1024
"""What the session gives of one request at most: as many as its body may have by default."""
_OF_VALUE: Final = 200
_OF_OBJECT: Final = 20
"""What a value costs beside its own characters, and what an object or a list costs: some 10,000 values, or
100,000 objects and lists, are all of a request, and take some 100 ms."""
_BRACKET: Final = re.compile(r"[\[\]]")
_AS_UNDERSCORE: Final = re.compile(r"[.\[\s]")
"""What PHP reads as an underscore in the name of a field."""


class ArgumentsError(ValueError):
    """The arguments of a call do not make a request."""


def text_of(value: Any) -> str:
    """Return *value* as text: a value that is not text, as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(slots=True, kw_only=True)
class SessionValues:
    """What one request can have of a session: a list of the caller's repeats it for each item."""

    context: Mapping[str, Any] = field(default_factory=dict)
    """The fields of ``context``, as user code gets them, in camelCase."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    _left: int = field(default=_CHARACTERS, init=False)

    def value(self, expression: str) -> Any:
        """Return what ``$context.session_id``, ``$context.variables.name`` and so on are; None if missing.

        Raises:
            ArgumentsError: as :meth:`spend`.
        """
        found = _EXPRESSION.fullmatch(expression)
        value = None
        if found is not None and found["field"]:
            value = self.context.get(to_camel(found["field"]))
        elif found is not None:
            value = self.variables.get(found["variable"]) if found["variable"] else dict(self.variables)
        self.spend(_OF_VALUE + len(text_of(value)))
        return value

    def spend(self, characters: int = _OF_OBJECT) -> None:
        """Count a value of so many *characters*, or an object or a list that has something of the session.

        Raises:
            ArgumentsError: they are too many for one request.
        """
        self._left -= characters
        if self._left < 0:
            raise ArgumentsError(
                f"the session gives more than the {_CHARACTERS:,} characters that a request may have of it, "
                f"each value counted as {_OF_VALUE} more, and each object or list with something of it as "
                f"{_OF_OBJECT}; give shorter lists"
            )


def require_free(names: Iterable[str], taken: Collection[str], where: str) -> None:
    """Raise an ArgumentsError if a server could read one of *names* as one of *taken*.

    Some servers read ``user[]`` and ``User`` as ``user``, and ``user.id`` as ``user_id``.
    """
    ours = {_read_as(name) for name in taken}
    for name in names:
        if not ours.isdisjoint({_read_as(name), _read_as(_BRACKET.split(name)[0])}):
            raise ArgumentsError(f"{where} cannot have a field {name[:100]!r}, which the session gives")


def _read_as(name: str) -> str:
    return _AS_UNDERSCORE.sub("_", name.strip()).casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFields:
    """What of a value the session gives, as its schema says; the rest is the caller's."""

    expression: str = ""
    """Of the value itself."""
    members: Mapping[str, Self] = field(default_factory=dict, repr=False)
    """Members of an object that the session gives, or that have something of it. Equal ones may be shared at
    each level, so that a text of all of them would have no end."""
    items: Self | None = None
    """Of each item of a list."""
    required: frozenset[str] = frozenset()
    has_others: bool = False
    """Whether the object has members that are the caller's too."""

    def __bool__(self) -> bool:
        return bool(self.expression or self.in_part)

    @property
    def in_part(self) -> bool:
        """Whether the session gives something within the value, and not the value itself."""
        return bool(self.members or self.items)

    def gives(self, name: str) -> bool:
        """Whether the session gives the whole member *name*, and so hides it from callers."""
        return name in self.members and bool(self.members[name].expression)

    def filled(self, value: Any, session: SessionValues, where: str) -> Any:
        """Return *value* with the values of *session* in place of what the caller gives; None for none.

        A missing object is made if it is required, or if all its members are the session's.

        Raises:
            ArgumentsError: *value*, which messages call *where*, is not of the kind that has these fields. Or
                the request takes too much of the session.
        """
        if self.expression:
            return session.value(self.expression)
        if value is None or not self:
            return value
        session.spend()
        if self.members and isinstance(value, Mapping):
            return dict(self._members(value, session, where))
        if self.items is not None and isinstance(value, list):
            return [self.items.filled(each, session, f"an item of {where}") for each in value]
        kinds = [*(["an object"] if self.members else []), *(["a list"] if self.items else [])]
        why = "because the session gives fields of it"
        raise ArgumentsError(f"{where} must be {' or '.join(kinds)}, not {type(value).__name__}, {why}")

    def _members(
        self, value: Mapping[str, Any], session: SessionValues, where: str
    ) -> Iterator[tuple[str, Any]]:
        others = {name: each for name, each in value.items() if name not in self.members}
        require_free(others, self.members, where)
        yield from others.items()
        for name, each in self.members.items():
            given, wanted = value.get(name), name in self.required or not each.has_others
            made = {} if given is None and wanted and each.members else given
            found = each.filled(made, session, f"{name} of {where}")
            if found is not None if each.expression else found or name in value:
                yield name, found


_DEPTH: Final = 64
_STEPS: Final = 100_000
"""Schemas that are read for one value. Alternatives can combine them in a new way at each level."""
_TOGETHER: Final = ("allOf", "anyOf", "oneOf")
_READ: Final = frozenset({"$ref", "properties", "required", "items", *_TOGETHER})
_NO_SCHEMA: Final = frozenset(
    {"$defs", "const", "default", "definitions", "discriminator", "enum", "example", "examples"}
)
"""Keywords whose values are data, or schemas that count only where something refers to them."""
_BY_NAME: Final = frozenset({"patternProperties", "dependentSchemas", "dependencies"})
"""Keywords whose values have schemas by the names of fields, and not by keywords."""


class UnfillableError(Exception):
    """A document marks a field that cannot be filled in every request."""


def is_marked(document: Any) -> bool:
    """Return whether *document* marks anything as a value of the session."""
    waiting, seen = [document], {id(document)}
    for each in waiting:
        if isinstance(each, Mapping) and MARK in each:
            return True
        below = each.values() if isinstance(each, Mapping) else each if isinstance(each, list) else ()
        fresh = {id(one): one for one in below if isinstance(one, Mapping | list) and id(one) not in seen}
        seen |= fresh.keys()
        waiting += fresh.values()
    return False


def schemas_of(described: Mapping[str, Any], media: Iterable[Any]) -> tuple[Any, ...]:
    """Return all schemas that a document has of a value that is *described*, also by its *media* types."""
    known = (described, *(each for each in media if isinstance(each, Mapping)))
    return tuple(schema for each in known for schema in (own_mark(each), each.get("schema")))


def own_mark(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return *described* as a schema that has nothing but its mark."""
    return {key: value for key, value in described.items() if key == MARK}


def expression_of(described: Mapping[str, Any], where: str) -> str:
    """Return the expression of the session by which *described* is marked; empty for none.

    Raises:
        InvalidInputError: it is not such an expression.
    """
    found = described.get(MARK)
    if found is None:
        return ""
    if not isinstance(found, str) or not _EXPRESSION.fullmatch(found):
        known = ", ".join(f"$context.{name}" for name in (*_FIELDS, "variables", "variables.NAME"))
        raise InvalidInputError(f"{where}: {MARK} {str(found)[:60]!r} is unknown; known: {known}")
    return found


Resolve: TypeAlias = Callable[[str], Mapping[str, Any]]
"""Returns the schema at a reference; raises InvalidInputError where there is nothing."""


def session_fields(schemas: Iterable[Any], resolve: Resolve, where: str) -> SessionFields:
    """Return the fields of a value that has all *schemas*.

    Marks of all alternatives (``allOf``, ``anyOf``, ``oneOf``) count: no field that one of them marks is ever
    the caller's.

    Raises:
        UnfillableError: a marked field cannot be filled in every request.
        InvalidInputError: a mark is not an expression that is known.
    """
    return _Reading(resolve, where).fields(schemas, 0)


@dataclass(slots=True)
class _Reading:
    """One pass over the schemas of a value, and of the values in it; the same ones together are read once."""

    resolve: Resolve
    where: str
    _known: dict[frozenset[int], SessionFields | None] = field(default_factory=dict)
    """By the identities of schemas that a value has together; None while they are read."""
    _recursive: set[frozenset[int]] = field(default_factory=set)
    _references: dict[int, str] = field(default_factory=dict)
    """To schemas, by their identities."""
    _steps: int = 0

    def fields(self, schemas: Iterable[Any], depth: int) -> SessionFields:
        together = self._together(schemas)
        if together and depth > _DEPTH:
            raise UnfillableError(f"its schema is nested deeper than {_DEPTH} levels")
        key = frozenset(together)
        if key not in self._known:
            self._known[key] = None
            found = self._known[key] = self._read([*together.values()], depth)
            if found and key in self._recursive:
                named = (self._references[each] for each in together if each in self._references)
                holder = next(named, "a schema")
                raise UnfillableError(f"a field is marked in {holder}, which contains itself")
        known = self._known[key]
        if known is None:
            self._recursive.add(key)
        return known or SessionFields()

    def _together(self, schemas: Iterable[Any]) -> dict[int, Mapping[str, Any]]:
        """Return *schemas*, what they refer to and all of their alternatives, each once, by identity."""
        found: dict[int, Mapping[str, Any]] = {}
        waiting = [*schemas]
        for each in waiting:
            if not isinstance(each, Mapping) or id(each) in found:
                continue
            found[id(each)] = each
            self._steps += 1
            if self._steps > _STEPS:
                raise UnfillableError(f"its schema combines more than {_STEPS:,} fields")
            for keyword in _TOGETHER:
                waiting += _several(each.get(keyword))
            if isinstance(reference := each.get("$ref"), str):
                waiting += self._referred(reference)
        return found

    def _referred(self, reference: str) -> list[Mapping[str, Any]]:
        try:
            schema = self.resolve(reference)
        except InvalidInputError as exc:
            if reference.startswith("#"):
                raise UnfillableError(f"{reference} is not found, and could mark fields") from exc
            return []  # outside of the document: it marks nothing here
        self._references[id(schema)] = reference
        return [schema]

    def _read(self, schemas: list[Mapping[str, Any]], depth: int) -> SessionFields:
        marks = dict.fromkeys(filter(None, (expression_of(each, self.where) for each in schemas)))
        if len(marks) > 1:
            raise UnfillableError(f"one field is both {' and '.join(marks)}")
        keywords = [(str(keyword), below) for each in schemas for keyword, below in each.items()]
        properties: dict[str, list[Any]] = {}
        for keyword, below in keywords:
            if keyword == "properties" and isinstance(below, Mapping):
                for name, schema in below.items():
                    properties.setdefault(str(name), []).append(schema)
            elif keyword not in _READ | _NO_SCHEMA and not keyword.startswith("x-"):
                named = keyword in _BY_NAME and isinstance(below, Mapping)
                if self.fields(below.values() if named else _several(below), depth + 1):
                    raise UnfillableError(f"a field is marked in {keyword}")
        read = {name: self.fields(each, depth + 1) for name, each in properties.items()}
        items = [one for keyword, below in keywords if keyword == "items" for one in _several(below)]
        listed = (below for keyword, below in keywords if keyword == "required" and isinstance(below, list))
        return SessionFields(
            expression=next(iter(marks), ""),
            members={name: each for name, each in read.items() if each},
            items=self.fields(items, depth + 1) or None,
            required=frozenset(str(name) for names in listed for name in names),
            has_others=any(not each or each.has_others for each in read.values()),
        )


def _several(below: Any) -> list[Any]:
    return below if isinstance(below, list) else [below]
