"""Write arguments as an OpenAPI operation requires, beside values of the session and credentials."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self
from urllib.parse import quote

from gcp_adk_store.ces.http.fetching import Outgoing
from gcp_adk_store.ces.tools.session_fields import (
    ArgumentsError,
    SessionFields,
    SessionValues,
    schemas_of,
    text_of,
)
from gcp_adk_store.errors import InvalidInputError

_STYLES: Final = {
    "path": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Where parameters are, with the styles that they may have there, the default first."""
_CHARACTERS: Final = 64 * 1024
"""The most of one argument in a URL or a header."""
_BETWEEN: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}


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
    schemas: tuple[Any, ...] = field(default=(), repr=False)
    """All that the document says of its value, with what it marks."""
    of_session: SessionFields = field(default_factory=SessionFields)
    """What the session gives of it."""

    @classmethod
    def of(cls, spec: Mapping[str, Any], where: str) -> Self:
        """Return the parameter that *spec* describes at *where*.

        Raises:
            InvalidInputError: *spec* is not a parameter.
        """
        name, place = spec.get("name"), spec.get("in")
        if not (isinstance(name, str) and isinstance(place, str) and place in _STYLES):
            found = f"{str(name)[:40]!r} in {str(place)[:40]!r}"
            says = f"the OpenAPI document has at {where} an unknown kind of parameter {found}"
            raise InvalidInputError(says)
        content = spec.get("content")
        style = "json" if content else str(spec.get("style") or _STYLES[place][0])
        return cls(
            name=name,
            place=place,
            required=bool(spec.get("required")) or place == "path",
            style=style,
            explode=bool(spec.get("explode", style == "form")),
            schemas=schemas_of(spec, content.values() if isinstance(content, Mapping) else ()),
        )

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
            says = f"has {len(text):,} characters; it may have {_CHARACTERS:,}"
            raise ArgumentsError(f"the argument {self.name} {says}")
        return text

    def _encoded(self, value: Any) -> str:
        if self.style == "json":
            return json.dumps(value)
        if self.style not in _STYLES[self.place]:
            says = f"has the style {self.style}, which is not supported"
            raise ArgumentsError(f"the argument {self.name} {says}")
        between = _BETWEEN.get(self.style, ",")
        if isinstance(value, list):
            return between.join(map(text_of, value))
        if isinstance(value, dict):
            inner = "=" if self.explode else between
            return between.join(f"{key}{inner}{text_of(below)}" for key, below in value.items())
        return text_of(value)


class CredentialMissingError(ArgumentsError):
    """A toolset authenticates itself by something that is missing here."""


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
        declared = ((kind, settings) for kind, settings in config.items() if isinstance(settings, Mapping))
        kind, settings = next(declared, ("", {}))
        given: dict[str, Any] = {"credential": credential}
        if kind == "apiKeyConfig":
            in_query = settings.get("requestLocation") == "QUERY_STRING"
            given |= {"name": settings.get("keyName"), "place": "query" if in_query else "header"}
            if not isinstance(given["name"], str) or not given["name"]:
                raise InvalidInputError(f"apiKeyConfig of the toolset {toolset} has no keyName")
        elif kind == "bearerTokenConfig" and credential is None:
            given["expression"] = str(settings.get("token", ""))
            if not given["expression"].startswith("$context.variables."):
                says = "has a token other than $context.variables.NAME"
                raise InvalidInputError(f"bearerTokenConfig of the toolset {toolset} {says}")
        elif not kind and not credential:
            return None
        return cls(kind=kind or "a credential", toolset=toolset, **given)

    def added(self, outgoing: Outgoing, session: SessionValues) -> Outgoing:
        """Return *outgoing* with the credential, in place of an argument or a header of its name.

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
            says = f"authenticates itself by {self.kind}, and has no credential here; {way}"
            raise CredentialMissingError(f"the toolset {self.toolset} {says}")
        text = text_of(value) if self.kind == "apiKeyConfig" else f"Bearer {text_of(value)}"
        if self.place == "header":
            return replace(outgoing, headers={**outgoing.headers, self.name: text})
        others = [each for each in outgoing.params or () if each[0] != self.name]
        return replace(outgoing, params=[*others, (self.name, text)])
