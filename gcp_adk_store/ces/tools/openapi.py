"""Call the operations that an OpenAPI document describes.

ADK's ``OpenApiSpecParser`` does not fit: it renames operations (``getUser`` to ``get_user``), ignores their
servers, server variables and parameter styles, and copies each reference (5 s for 15 nested schemas).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import httpx
import yaml

from gcp_adk_store.ces.http.fetching import Outgoing
from gcp_adk_store.ces.http.headers import header_fault
from gcp_adk_store.ces.tools.injection import Authentication, SessionValues, expression_of
from gcp_adk_store.ces.tools.parameters import PLACES, ArgumentsError, Parameter
from gcp_adk_store.errors import InvalidInputError

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_NOT_IN_NAMES: Final = re.compile(r"\W+", re.ASCII)
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_WHOLE_BODY: Final = ("body", "requestBody")
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_REFERENCES: Final = 32


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
    injected: Mapping[str, str] = field(default_factory=dict)
    """Fields of the body that are values of the session, by name: which."""

    def request(
        self, args: Mapping[str, Any], headers: Mapping[str, str], session: SessionValues | None = None
    ) -> Outgoing:
        """Return the request for *args*; arguments that are not parameters are fields of the body.

        Args:
            args: The arguments. Those that are values of the session are replaced by these.
            headers: Sent too.
            session: By default one without a value.

        Raises:
            ArgumentsError: an argument is missing, unknown, or does not fit its place.
        """
        session = session or SessionValues()
        of_session = {each.name: each.expression for each in self.parameters if each.expression}
        args = {name: value for name, value in args.items() if name not in {*of_session, *self.injected}}
        args |= {name: session.value(each) for name, each in of_session.items()}
        missing = [each for each in self.parameters if each.required and args.get(each.name) is None]
        if missing:
            unset = [f"{each.name}, which is {each.expression}" for each in missing if each.expression]
            if unset:
                raise ArgumentsError(f"the session has no value for {'; '.join(unset)}")
            raise ArgumentsError(f"missing arguments: {', '.join(each.name for each in missing)}")
        given = {place: [each for each in self._given(args) if each[0].place == place] for place in PLACES}
        path = self.path
        for parameter, value in given["path"]:
            path = path.replace(f"{{{parameter.name}}}", parameter.segment(value))
        sent = {parameter.name: parameter.header(value) for parameter, value in given["header"]}
        if given["cookie"]:
            sent["Cookie"] = "; ".join(parameter.cookie(value) for parameter, value in given["cookie"])
        body = self._body(args)
        if self.injected and (body is None or isinstance(body, dict)):
            values = {name: session.value(each) for name, each in self.injected.items()}
            found = {name: value for name, value in values.items() if value is not None}
            body = {**(body or {}), **found} or None
        is_json = self.body is not None and "json" in self.body
        as_form = self.body == _FORM and isinstance(body, dict)
        if body is not None and not as_form:
            sent["Content-Type"] = str(self.body)
            if not is_json and not isinstance(body, str):
                raise ArgumentsError(f"the body is {self.body}: give it as text, in the argument body")
        return Outgoing(
            method=self.method.upper(),
            url=self.server.rstrip("/") + path,
            params=[pair for parameter, value in given["query"] for pair in parameter.query(value)] or None,
            headers={**sent, **headers},
            data=None if is_json else body,
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
        if self.body_required and not (fields or self.injected):
            raise ArgumentsError("missing arguments: the body has no field")
        return fields or None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiTool:
    """The operations of an OpenAPI 3 document, each a tool ``{display_name}_{operationId}``.

    Raises:
        InvalidInputError: a header is not valid.
    """

    display_name: str
    operations: Mapping[str, Operation]
    """By the name of the tool."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request, such as a key of the API; the calling code never sees them."""
    authentication: Authentication | None = None
    """Sent with each request too."""

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
        authentication: Authentication | None = None,
    ) -> Self:
        """Return the tool of a document, or of a file of JSON or YAML that holds one.

        Args:
            spec: The document, or the path of its file.
            display_name: By default the document's title, as an identifier.
            server: URL that the paths follow; by default the document's first one.
            headers: Sent with each request.
            authentication: Sent with each request too.

        Raises:
            InvalidInputError: the document cannot be read, or has no operation that can be called.
        """
        document = _read(spec)
        title = _mapping(document.get("info"), "info").get("title", "")
        name = display_name or identifier(str(title))
        if not name:
            raise InvalidInputError("the OpenAPI document has no title; give a display_name")
        operations: dict[str, Operation] = {}
        for each in _operations(document, server):
            if operations.setdefault(f"{name}_{each.name}", each) is not each:
                raise InvalidInputError(f"the OpenAPI document of {name} has two operations {each.name}")
        if not operations:
            raise InvalidInputError(f"the OpenAPI document of {name} has no operations")
        return cls(
            display_name=name,
            operations=operations,
            headers=dict(headers or {}),
            authentication=authentication,
        )


