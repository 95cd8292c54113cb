"""Find the fields of requests that are values of the session, at every depth, and fill them."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

from gcp_adk_store.ces.tools.parameters import MARK, ArgumentsError, SessionValues, expression_of, text_of
from gcp_adk_store.errors import InvalidInputError

Resolve: TypeAlias = Callable[[str], Mapping[str, Any]]
"""Returns the schema at a reference; raises InvalidInputError where there is nothing."""

_DEPTH: Final = 64
_STEPS: Final = 100_000
"""Pairs of fields that one value combines. References can double the fields at each level."""
_CHARACTERS: Final = 2 * 1024 * 1024
"""What the session gives of one request at most: as many as its body may have by default."""
_OF_VALUE: Final = 200
_OF_OBJECT: Final = 20
"""What a value costs beside its own characters, and what an object or a list costs: some 10,000 values, or
100,000 objects and lists, are all of a request, and take some 100 ms."""
_TOGETHER: Final = ("allOf", "anyOf", "oneOf")
_READ: Final = frozenset({"$ref", "properties", "required", "items", *_TOGETHER})
_NO_SCHEMA: Final = frozenset(
    {"$defs", "const", "default", "definitions", "discriminator", "enum", "example", "examples"}
)
"""Keywords whose values are data, or schemas that count only where something refers to them."""
_BY_NAME: Final = frozenset({"patternProperties", "dependentSchemas", "dependencies"})
"""Keywords whose values have schemas by the names of fields, and not by keywords."""
_BRACKET: Final = re.compile(r"[\[\]]")
_AS_UNDERSCORE: Final = re.compile(r"[.\[\s]")
"""What PHP reads as an underscore in the name of a field."""


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


class UnfillableError(Exception):
    """A document marks a field that cannot be filled in every request."""


@dataclass(slots=True)
class Filling:
    """What one request takes of a session: a list of the caller's repeats it for each item."""

    session: SessionValues
    _sizes: dict[str, int] = field(default_factory=dict)
    _left: int = _CHARACTERS

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

    def value(self, expression: str) -> Any:
        """Return what *expression* is in the session, as `SessionValues.value`; raises as :meth:`spend`."""
        value = self.session.value(expression)
        if expression not in self._sizes:
            self._sizes[expression] = _OF_VALUE + len(text_of(value))
        self.spend(self._sizes[expression])
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFields:
    """What of a value the session gives, as its schema says; the rest is the caller's.

    Marks of all alternatives (``allOf``, ``anyOf``, ``oneOf``) count: no field that one of them marks is ever
    the caller's.
    """

    expression: str = ""
    """Of the value itself."""
    members: Mapping[str, Self] = field(default_factory=dict)
    """Members of an object that the session gives, or that have something of it."""
    items: Self | None = None
    """Of each item of a list."""
    required: frozenset[str] = frozenset()
    has_others: bool = False
    """Whether the object has members that are the caller's too."""

    def __bool__(self) -> bool:
        return bool(self.expression or self.members or self.items)

    def filled(self, value: Any, session: Filling, where: str) -> Any:
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
        raise ArgumentsError(
            f"{where} must be {' or '.join(kinds)}, not {type(value).__name__}, "
            "because the session gives fields of it"
        )

    def _members(self, value: Mapping[str, Any], session: Filling, where: str) -> Iterator[tuple[str, Any]]:
        others = {name: each for name, each in value.items() if name not in self.members}
        require_free(others, self.members, where)
        yield from others.items()
        for name, each in self.members.items():
            given, wanted = value.get(name), name in self.required or not each.has_others
            made = {} if given is None and wanted and each.members else given
            found = each.filled(made, session, f"{name} of {where}")
            if found is not None if each.expression else found or name in value:
                yield name, found

    def merged(self, other: Self, spend: Callable[[], None]) -> Self:
        """Return the fields of a value that has those of both; it calls *spend* at each pair of fields.

        Raises:
            UnfillableError: they differ in which value of the session a field is, or *spend* raises it.
        """
        spend()
        if self.expression and other.expression and self.expression != other.expression:
            raise UnfillableError(f"one field is both {self.expression} and {other.expression}")
        members = dict(self.members)
        for name, each in other.members.items():
            members[name] = members[name].merged(each, spend) if name in members else each
        return type(self)(
            expression=self.expression or other.expression,
            members=members,
            items=other.items
            if self.items is None
            else self.items.merged(other.items or type(self)(), spend),
            required=self.required | other.required,
            has_others=self.has_others or other.has_others,
        )


