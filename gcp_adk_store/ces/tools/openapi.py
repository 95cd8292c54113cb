"""Call the operations that an OpenAPI document describes.

ADK's ``OpenApiSpecParser`` does not fit: it renames operations (``getUser`` to ``get_user``), ignores their
servers, server variables and parameter styles, and copies each reference (5 s for 15 nested schemas).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Self
from urllib.parse import unquote

import httpx

from gcp_adk_store.ces.http.fetching import FORM, Outgoing, header_fault
from gcp_adk_store.ces.tools.parameters import (
    MARK,
    PLACES,
    ArgumentsError,
    Authentication,
    Parameter,
    SessionValues,
    text_of,
)
from gcp_adk_store.ces.tools.session_fields import (
    Filling,
    SessionFields,
    UnfillableError,
    is_marked,
    require_free,
    session_fields,
)
from gcp_adk_store.errors import InvalidInputError

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_NOT_IN_NAMES: Final = re.compile(r"\W+", re.ASCII)
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_WHOLE_BODY: Final = ("body", "requestBody")
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
    of_session: Mapping[str, SessionFields] = field(default_factory=dict)
    """What the session gives of parameters, by name."""
    body_of_session: SessionFields = field(default_factory=SessionFields)
    """What the session gives of the body."""
    unfillable: str = ""
    """Why the session cannot give what the document marks; such an operation is refused."""

    def request(
        self, args: Mapping[str, Any], headers: Mapping[str, str], session: SessionValues | None = None
    ) -> Outgoing:
        """Return the request for *args*; arguments that are not parameters are fields of the body.

        Args:
            args: The arguments. Those that are values of the session are replaced by these.
            headers: Sent too.
            session: By default one without a value.

        Raises:
            ArgumentsError: an argument is missing, unknown, or does not fit its place. Or the session
                gives too much of the request.
        """
        if self.unfillable:
            raise ArgumentsError(f"{self.name} is not called: {self.unfillable}")
        filling = Filling(session or SessionValues())
        hidden = {name for name, each in self.body_of_session.members.items() if each.expression}
        hidden -= {each.name for each in self.parameters}  # no body has a field of this name
        args = {name: value for name, value in args.items() if name not in hidden}
        args |= {
            name: each.filled(args.get(name), filling, f"the argument {name}")
            for name, each in self.of_session.items()
        }
        missing = [each for each in self.parameters if each.required and args.get(each.name) is None]
        if missing:
            unset = [
                f"{each.name}, which is {found.expression}"
                for each in missing
                if (found := self.of_session.get(each.name)) and found.expression
            ]
            if unset:
                raise ArgumentsError(f"the session has no value for {'; '.join(unset)}")
            raise ArgumentsError(f"missing arguments: {', '.join(each.name for each in missing)}")
        given = {place: [each for each in self._given(args) if each[0].place == place] for place in PLACES}
        path = self.path
        for parameter, value in given["path"]:
            path = path.replace(f"{{{parameter.name}}}", parameter.segment(value))
        sent = {parameter.name: parameter.joined(value) for parameter, value in given["header"]}
        if given["cookie"]:
            sent["Cookie"] = "; ".join(parameter.cookie(value) for parameter, value in given["cookie"])
        body = self._body(args, filling)
        is_json = self.body is not None and "json" in self.body
        as_form = self.body == FORM and isinstance(body, dict)
        if body is not None and not as_form:
            sent["Content-Type"] = str(self.body)
            if not is_json and not isinstance(body, str):
                raise ArgumentsError(f"the body is {self.body}: give it as text, in the argument body")
        return Outgoing(
            method=self.method.upper(),
            url=self.server.rstrip("/") + path,
            params=[pair for each in given["query"] for pair in self._query(*each)] or None,
            headers={**sent, **headers},
            data=None if is_json else body,
            json=body if is_json else None,
            leaves_origin=False,
        )

    def _given(self, args: Mapping[str, Any]) -> Iterator[tuple[Parameter, Any]]:
        for parameter in self.parameters:
            if args.get(parameter.name) is not None:
                yield parameter, args[parameter.name]

    def _query(self, parameter: Parameter, value: Any) -> list[tuple[str, str]]:
        """Return the names and values of one parameter; none has the name of what the session gives."""
        ours = self.of_session.get(parameter.name, SessionFields())
        if isinstance(value, Mapping) and not ours.expression:
            every = self.of_session.items() if parameter.spreads else ()
            taken = {*ours.members, *(name for one, each in every for name in (one, *each.members))}
            names = (str(name) for name in value if name not in ours.members)
            require_free(names, taken, f"the argument {parameter.name}")
        return parameter.query(value)

    def _body(self, args: Mapping[str, Any], filling: Filling) -> Any:
        """Return the body that is sent: what the caller gives, and in its place what the session gives."""
        body, ours = self._given_body(args), self.body_of_session
        if not ours:
            return body
        body = ours.filled({} if body is None else body, filling, "the body")
        if ours.expression and "json" not in str(self.body):
            return None if body is None else text_of(body)
        return None if body == {} else body

    def _given_body(self, args: Mapping[str, Any]) -> Any:
        named = {parameter.name for parameter in self.parameters}
        fields = {name: value for name, value in args.items() if name not in named}
        if self.body is None:
            if fields:
                raise ArgumentsError(f"unknown arguments: {', '.join(sorted(fields))}")
            return None
        if len(fields) == 1 and next(iter(fields)) in _WHOLE_BODY:
            return next(iter(fields.values()))
        if self.body_required and not (fields or self.body_of_session):
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
    fake: Any = field(default=None, repr=False)
    """A :class:`~gcp_adk_store.ces.FakeTools` that answers in place of its operations."""

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if fault := header_fault(name, value):
                raise InvalidInputError(f"headers of {self.display_name}: {fault}")

    def request(self, name: str, args: Mapping[str, Any], session: SessionValues) -> Outgoing:
        """Return the request for *args* of the tool *name*, with what its toolset authenticates itself by.

        Raises:
            ArgumentsError: an argument is missing, unknown, or does not fit its place.
            CredentialMissingError: the credential is missing.
        """
        operation = self.operations[name]
        if self.authentication is None:
            return operation.request(args, self.headers, session)
        more, params = self.authentication.sent(session)
        outgoing = operation.request(args, {**self.headers, **more}, session)
        ours = dict(params)  # no argument of this name is sent, as no header is
        given = [each for each in outgoing.params or () if each[0] not in ours]
        return replace(outgoing, params=[*given, *params] or None)

    @classmethod
    def from_spec(
        cls,
        document: Mapping[str, Any],
        *,
        display_name: str | None = None,
        server: str | None = None,
        headers: Mapping[str, str] | None = None,
        authentication: Authentication | None = None,
    ) -> Self:
        """Return the tool of a document.

        Args:
            document: As JSON or YAML has it.
            display_name: By default the document's title, as an identifier.
            server: URL that the paths follow; by default the document's first one.
            headers: Sent with each request.
            authentication: Sent with each request too.

        Raises:
            InvalidInputError: *document* is malformed, or has no operation that can be called.
        """
        title = _mapping(_mapping(document, "its root").get("info"), "info").get("title", "")
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


def operation_names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the operations of *document*; what is malformed has none."""
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, Mapping) else ():
        for method, spec in item.items() if isinstance(item, Mapping) else ():
            if method in _METHODS and isinstance(spec, Mapping):
                yield _name(spec, method, str(path))


