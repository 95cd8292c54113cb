"""Fill requests of toolsets with values of the session, which models do not see, and with credentials."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from gcp_adk_store.ces.tools.parameters import ArgumentsError, text_of
from gcp_adk_store.errors import InvalidInputError

MARK: Final = "x-ces-session-context"
"""What a document gives a parameter that is of the session."""

_EXPRESSION: Final = re.compile(
    r"\$context\.(?:(?P<field>project_id|project_number|location|app_id|session_id)"
    r"|variables(?:\.(?P<variable>\w+))?)"
)
_FIELDS: Final = {
    "project_id": "projectId",
    "project_number": "projectNumber",
    "location": "location",
    "app_id": "appId",
    "session_id": "sessionId",
}


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
            return self.context.get(_FIELDS[found["field"]])
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
        found = next(((kind, told) for kind, told in config.items() if isinstance(told, Mapping)), None)
        if found is None:
            return cls(kind="a credential", toolset=toolset, credential=credential) if credential else None
        kind, told = found
        match kind:
            case "apiKeyConfig":
                name = told.get("keyName")
                if not isinstance(name, str) or not name:
                    raise InvalidInputError(f"apiKeyConfig of the toolset {toolset} has no keyName")
                in_query = told.get("requestLocation") == "QUERY_STRING"
                return cls(
                    kind=kind,
                    toolset=toolset,
                    place="query" if in_query else "header",
                    name=name,
                    credential=credential,
                )
            case "bearerTokenConfig" if credential is None:
                token = str(told.get("token", ""))
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
