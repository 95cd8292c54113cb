"""Call the operations that an OpenAPI document describes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
import yaml

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.runtime.fetching import Outgoing
from gcp_adk_store.runtime.headers import header_fault

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_NOT_IN_NAMES: Final = re.compile(r"\W+", re.ASCII)
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_WHOLE_BODY: Final = ("body", "requestBody")
_MOST_REFERENCES: Final = 32


class ArgumentsError(ValueError):
    """The arguments of a call do not make a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument that is no part of the body."""

    name: str
    place: str
    """``path``, ``query``, ``header`` or ``cookie``."""
    required: bool
    explode: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What one method of one path does."""

    name: str
    """Its operationId, as an identifier; without one the method and the path."""
    method: str
    path: str
    server: str
    description: str
    parameters: tuple[Parameter, ...]
    body: str | None
    """Media type of the body that it takes."""
    body_required: bool

    def request(self, args: Mapping[str, Any], headers: Mapping[str, str]) -> Outgoing:
        """Return the request that *args* make; those that are no parameter are the body's fields.

        Raises:
            ArgumentsError: one is missing, or there is one too many.
        """
        missing = [each.name for each in self.parameters if each.required and args.get(each.name) is None]
        if missing:
            raise ArgumentsError(f"missing arguments: {', '.join(missing)}")
        given = {
            place: [each for each in self._given(args) if each[0].place == place]
            for place in ("path", "query", "header", "cookie")
        }
        path = self.path
        for parameter, value in given["path"]:
            path = path.replace(f"{{{parameter.name}}}", _segment(parameter.name, value))
        sent = {parameter.name: _text(value) for parameter, value in given["header"]}
        if given["cookie"]:
            sent["Cookie"] = "; ".join(
                f"{each.name}={quote(_text(value))}" for each, value in given["cookie"]
            )
        body = self._body(args)
        if body is not None and self.body not in {None, "application/x-www-form-urlencoded"}:
            sent["Content-Type"] = str(self.body)
        as_form = self.body == "application/x-www-form-urlencoded" and isinstance(body, dict)
        is_json = self.body is not None and "json" in self.body
        return Outgoing(
            method=self.method.upper(),
            url=self.server.rstrip("/") + path,
            params=[pair for parameter, value in given["query"] for pair in _query(parameter, value)] or None,
            headers={**sent, **headers},
            data=body if as_form else None if is_json or body is None else _text(body),
            json=body if is_json else None,
            leaves_origin=False,
        )

    def _given(self, args: Mapping[str, Any]) -> Iterator[tuple[Parameter, Any]]:
        for parameter in self.parameters:
            if args.get(parameter.name) is not None:
                yield parameter, args[parameter.name]

    def _body(self, args: Mapping[str, Any]) -> Any:
        named = {parameter.name for parameter in self.parameters}
        fields = {name: value for name, value in args.items() if name not in named}
        if self.body is None:
            if fields:
                raise ArgumentsError(f"unknown arguments: {', '.join(sorted(fields))}")
            return None
        if len(fields) == 1 and next(iter(fields)) in _WHOLE_BODY:
            return next(iter(fields.values()))
        if self.body_required and not fields:
            raise ArgumentsError("missing arguments: the body has no field")
        return fields or None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiTool:
    """The operations of an OpenAPI 3 document, each a tool ``{display_name}_{operationId}``.

    Raises:
        InvalidInputError: one of ``headers`` is none.
    """

    display_name: str
    operations: Mapping[str, Operation]
    """By the name of the tool."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request, such as a key of the API; the calling code never sees them."""

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if fault := header_fault(name, value):
                raise InvalidInputError(f"headers of {self.display_name}: {fault}")

    @classmethod
    def from_spec(
        cls,
        spec: Mapping[str, Any] | str | Path,
        *,
        display_name: str | None = None,
        server: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the tool of a document, or of a file of JSON or YAML that holds one.

        Args:
            spec: The document, or the path of its file.
            display_name: By default the document's title, as an identifier.
            server: URL that the paths follow; by default the document's first one.
            headers: Sent with each request.

        Raises:
            InvalidInputError: it is no document that can be called.
        """
        document = _read(spec)
        title = _mapping(document.get("info"), "info").get("title", "")
        name = display_name or _identifier(str(title))
        if not name:
            raise InvalidInputError("the OpenAPI document has no title: give a display_name")
        operations = {f"{name}_{each.name}": each for each in _operations(document, server)}
        if not operations:
            raise InvalidInputError(f"the OpenAPI document of {name} has no operations")
        return cls(display_name=name, operations=operations, headers=dict(headers or {}))


def _read(spec: Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    if isinstance(spec, Mapping):
        return spec
    try:
        text = Path(spec).read_text(encoding="utf-8")
        return _mapping(yaml.safe_load(text), str(spec))  # JSON is YAML
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise InvalidInputError(f"{spec} cannot be read as an OpenAPI document: {exc}") from exc


def _operations(document: Mapping[str, Any], server: str | None) -> Iterator[Operation]:
    for path, found in _mapping(document.get("paths"), "paths").items():
        item = _resolved(document, found, path)
        for method in _METHODS:
            if method in item:
                yield _operation(document, path, item, method, server)


def _operation(
    document: Mapping[str, Any], path: str, item: Mapping[str, Any], method: str, server: str | None
) -> Operation:
    where = f"{method.upper()} {path}"
    told = _mapping(item[method], where)
    parameters: dict[tuple[str, str], Parameter] = {}
    for found in (*item.get("parameters", ()), *told.get("parameters", ())):
        each = _resolved(document, found, where)
        parameter = Parameter(
            name=str(each["name"]),
            place=str(each["in"]),
            required=bool(each.get("required")),
            explode=bool(each.get("explode", each.get("style", "form") == "form")),
        )
        parameters[parameter.name, parameter.place] = parameter
    body = _resolved(document, told.get("requestBody", {}), where)
    return Operation(
        name=_identifier(str(told.get("operationId") or f"{method}_{_identifier(path)}")),
        method=method,
        path=path,
        server=server or _server(told, item, document),
        description=str(told.get("description") or told.get("summary") or ""),
        parameters=tuple(parameters.values()),
        body=_media_type(body.get("content", {})),
        body_required=bool(body.get("required")),
    )


def _server(*places: Mapping[str, Any]) -> str:
    for place in places:
        for each in place.get("servers", ())[:1]:
            defaults = {name: str(told["default"]) for name, told in each.get("variables", {}).items()}
            url = _VARIABLE.sub(partial(_default, defaults), str(each["url"]))
            if httpx.URL(url).is_absolute_url:
                return url
    raise InvalidInputError("the OpenAPI document names no server with a host: give a server")


def _default(defaults: Mapping[str, str], found: re.Match[str]) -> str:
    return defaults.get(found[1], found[0])


def _media_type(content: Mapping[str, Any]) -> str | None:
    for media_type in content:
        if "json" in media_type:
            return str(media_type)
    return next(iter(content), None)


def _resolved(document: Mapping[str, Any], node: Any, where: str) -> Mapping[str, Any]:
    """Return *node*, or what it refers to in *document*."""
    for _ in range(_MOST_REFERENCES):
        found = _mapping(node, where)
        reference = found.get("$ref")
        if reference is None:
            return found
        if not str(reference).startswith("#/"):
            raise InvalidInputError(f"{where}: {reference} is outside of the document, which is not read")
        node = document
        for step in str(reference)[2:].split("/"):
            node = _mapping(node, where).get(step.replace("~1", "/").replace("~0", "~"))
    raise InvalidInputError(f"{where}: the references of the document go round in circles")


def _mapping(node: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping):
        raise InvalidInputError(f"the OpenAPI document has no object at {where}")
    return node


def _identifier(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text).strip("_")


def _segment(name: str, value: Any) -> str:
    text = ",".join(map(_text, value)) if isinstance(value, list) else _text(value)
    if text in {"", ".", ".."}:  # each would make it another path
        raise ArgumentsError(f"the argument {name} cannot be {text!r}")
    return quote(text, safe="")


def _query(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, list):
        texts = [_text(each) for each in value]
        return [(parameter.name, each) for each in (texts if parameter.explode else [",".join(texts)])]
    if isinstance(value, dict) and parameter.explode:
        return [(name, _text(each)) for name, each in value.items()]
    return [(parameter.name, _text(value))]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