def _name(spec: Mapping[str, Any], method: str, path: str) -> str:
    return identifier(str(spec.get("operationId") or f"{method}_{identifier(path)}"))


def _operations(document: Mapping[str, Any], server: str | None) -> Iterator[Operation]:
    marked = is_marked(document)
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
                yield _operation(document, path, item, method, server, marked=marked)


def _operation(
    document: Mapping[str, Any],
    path: str,
    item: Mapping[str, Any],
    method: str,
    server: str | None,
    *,
    marked: bool,
) -> Operation:
    where = f"{method.upper()} {path}"
    spec = _mapping(item[method], where)
    parameters: dict[tuple[str, str], tuple[Parameter, Mapping[str, Any]]] = {}
    for found in (*_list(item, "parameters", where), *_list(spec, "parameters", where)):
        described = _resolved(document, found, where)
        try:
            parameter = Parameter.of(described)
        except ValueError as exc:
            raise InvalidInputError(f"the OpenAPI document has at {where} {exc}") from exc
        parameters[parameter.name, parameter.place] = parameter, described
    body = _resolved(document, spec.get("requestBody") or {}, where)
    content = _mapping(body.get("content") or {}, where)
    media_type = _media_type(content)
    of_session: dict[str, Any] = {}
    try:
        if marked:
            of_session = _of_session(document, parameters.values(), body, media_type, where)
    except UnfillableError as exc:
        of_session = {"unfillable": f"{exc}, so the session cannot give its value ({MARK})"}
    return Operation(
        name=_name(spec, method, path),
        method=method,
        path=path,
        server=_absolute(server) if server else _server(spec, item, document),
        description=str(spec.get("description") or spec.get("summary") or ""),
        parameters=tuple(each for each, _ in parameters.values()),
        body=media_type,
        body_required=bool(body.get("required")),
        **of_session,
    )


