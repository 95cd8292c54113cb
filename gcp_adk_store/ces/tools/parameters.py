"""Write arguments as an OpenAPI operation requires, beside values of the session and credentials."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self
from urllib.parse import quote

from pydantic.alias_generators import to_camel

from gcp_adk_store.errors import InvalidInputError

PLACES: Final = {
    "path": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Where parameters are, with the styles that they may have there, the default first."""
_CHARACTERS: Final = 64 * 1024
"""The most of one argument in a URL or a header."""
_BETWEEN: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}


class ArgumentsError(ValueError):
    """The arguments of a call do not make a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument outside of the body."""

    name: str
    place: str
    """``path``, ``query``, ``header`` or ``cookie``."""
    required: bool
    style: str
    """``json`` where the document gives it a media type; else one of OpenAPI's."""
    explode: bool
    """Whether each item of a list or an object is a value of its own."""

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Parameter":
        """Return the parameter that *spec* describes.

        Raises:
            ValueError: *spec* is not a parameter.
        """
        name, place = spec.get("name"), spec.get("in")
        if not (isinstance(name, str) and isinstance(place, str) and place in PLACES):
            raise ValueError(f"an unknown kind of parameter {str(name)[:40]!r} in {str(place)[:40]!r}")
        style = "json" if spec.get("content") else str(spec.get("style") or PLACES[place][0])
        return cls(
            name=name,
            place=place,
            required=bool(spec.get("required")) or place == "path",
            style=style,
            explode=bool(spec.get("explode", style == "form")),
        )

    @property
    def spreads(self) -> bool:
        """Whether the members of an object are sent under their own names."""
        return self.place == "query" and self.explode and self.style not in ("json", "deepObject")

    @property
    def parts_fields(self) -> bool:
        """Whether no value of a field can end it and begin another field."""
        return self.style == "json" or (
            self.place == "query" and (self.explode or self.style == "deepObject")
        )

    def segment(self, value: Any) -> str:
        """Return *value* as a part of the path, which stays in its place.

        Raises:
            ArgumentsError: it would make it another path.
        """
        text = self.joined(value)
        if text in {"", ".", ".."}:
            raise ArgumentsError(f"the argument {self.name} cannot be {text!r}")
        return quote(text, safe="")

    def cookie(self, value: Any) -> str:
        """Return *value* as a cookie."""
        return f"{self.name}={quote(self.joined(value))}"

    def query(self, value: Any) -> list[tuple[str, str]]:
        """Return *value* as names and values of a query."""
        if self.style == "deepObject" and isinstance(value, dict):
            return [(f"{self.name}[{key}]", text_of(below)) for key, below in value.items()]
        if self.explode and self.style != "json":
            if isinstance(value, list):
                return [(self.name, text_of(each)) for each in value]
            if isinstance(value, dict):
                return [(key, text_of(below)) for key, below in value.items()]
        return [(self.name, self.joined(value))]

    def joined(self, value: Any) -> str:
        """Return *value* as one text, such as that of a header.

        Raises:
            ArgumentsError: it is too long, is not UTF-8, or its style is not supported.
        """
        text = self._encoded(value)
        try:
            text.encode()
        except UnicodeEncodeError as exc:
            raise ArgumentsError(f"the argument {self.name} has a lone surrogate at {exc.start}") from exc
        if len(text) > _CHARACTERS:
            raise ArgumentsError(
                f"the argument {self.name} has {len(text):,} characters; it may have {_CHARACTERS:,}"
            )
        return text

    def _encoded(self, value: Any) -> str:
        if self.style == "json":
            return json.dumps(value)
        if self.style not in PLACES[self.place]:
            raise ArgumentsError(
                f"the argument {self.name} has the style {self.style}, which is not supported"
            )
        between = _BETWEEN.get(self.style, ",")
        if isinstance(value, list):
            return between.join(map(text_of, value))
        if isinstance(value, dict):
            inner = "=" if self.explode else between
            return between.join(f"{key}{inner}{text_of(below)}" for key, below in value.items())
        return text_of(value)


