"""Call the operations that an OpenAPI document describes.

ADK's ``OpenApiSpecParser`` does not fit: it renames operations (``getUser`` to ``get_user``), ignores their
servers, server variables and parameter styles, and copies each reference (5 s for 15 nested schemas).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Self
from urllib.parse import quote, unquote

import httpx

from gcp_adk_store.ces.http.fetching import FORM, Outgoing, header_fault
from gcp_adk_store.ces.tools.parameters import Authentication, Parameter
from gcp_adk_store.ces.tools.session_fields import (
    MARK,
    ArgumentsError,
    SessionFields,
    SessionValues,
    UnfillableError,
    is_marked,
    own_mark,
    require_free,
    schemas_of,
    session_fields,
    text_of,
)
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import require_arguments, require_members

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_NOT_IN_NAMES: Final = re.compile(r"\W+", re.ASCII)
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_WHOLE_BODY: Final = frozenset({"body", "requestBody"})
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
    body_of_session: SessionFields = field(default_factory=SessionFields)
    """What the session gives of the body."""
    unfillable: str = ""
    """Why it is refused: a parameter of its path is not declared, or the session cannot give a value."""

    def request(
        self, args: Mapping[str, Any], headers: Mapping[str, str], session: SessionValues
    ) -> Outgoing:
        """Return the request for *args*; arguments that are not parameters are fields of the body.

        Args:
            args: The arguments. Those that are values of the session are replaced by these.
            headers: Sent too.
            session: Of this request alone.

        Raises:
            ArgumentsError: an argument is missing, unknown, or does not fit its place. Or the session
                gives too much of the request.
        """
        if self.unfillable:
            raise ArgumentsError(f"{self.name} is not called: {self.unfillable}")
        filled = self._filled(args, session)
        path, params, cookies, sent = self.path, [], [], {}
        for each in self.parameters:
            value = filled[each.name]
            match each.place:
                case _ if value is None:
                    continue
                case "path":
                    path = path.replace(f"{{{each.name}}}", each.segment(value))
                case "query":
                    params += self._query(each, value)
                case "cookie":
                    cookies.append(f"{each.name}={quote(each.joined(value))}")
                case _:
                    sent[each.name] = each.joined(value)
        if cookies:
            sent["Cookie"] = "; ".join(cookies)
        body = self._body(args, session)
        as_form = self.body == FORM and isinstance(body, dict)
        if body is not None and not as_form:
            sent["Content-Type"] = str(self.body)
            if not self.takes_json and not isinstance(body, str):
                raise ArgumentsError(f"the body is {self.body}: give it as text, in the argument body")
        return Outgoing(
            method=self.method.upper(),
            url=self.server.rstrip("/") + path,
            params=params or None,
            headers={**sent, **headers},
            data=None if self.takes_json else body,
            json=body if self.takes_json else None,
            leaves_origin=False,
        )

    @property
    def takes_json(self) -> bool:
        """Whether its body is JSON."""
        return self.body is not None and "json" in self.body

    def _filled(self, args: Mapping[str, Any], session: SessionValues) -> dict[str, Any]:
        """Return the arguments of all parameters: the caller's, and in their place what the session gives."""
        fields = {each.name: each.of_session for each in self.parameters}
        filled = {
            name: each.filled(args.get(name), session, f"the argument {name}")
            for name, each in fields.items()
        }
        missing = [each.name for each in self.parameters if each.required and filled[each.name] is None]
        unset = [f"{name}, which is {found}" for name in missing if (found := fields[name].expression)]
        if unset:
            raise ArgumentsError(f"the session has no value for {'; '.join(unset)}")
        if missing:
            raise ArgumentsError(f"missing arguments: {', '.join(missing)}")
        return filled

    def _query(self, parameter: Parameter, value: Any) -> list[tuple[str, str]]:
        """Return the names and values of one parameter; none has the name of what the session gives."""
        ours = parameter.of_session
        # The members of an object may be sent under their own names.
        spreads = parameter.explode and parameter.style not in ("json", "deepObject")
        if spreads and isinstance(value, Mapping) and not ours.expression:
            every = [each for each in self.parameters if each.of_session]
            taken = {name for each in every for name in (each.name, *each.of_session.members)}
            names = (str(name) for name in value if name not in ours.members)
            require_free(names, taken, f"the argument {parameter.name}")
        return parameter.query(value)

    def _body(self, args: Mapping[str, Any], session: SessionValues) -> Any:
        """Return the body that is sent: what the caller gives, and in its place what the session gives."""
        ours, named = self.body_of_session, {parameter.name for parameter in self.parameters}
        fields = {name: value for name, value in args.items() if name not in named and not ours.gives(name)}
        if fields and self.body is None:
            raise ArgumentsError(f"unknown arguments: {', '.join(sorted(fields))}")
        if self.body_required and not (fields or ours):
            raise ArgumentsError("missing arguments: the body has no field")
        body: Any = fields or None
        if len(fields) == 1 and fields.keys() <= _WHOLE_BODY:
            (body,) = fields.values()
        if not ours:
            return body
        body = ours.filled({} if body is None else body, session, "the body")
        if ours.expression and not self.takes_json:
            return None if body is None else text_of(body)
        return None if body == {} else body


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiTool:
    """The operations of an OpenAPI 3 document, each a tool ``{display_name}_{operationId}``.

    Raises:
        InvalidInputError: a header is not valid, or a member is of another kind.
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
        require_members(self)
        for name, value in self.headers.items():
            if fault := header_fault(name, value):
                raise InvalidInputError(f"headers of {self.display_name}: {fault}")

    def request(self, name: str, args: Mapping[str, Any], session: SessionValues) -> Outgoing:
        """Return the request for *args* of the tool *name*, with what its toolset authenticates itself by.

        Raises:
            ArgumentsError: an argument is missing, unknown, or does not fit its place.
            CredentialMissingError: the credential is missing.
        """
        outgoing = self.operations[name].request(args, self.headers, session)
        return outgoing if self.authentication is None else self.authentication.added(outgoing, session)

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
            InvalidInputError: *document* is malformed, or has no operation that can be called. Or an
                argument is of another kind.
        """
        require_arguments(OpenApiTool.from_spec, locals())
        title = _mapping(document.get("info"), "info").get("title", "")
        name = display_name or identifier(str(title))
        if not name:
            raise InvalidInputError("the OpenAPI document has no title; give a display_name")
        operations: dict[str, Operation] = {}
        for each in _Document(document, server, is_marked(document)).operations():
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
    for path, found in paths.items() if isinstance(paths, Mapping) else ():
        with suppress(InvalidInputError):
            for method, spec in _Document(document).item(path, found).items():
                if method in _METHODS and isinstance(spec, Mapping):
                    yield _name(spec, method, path)