def _of_session(
    document: Mapping[str, Any],
    parameters: Collection[tuple[Parameter, Mapping[str, Any]]],
    request_body: Mapping[str, Any],
    media_type: str | None,
    where: str,
) -> dict[str, Any]:
    """Return what the session gives of *parameters* and of the body, as an `Operation` has it.

    Raises:
        UnfillableError: it cannot give all that the document marks.
        InvalidInputError: a mark is not an expression that is known.
    """
    resolve = partial(_target, document, where=where)
    schemas_of: dict[str, list[Any]] = {}  # one argument is given to all parameters of its name
    for each, spec in parameters:
        media = spec.get("content")
        schemas = [one.get("schema") for one in (media.values() if isinstance(media, Mapping) else ())]
        schemas_of.setdefault(each.name, []).extend([_own_mark(spec), spec.get("schema"), *schemas])
    found = {name: session_fields(some, resolve, f"{where}, {name}") for name, some in schemas_of.items()}
    for each, _ in parameters:
        if (found[each.name].members or found[each.name].items) and not each.parts_fields:
            raise UnfillableError(f"a field is marked within {each.name}, whose fields are joined to a text")
    chosen = _mapping((request_body.get("content") or {}).get(media_type) or {}, where)
    marks = [_own_mark(each) for each in (request_body, chosen) if media_type]
    body = session_fields([*marks, chosen.get("schema")], resolve, where)
    is_form, is_deep = media_type == FORM, any(not each.expression for each in body.members.values())
    if media_type and "json" not in media_type and (body.items or body.members) and (is_deep or not is_form):
        raise UnfillableError(f"a field is marked within a body of {media_type}")
    return {"of_session": {name: some for name, some in found.items() if some}, "body_of_session": body}


def _own_mark(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return *described* as a schema that has nothing but its mark."""
    return {key: value for key, value in described.items() if key == MARK}


def _server(*places: Mapping[str, Any]) -> str:
    """Return the first server that one of *places* has, with the defaults of its variables."""
    listed = (each for place in places for each in _list(place, "servers", "servers"))
    spec = _mapping(next(listed, {}), "servers")
    defaults = {
        name: str(_mapping(variable, f"the variable {name}").get("default", ""))
        for name, variable in _mapping(spec.get("variables") or {}, "variables of servers").items()
    }
    url = _VARIABLE.sub(lambda found: defaults.get(found[1], found[0]), str(spec.get("url", "")))
    return _absolute(url)


def _absolute(server: str) -> str:
    """Return *server*, a URL that paths can follow."""
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as exc:
        raise InvalidInputError(f"the server of the OpenAPI document is not a URL: {exc}") from exc
    if not url.is_absolute_url or url.query or url.fragment or "{" in server:
        raise InvalidInputError("the OpenAPI document has no absolute URL as its server; give a server")
    return server


def _media_type(content: Mapping[str, Any]) -> str | None:
    media_types = [str(media_type) for media_type in content]
    return next((each for each in media_types if "json" in each), next(iter(media_types), None))


def _resolved(document: Mapping[str, Any], node: Any, where: str) -> Mapping[str, Any]:
    """Return *node*, or what it refers to in *document*; a mark beside a reference counts for that."""
    mark: dict[str, Any] = {}
    for _ in range(_MOST_REFERENCES):
        found = _mapping(node, where)
        mark = {**_own_mark(found), **mark}
        reference = found.get("$ref")
        if reference is None:
            return {**found, **mark}
        node = _target(document, str(reference), where)
    raise InvalidInputError(
        f"{where}: a reference of the document refers to itself, directly or through others"
    )


def _target(document: Mapping[str, Any], reference: str, where: str) -> Mapping[str, Any]:
    """Return what is at *reference*, which may itself refer to something."""
    if not reference.startswith("#/"):
        raise InvalidInputError(f"{where}: {reference} is outside of the document; copy it into the document")
    node: Any = document
    for step in unquote(reference[2:]).split("/"):
        if isinstance(node, list):
            node = {str(index): item for index, item in enumerate(node)}
        node = _mapping(node, where).get(step.replace("~1", "/").replace("~0", "~"))
    return _mapping(node, where)


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