def text_of(value: Any) -> str:
    """Return *value* as text: a value that is not text, as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


MARK: Final = "x-ces-session-context"
"""What a document gives a parameter that is of the session."""

_FIELDS: Final = ("project_id", "project_number", "location", "app_id", "session_id")
_EXPRESSION: Final = re.compile(
    rf"\$context\.(?:(?P<field>{'|'.join(_FIELDS)})|variables(?:\.(?P<variable>\w+))?)"
)


class CredentialMissingError(ArgumentsError):
    """A toolset authenticates itself by something that is missing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionValues:
    """What requests can have of a session."""

    context: Mapping[str, Any] = field(default_factory=dict)
    """The fields of ``context``, as user code gets them, in camelCase."""
    variables: Mapping[str, Any] = field(default_factory=dict)

    def value(self, expression: str) -> Any:
        """Return what ``$context.session_id``, ``$context.variables.name`` and so on are; None if missing."""
        found = _EXPRESSION.fullmatch(expression)
        if found is None:
            return None
        if found["field"]:
            return self.context.get(to_camel(found["field"]))
        return self.variables.get(found["variable"]) if found["variable"] else dict(self.variables)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """How a toolset authenticates itself: by one header, or one parameter of the query."""

    kind: str
    """The member of ``apiAuthentication``, such as ``apiKeyConfig``."""
    toolset: str
    """For messages."""
    place: Literal["header", "query"] = "header"
    name: str = "Authorization"
    expression: str = ""
    """What of the session is the credential; empty for one that is given."""
    credential: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, config: Mapping[str, Any], toolset: str, credential: str | None = None) -> Self | None:
        """Return what ``apiAuthentication`` declares; None for nothing.

        Args:
            config: ``apiAuthentication`` of a toolset.
            toolset: Its name.
            credential: The key or the token. The platform has it in Secret Manager, or makes it.

        Raises:
            InvalidInputError: *config* is malformed.
        """
        found = next(
            ((kind, settings) for kind, settings in config.items() if isinstance(settings, Mapping)), None
        )
        if found is None:
            return cls(kind="a credential", toolset=toolset, credential=credential) if credential else None
        kind, settings = found
        match kind:
            case "apiKeyConfig":
                name = settings.get("keyName")
                if not isinstance(name, str) or not name:
                    raise InvalidInputError(f"apiKeyConfig of the toolset {toolset} has no keyName")
                in_query = settings.get("requestLocation") == "QUERY_STRING"
                return cls(
                    kind=kind,
                    toolset=toolset,
                    place="query" if in_query else "header",
                    name=name,
                    credential=credential,
                )
            case "bearerTokenConfig" if credential is None:
                token = str(settings.get("token", ""))
                if not token.startswith("$context.variables."):
                    raise InvalidInputError(
                        f"bearerTokenConfig of the toolset {toolset} has a token other than "
                        "$context.variables.NAME"
                    )
                return cls(kind=kind, toolset=toolset, expression=token)
            case _:
                return cls(kind=kind, toolset=toolset, credential=credential)

    def sent(self, session: SessionValues) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Return the headers and the parameters of the query to send.

        Raises:
            CredentialMissingError: the credential was not given, or the session does not have it.
        """
        value = session.value(self.expression) if self.expression else self.credential
        if value in (None, ""):
            way = (
                f"set the variable {self.expression.removeprefix('$context.variables.')}"
                if self.expression
                else f"give one with --credential {self.toolset}=VARIABLE, or a mock"
            )
            raise CredentialMissingError(
                f"the toolset {self.toolset} authenticates itself by {self.kind}, and has no credential "
                f"here; {way}"
            )
        text = text_of(value)
        if self.kind != "apiKeyConfig":
            text = f"Bearer {text}"
        return ({self.name: text}, []) if self.place == "header" else ({}, [(self.name, text)])
