"""Carry one request to its handler and one response back, apart from any socket."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from .errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

JsonObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, its body already read to the end."""

    method: str
    path: str
    """Still percent-encoded: a %2F belongs to a name, a slash separates names."""
    query: Mapping[str, list[str]]
    headers: Message
    body: bytes
    base_url: str
    params: Mapping[str, str] = field(default_factory=dict)
    """What the route found in the path, decoded."""

    @classmethod
    def parse(cls, *, method: str, target: str, headers: Message, body: bytes, base_url: str) -> Request:
        """Split *target* into path and query; an absolute URL is taken as its path."""
        parts = urlsplit(target if target.startswith("http") else f"http://host{target}")
        return cls(
            method=method,
            path=parts.path,
            query=parse_qs(parts.query, keep_blank_values=True),
            headers=headers,
            body=body,
            base_url=base_url,
        )

    def arg(self, name: str) -> str | None:
        """Return a query parameter, or None if it was not sent."""
        values = self.query.get(name)
        return values[0] if values else None

    def args(self) -> dict[str, str]:
        """Return every query parameter by its first value."""
        return {name: values[0] for name, values in self.query.items()}

    def flag(self, name: str) -> bool:
        """Return whether a boolean query parameter is set; Python's client sends "True"."""
        return (self.arg(name) or "").lower() in {"true", "1"}

    def header(self, name: str) -> str | None:
        """Return a request header, or None if it was not sent."""
        return self.headers.get(name)

    def json(self) -> JsonObject:
        """Return the body as a JSON object; an empty body is an empty object."""
        return parse_json(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One response, complete before any byte of it is sent."""

    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def json_response(
    value: JsonObject, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Return *value* as a JSON response."""
    return Response(
        status=status,
        headers={"Content-Type": "application/json; charset=UTF-8", **(headers or {})},
        body=json.dumps(value).encode(),
    )


def parse_json(body: bytes) -> JsonObject:
    """Return *body* as a JSON object, or refuse it with 400."""
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise bad_request("Parse Error") from exc
    if not isinstance(value, dict):
        raise bad_request("Parse Error: a JSON object is expected")
    return value