def _name(spec: Mapping[str, Any], method: str, path: str) -> str:
    return identifier(str(spec.get("operationId") or f"{method}_{identifier(path)}"))


@dataclass(frozen=True, slots=True)
class _Document:
    """An OpenAPI document, and where its operations are, if not at the document's servers."""

    root: Mapping[str, Any]
    server: str | None = None
    marked: bool = False
    """Whether the session gives something of it."""

    def operations(self) -> Iterator[Operation]:
        for path, found in _mapping(self.root.get("paths"), "paths").items():
            item = self.item(path, found)
            yield from (self._operation(path, item, method) for method in _METHODS if method in item)

    def item(self, path: Any, found: Any) -> Mapping[str, Any]:
        """Return the operations of *path* by their methods, among others."""
        if str(path).startswith("x-"):  # an extension of the document
            return {}
        if not str(path).startswith("/"):
            says = f"the OpenAPI document has the path {str(path)[:40]!r}, which must begin with /"
            raise InvalidInputError(says)
        return self._resolved(found, path)

    def _operation(self, path: str, item: Mapping[str, Any], method: str) -> Operation:
        where = f"{method.upper()} {path}"
        spec = _mapping(item[method], where)
        listed = (*_list(item, "parameters", where), *_list(spec, "parameters", where))
        parameters = [Parameter.of(self._resolved(each, where), where) for each in listed]
        body = self._resolved(spec.get("requestBody") or {}, where)
        content = _mapping(body.get("content") or {}, where)
        media_type = _media_type(content)
        of_path = {each.name for each in parameters if each.place == "path"}
        undeclared = [name for name in _VARIABLE.findall(path) if name not in of_path]
        operation = Operation(
            name=_name(spec, method, path),
            method=method,
            path=path,
            server=_absolute(self.server) if self.server else _server(spec, item, self.root),
            description=str(spec.get("description") or spec.get("summary") or ""),
            parameters=tuple({(each.name, each.place): each for each in parameters}.values()),
            body=media_type,
            body_required=bool(content and body.get("required")),
            unfillable=f"the document does not declare the {undeclared[0]} of its path" if undeclared else "",
        )
        if undeclared or not self.marked:
            return operation
        try:
            schemas = schemas_of(body, [content.get(str(media_type))]) if content else ()
            return self._of_session(operation, schemas, where)
        except UnfillableError as exc:
            return replace(operation, unfillable=f"{exc}, so the session cannot give its value ({MARK})")

    def _of_session(self, operation: Operation, of_body: Sequence[Any], where: str) -> Operation:
        """Return *operation* with what the session gives of it, and of its body, which has all these schemas.

        Raises:
            UnfillableError: it cannot give all that the document marks.
            InvalidInputError: a mark is not an expression that is known.
        """
        resolve = partial(self._target, where=where)
        together: dict[str, list[Any]] = {}  # one argument is given to all parameters of its name
        for each in operation.parameters:
            together.setdefault(each.name, []).extend(each.schemas)
        found = {name: session_fields(some, resolve, f"{where}, {name}") for name, some in together.items()}
        for each in operation.parameters:
            if found[each.name].in_part and not each.parts_fields:
                says = f"a field is marked within {each.name}, whose fields are joined to a text"
                raise UnfillableError(says)
        body = session_fields(of_body, resolve, where)
        is_flat = operation.body == FORM and all(map(body.gives, body.members))
        if body.in_part and not (operation.takes_json or is_flat):
            raise UnfillableError(f"a field is marked within a body of {operation.body}")
        with_fields = (replace(each, of_session=found[each.name]) for each in operation.parameters)
        return replace(operation, parameters=tuple(with_fields), body_of_session=body)

    def _resolved(self, node: Any, where: str) -> Mapping[str, Any]:
        """Return *node*, or what it refers to; a mark beside a reference counts for that."""
        mark: dict[str, Any] = {}
        for _ in range(_MOST_REFERENCES):
            found = _mapping(node, where)
            mark = {**own_mark(found), **mark}
            reference = found.get("$ref")
            if reference is None:
                return {**found, **mark}
            node = self._target(str(reference), where)
        says = "a reference of the document refers to itself, directly or through others"
        raise InvalidInputError(f"{where}: {says}")

    def _target(self, reference: str, where: str) -> Mapping[str, Any]:
        """Return what is at *reference*, which may itself refer to something."""
        if not reference.startswith("#/"):
            says = f"{reference} is outside of the document; copy it into the document"
            raise InvalidInputError(f"{where}: {says}")
        node: Any = self.root
        for step in unquote(reference[2:]).split("/"):
            if isinstance(node, list):
                node = {str(index): item for index, item in enumerate(node)}
            node = _mapping(node, where).get(step.replace("~1", "/").replace("~0", "~"))
        return _mapping(node, where)


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
    except (httpx.InvalidURL, UnicodeEncodeError) as exc:  # a lone surrogate is the second
        raise InvalidInputError(f"the server of the OpenAPI document is not a URL: {exc}") from exc
    if not url.is_absolute_url or url.query or url.fragment or "{" in server:
        raise InvalidInputError("the OpenAPI document has no absolute URL as its server; give a server")
    return server


def _media_type(content: Mapping[str, Any]) -> str | None:
    media_types = [str(media_type) for media_type in content]
    return next((each for each in media_types if "json" in each), next(iter(media_types), None))


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