_NONE: Final = SessionFields()


def is_marked(document: Any) -> bool:
    """Return whether *document* marks anything as a value of the session."""
    waiting, seen = [document], {id(document)}
    while waiting:
        each = waiting.pop()
        below = [*each.values()] if isinstance(each, Mapping) else each if isinstance(each, list) else []
        if isinstance(each, Mapping) and MARK in each:
            return True
        fresh = [one for one in below if isinstance(one, Mapping | list) and id(one) not in seen]
        seen |= {*map(id, fresh)}
        waiting += fresh
    return False


def session_fields(schemas: list[Any], resolve: Resolve, where: str) -> SessionFields:
    """Return the fields of a value that has all *schemas*.

    Raises:
        UnfillableError: a marked field cannot be filled in every request.
        InvalidInputError: a mark is not an expression that is known.
    """
    return _Reading(resolve, where).all_of(schemas, 0)


@dataclass(slots=True)
class _Reading:
    """One pass over the schemas of a value."""

    resolve: Resolve
    where: str
    _referred: dict[str, SessionFields | None] = field(default_factory=dict)
    """By reference; None while it is read."""
    _recursive: set[str] = field(default_factory=set)
    _steps: int = 0

    def _spend(self) -> None:
        self._steps += 1
        if self._steps > _STEPS:
            raise UnfillableError(f"its schema combines more than {_STEPS:,} fields")

    def all_of(self, schemas: Any, depth: int) -> SessionFields:
        found = _NONE
        for each in schemas if isinstance(schemas, list) else ():
            found = found.merged(self._of(each, depth), self._spend)
        return found

    def _of(self, schema: Any, depth: int) -> SessionFields:
        if depth > _DEPTH:
            raise UnfillableError(f"its schema is nested deeper than {_DEPTH} levels")
        if not isinstance(schema, Mapping):
            return _NONE
        for keyword, below in schema.items():
            known = keyword in _READ or keyword in _NO_SCHEMA or str(keyword).startswith("x-")
            named = keyword in _BY_NAME and isinstance(below, Mapping)
            schemas = [*below.values()] if named else below if isinstance(below, list) else [below]
            if not known and self.all_of(schemas, depth + 1):
                raise UnfillableError(f"a field is marked in {keyword}")
        found = self._own(schema, depth).merged(self._reference(schema.get("$ref"), depth), self._spend)
        for keyword in _TOGETHER:
            found = found.merged(self.all_of(schema.get(keyword), depth + 1), self._spend)
        return found

    def _own(self, schema: Mapping[str, Any], depth: int) -> SessionFields:
        properties, items = schema.get("properties"), schema.get("items")
        required = schema.get("required")
        read = {
            str(name): self._of(each, depth + 1)
            for name, each in (properties.items() if isinstance(properties, Mapping) else ())
        }
        return SessionFields(
            expression=expression_of(schema, self.where),
            members={name: each for name, each in read.items() if each},
            items=self.all_of(items if isinstance(items, list) else [items], depth + 1) or None,
            required=frozenset(map(str, required if isinstance(required, list) else ())),
            has_others=any(not each or each.has_others for each in read.values()),
        )

    def _reference(self, reference: Any, depth: int) -> SessionFields:
        if not isinstance(reference, str):
            return _NONE
        if reference not in self._referred:
            self._referred[reference] = None
            try:
                schema = self.resolve(reference)
            except InvalidInputError as exc:
                if reference.startswith("#"):
                    raise UnfillableError(f"{reference} is not found, and could mark fields") from exc
                schema = {}  # outside of the document: it marks nothing here
            found = self._referred[reference] = self._of(schema, depth + 1)
            if found and reference in self._recursive:
                raise UnfillableError(f"a field is marked in {reference}, which contains itself")
        found_before = self._referred[reference]
        if found_before is None:
            self._recursive.add(reference)
        return found_before or _NONE
