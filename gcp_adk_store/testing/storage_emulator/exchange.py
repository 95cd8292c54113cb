"""Requests and answers of the emulator: their kinds, names, errors and projections."""

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Any, Final, Self, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

CLIENT_CLOSED_REQUEST: Final = 499  # What a cancelled resumable upload answers.

_REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_MODIFIED: "notModified",
    HTTPStatus.BAD_REQUEST: "invalid",
    HTTPStatus.NOT_FOUND: "notFound",
    HTTPStatus.CONFLICT: "conflict",
    HTTPStatus.PRECONDITION_FAILED: "conditionNotMet",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "requestedRangeNotSatisfiable",
    HTTPStatus.INTERNAL_SERVER_ERROR: "internalError",
    HTTPStatus.NOT_IMPLEMENTED: "notImplemented",
}
_XML_CODES: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "InvalidArgument",
    HTTPStatus.NOT_FOUND: "NoSuchKey",
    HTTPStatus.PRECONDITION_FAILED: "PreconditionFailed",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "InvalidRange",
    HTTPStatus.NOT_IMPLEMENTED: "NotImplemented",
}
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ApiError(Exception):
    """The request is answered with an error; storage was not changed by it.

    Args:
        status: of the response.
        message: for people.
        headers: of the response.
        code: the XML API's name for it, if *status* alone does not decide it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        code: str | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.code = code or _XML_CODES.get(status, "InternalError")

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return the JSON document that accompanies an error status."""
    return {
        "error": {
            "code": status,
            "message": message,
            "errors": [{"domain": "global", "reason": _REASONS.get(status, "error"), "message": message}],
        }
    }


def xml_error_body(code: str, message: str) -> bytes:
    """Return the XML document that accompanies an error of the XML API."""
    text = html.escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", message), quote=False)
    document = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>"
    return f"<?xml version='1.0' encoding='UTF-8'?>{document}".encode()


def bad_request(message: str, *, code: str | None = None) -> ApiError:
    """Return the error for a request that can never succeed as it is."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, code=code)


def not_found(message: str, *, code: str | None = None) -> ApiError:
    """Return the error for a bucket, object, generation or upload that is not there."""
    return ApiError(HTTPStatus.NOT_FOUND, message, code=code)


def not_emulated(what: str) -> ApiError:
    """Return the error for what production does and this emulator would only pretend to."""
    return ApiError(HTTPStatus.NOT_IMPLEMENTED, f"Not supported by this emulator: {what}")


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
    def parse(cls, *, method: str, target: str, headers: Message, body: bytes, base_url: str) -> Self:
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


Kind = TypeVar("Kind")


def of_kind(kind: type[Kind], name: str, value: object) -> Kind:
    """Return *value* of the field *name*, an empty one for null; refuse another *kind* with 400."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise bad_request(f"Invalid value for {name}: {value!r:.80}")
    return value


MAX_OBJECT_NAME_BYTES: Final = 1024
_RESERVED_PREFIX: Final = ".well-known/acme-challenge/"
_BUCKET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


def check_object_name(name: object) -> str:
    """Return *name* if Cloud Storage accepts it for a new object, or refuse it with 400."""
    if not isinstance(name, str) or not name:
        raise bad_request("Required parameter: name")
    if name in {".", ".."} or "\r" in name or "\n" in name or name.startswith(_RESERVED_PREFIX):
        raise bad_request(f"Invalid object name: {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as exc:
        # JSON can encode a lone surrogate; UTF-8 cannot.
        raise bad_request(f"Invalid object name: {name!r}") from exc
    if size > MAX_OBJECT_NAME_BYTES:
        raise bad_request(f"An object name of {size} bytes exceeds the limit of {MAX_OBJECT_NAME_BYTES}")
    return name


def check_bucket_name(name: object) -> str:
    """Return *name* if it is a legal bucket name, or refuse it with 400."""
    if not isinstance(name, str) or not _BUCKET_NAME.fullmatch(name) or ".." in name:
        raise bad_request(f"Invalid bucket name: {name!r}")
    return name


_KEY_NAME: Final = re.compile(
    r"projects/[^/\s]+/locations/[a-z0-9-]+/keyRings/[\w-]{1,63}/cryptoKeys/[\w-]{1,63}", re.ASCII
)


def key_fields(name: str | None) -> JsonObject:
    """Return what writing an object under the key *name* adds to its resource: the key's version.

    Raises:
        ApiError: 400 when *name* does not name a key.
    """
    if not name:
        return {}
    if not _KEY_NAME.fullmatch(name):
        raise bad_request(f"Invalid Cloud KMS key name: {name!r}")
    return {"kmsKeyName": f"{name}/cryptoKeyVersions/1"}


Mask: TypeAlias = dict[str, "Mask"]
"""Selected names; an empty mask selects everything below."""

_TOKEN: Final = re.compile(r"[^,()/\s]+|[,()/]")


def parse_fields(text: str) -> Mask:
    """Parse a selection such as ``items(name,metadata/key),nextPageToken``.

    Raises:
        ApiError: 400 when the text is not a selection.
    """
    parser = _Parser(text)
    try:
        mask = parser.selectors()
    except RecursionError as exc:
        raise parser.error() from exc
    if parser.tokens:
        raise parser.error()
    return mask


def project(resource: JsonObject, mask: Mask) -> JsonObject:
    """Return the part of *resource* that *mask* selects; lists are projected item by item."""
    if "*" in mask:
        return {name: _below(value, mask.get(name, mask["*"])) for name, value in resource.items()}
    return {name: _below(resource[name], below) for name, below in mask.items() if name in resource}


def _below(value: Any, mask: Mask) -> Any:
    if not mask:
        return value
    if isinstance(value, list):
        return [_below(item, mask) for item in value]
    return project(value, mask) if isinstance(value, dict) else value


def _widen(one: Mask, other: Mask) -> Mask:
    """Return the mask that selects what either does."""
    if not one or not other:
        return {}
    both = {**one, **other}
    return {
        name: _widen(one[name], other[name]) if name in one and name in other else below
        for name, below in both.items()
    }


class _Parser:
    """Descend through the tokens, consuming from the end of a reversed list."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)[::-1]

    def error(self) -> Exception:
        return bad_request(f"Invalid field selection {self.text}")

    def selectors(self) -> Mask:
        mask: Mask = {}
        while True:
            name, below = self.selector()
            mask[name] = _widen(mask[name], below) if name in mask else below
            if not self.accept(","):
                return mask

    def selector(self) -> tuple[str, Mask]:
        name = self.tokens.pop() if self.tokens else ""
        if not name or name in ",()/":
            raise self.error()
        if self.accept("/"):
            child, below = self.selector()
            return name, {child: below}
        if self.accept("("):
            below = self.selectors()
            if not self.accept(")"):
                raise self.error()
            return name, below
        return name, {}

    def accept(self, token: str) -> bool:
        if self.tokens and self.tokens[-1] == token:
            self.tokens.pop()
            return True
        return False