def _read(spec: Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    if isinstance(spec, Mapping):
        return spec
    try:
        text = Path(spec).read_text(encoding="utf-8")
        return _mapping(yaml.safe_load(text), str(spec))  # JSON is YAML
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as exc:
        raise InvalidInputError(f"{spec} cannot be read as an OpenAPI document: {exc}") from exc


def _operations(document: Mapping[str, Any], server: str | None) -> Iterator[Operation]:
    for path, found in _mapping(document.get("paths"), "paths").items():
        if str(path).startswith("x-"):  # an extension of the document
            continue
        if not str(path).startswith("/"):
            raise InvalidInputError(
                f"the OpenAPI document has the path {str(path)[:40]!r}, which must begin with /"
            )
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
    for found in (*_list(item, "parameters", where), *_list(told, "parameters", where)):
        described = _resolved(document, found, where)
        try:
            parameter = Parameter.of(described, expression_of(described, where))
        except ValueError as exc:
            raise InvalidInputError(f"the OpenAPI document has at {where} {exc}") from exc
        parameters[parameter.name, parameter.place] = parameter
    body = _resolved(document, told.get("requestBody") or {}, where)
    content = _mapping(body.get("content") or {}, where)
    media_type = _media_type(content)
    return Operation(
        name=identifier(str(told.get("operationId") or f"{method}_{identifier(path)}")),
        method=method,
        path=path,
        server=_absolute(server) if server else _server(told, item, document),
        description=str(told.get("description") or told.get("summary") or ""),
        parameters=tuple(parameters.values()),
        body=media_type,
        body_required=bool(body.get("required")),
        injected=_injected(document, content.get(media_type) if media_type else None, where),
    )


def _injected(document: Mapping[str, Any], media: Any, where: str) -> dict[str, str]:
    """Return the fields of a body that are values of the session, and which they are."""
    schema = media.get("schema") if isinstance(media, Mapping) else None
    if not isinstance(schema, Mapping):
        return {}
    properties = _resolved(document, schema, where).get("properties")
    if not isinstance(properties, Mapping):
        return {}
    found = {
        str(name): expression_of(each, f"{where}, {name}")
        for name, each in properties.items()
        if isinstance(each, Mapping)
    }
    return {name: expression for name, expression in found.items() if expression}


def _server(*places: Mapping[str, Any]) -> str:
    for place in places:
        for each in _list(place, "servers", "servers")[:1]:
            told = _mapping(each, "servers")
            variables = _mapping(told.get("variables") or {}, "variables of servers")
            defaults = {
                name: str(_mapping(variable, f"the variable {name}").get("default", ""))
                for name, variable in variables.items()
            }
            return _absolute(_VARIABLE.sub(partial(_default, defaults), str(told.get("url", ""))))
    return _absolute("")


def _absolute(server: str) -> str:
    """Return *server*, a URL that paths can follow."""
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as exc:
        raise InvalidInputError(f"the server of the OpenAPI document is not a URL: {exc}") from exc
    if not url.is_absolute_url or url.query or url.fragment or "{" in server:
        raise InvalidInputError("the OpenAPI document has no absolute URL as its server; give a server")
    return server


def _default(defaults: Mapping[str, str], found: re.Match[str]) -> str:
    return defaults.get(found[1], found[0])


def _media_type(content: Mapping[str, Any]) -> str | None:
    media_types = [str(media_type) for media_type in content]
    return next((each for each in media_types if "json" in each), next(iter(media_types), None))


def _resolved(document: Mapping[str, Any], node: Any, where: str) -> Mapping[str, Any]:
    """Return *node*, or what it refers to in *document*."""
    for _ in range(_MOST_REFERENCES):
        found = _mapping(node, where)
        reference = found.get("$ref")
        if reference is None:
            return found
        if not str(reference).startswith("#/"):
            raise InvalidInputError(
                f"{where}: {reference} is outside of the document; copy it into the document"
            )
        node = document
        for step in str(reference)[2:].split("/"):
            node = _mapping(node, where).get(step.replace("~1", "/").replace("~0", "~"))
    raise InvalidInputError(
        f"{where}: a reference of the document refers to itself, directly or through others"
    )


def _mapping(node: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping):
        raise InvalidInputError(f"the OpenAPI document has no object at {where}")
    return node


def _list(node: Mapping[str, Any], name: str, where: str) -> Sequence[Any]:
    found = node.get(name)
    if found is not None and not isinstance(found, list | tuple):
        raise InvalidInputError(f"the OpenAPI document has no list of {name} at {where}")
    return found or ()


def identifier(text: str) -> str:
    """Return *text* as the platform makes it a part of a tool's name."""
    return _NOT_IN_NAMES.sub("_", text).strip("_")
