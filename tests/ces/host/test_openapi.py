"""Operations of OpenAPI documents are called as described; what the session gives, no caller gives."""

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gcp_adk_store.ces import HttpPolicy, OpenApiTool
from gcp_adk_store.ces.tools.openapi import Operation, operation_names
from gcp_adk_store.ces.tools.session_fields import ArgumentsError, SessionValues
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.runs import KEY, Make, ran, result_of
from tests.ces.host.web import Web
from tests.support.lengths import at_length

SERVERS = [{"url": "https://a.test/v1/"}]
HERE = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True)


def document(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an OpenAPI document with *paths*."""
    return {"openapi": "3.0.3", "info": {"title": "Bank API", "version": "1"}, "paths": paths, **more}


CODE = {"name": "code", "in": "query", "required": True, "schema": {}}
FIELDS = [
    {"name": "fields", "in": "query", "schema": {"type": "array"}},
    {"name": "tags", "in": "query", "explode": False, "schema": {"type": "array"}},
    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
    {"name": "seen", "in": "cookie", "schema": {"type": "boolean"}},
]
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
BODIES = {"application/xml": {}, "application/vnd.bank+json": {"schema": {"type": "object"}}}
FORM_BODY: dict[str, Any] = {"content": {"application/x-www-form-urlencoded": {}}}
BANK = document(
    {
        "x-of-the-bank": ["mobile"],
        "/accounts/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {"operationId": "getAccount", "summary": "Reads an account.", "parameters": FIELDS},
            "post": {"operationId": "pay-now", "requestBody": {"$ref": "#/components/requestBodies/payment"}},
            "delete": {},
        },
        "/forms": {"put": {"operationId": "form", "requestBody": FORM_BODY}},
        "/text": {"post": {"operationId": "text", "requestBody": {"content": {"text/plain": {}}}}},
        "/status": {"get": {"operationId": "status", "parameters": [CODE]}},
    },
    components={
        "parameters": {"id": ID},
        "requestBodies": {"payment": {"required": True, "content": BODIES}},
    },
)


def bank(web: Web, **options: Any) -> OpenApiTool:
    """Return the tool of `BANK`, on the tests' server."""
    return OpenApiTool.from_spec(BANK, display_name="Bank", server=f"{web.url}/v1/", **options)


def test_operations_have_names_and_descriptions(web: Web) -> None:
    """Of the tool and the operation, or its method and path. A title names the tool."""
    tool = bank(web)
    servers = [{"url": "https://{zone}.bank.test/v2", "variables": {"zone": {"default": "eu"}}}]
    titled = OpenApiTool.from_spec({**BANK, "servers": servers})

    names = ("getAccount", "pay_now", "delete_accounts_id", "form", "text", "status")
    assert list(tool.operations) == [f"Bank_{name}" for name in names]
    assert tool.operations["Bank_getAccount"].description == "Reads an account."
    assert titled.display_name == "Bank_API"
    assert titled.operations["Bank_API_form"].server == "https://eu.bank.test/v2"


def test_operations_of_a_path_elsewhere_in_the_document_have_names_too() -> None:
    """An app offers tools by these names, before it reads how they are called; extensions have none."""
    item = {"get": {"operationId": "read"}, "parameters": [ID]}
    paths = {"/a/{id}": {"$ref": "#/items/a"}, "/b": {"put": {"operationId": "form"}}, "x-c": {"get": {}}}
    spec = document({**paths, "/d": {"$ref": "#/nowhere"}}, items={"a": item})

    assert ["read", "form"] == [*operation_names(spec)]


async def test_arguments_go_where_they_belong(make: Make, web: Web) -> None:
    """Path, query, header, cookie; and the tool's own headers, which the code does not see."""
    args = {"id": "a/b ü", "fields": ["x", 1], "tags": ["t", "u"], "X-Trace": "abc", "seen": True}
    tool = bank(web, headers={"X-Key": "secret"})
    run = await ran(make(tools=[tool], http=HERE), f"return tools.Bank_getAccount({args!r}).json()")

    query = [["fields", "x"], ["fields", "1"], ["tags", "t,u"]]
    assert run.result == {"method": "GET", "path": "/v1/accounts/a%2Fb%20%C3%BC", "query": query}
    headers = web.last.headers
    assert (headers["x-trace"], headers["cookie"], headers["x-key"]) == ("abc", "seen=true", "secret")
    assert "secret" not in repr(run)
    assert "secret" not in repr(tool)


@pytest.mark.parametrize(
    ("call", "body", "content_type"),
    [
        (
            'pay_now({"id": "1", "amount": 3, "to": ["x"]})',
            '{"amount":3,"to":["x"]}',
            "application/vnd.bank+json",
        ),
        ('pay_now({"id": "1", "body": [1]})', "[1]", "application/vnd.bank+json"),
        ('pay_now({"id": "1", "requestBody": {"a": 1}})', '{"a":1}', "application/vnd.bank+json"),
        ('form({"a": "x y", "b": 2})', "a=x+y&b=2", "application/x-www-form-urlencoded"),
        ('form({"body": "a=b"})', "a=b", "application/x-www-form-urlencoded"),
        ('text({"body": "plain"})', "plain", "text/plain"),
    ],
)
async def test_other_arguments_are_the_body(
    call: str, body: str, content_type: str, make: Make, web: Web
) -> None:
    """Or one that is called so, in the form that the document says."""
    runtime = make(tools=[bank(web)], http=HERE)

    assert await result_of(runtime, f"return tools.Bank_{call}.status_code") == 200
    assert (web.last.body, web.last.headers["content-type"]) == (body, content_type)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("getAccount({})", "missing arguments: id"),
        ('getAccount({"id": None})', "missing arguments: id"),
        ('getAccount({"id": "1", "colour": "red"})', "unknown arguments: colour"),
        ('pay_now({"id": "1"})', "missing arguments: the body"),
        ('getAccount({"id": ".."})', "the argument id cannot be '..'"),
        ('getAccount({"id": "."})', "the argument id cannot be '.'"),
        ('getAccount({"id": ""})', "the argument id cannot be ''"),
        ('text({"a": 1})', "the body is text/plain"),
    ],
)
async def test_arguments_that_make_no_request_are_a_bad_request(
    call: str, said: str, make: Make, web: Web
) -> None:
    """Nothing is sent."""
    before = len(web.asked)
    runtime = make(tools=[bank(web)], http=HERE)

    status_code, reason = await result_of(runtime, f"r = tools.Bank_{call}; return [r.status_code, r.reason]")
    assert status_code == 400
    assert reason.startswith(said)
    assert len(web.asked) == before


async def test_a_model_sees_the_answers_body_or_the_error(make: Make, web: Web) -> None:
    """What is no JSON object is a result."""
    elsewhere = OpenApiTool.from_spec(BANK, display_name="Else", server=web.url)
    runtime = make(tools=[bank(web), elsewhere], http=HERE)
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("Bank_getAccount", {"id": "1"}, {"method": "GET", "path": "/v1/accounts/1", "query": []}),
        ("Bank_getAccount", {"id": "\ud83d"}, {"error": "400 the argument id has a lone surrogate at 0"}),
        ("Else_status", {"code": 200}, {"result": "said"}),
        ("Else_status", {"code": 302}, {"error": "302: said"}),
        ("Else_status", {"code": 404}, {"error": "404 Not Found: said"}),
    ]
    for name, args, response in calls:
        assert (await runtime.call_tool(name, args, KEY)).response == response


@pytest.mark.parametrize(
    "spec",
    [
        {},
        document({}),
        document({"/a": {"get": {}}}),
        document({"/a": {"get": {}}}, servers=[{"url": "/v1"}]),
        document({"/a": {"$ref": "#/b"}}, b={"$ref": "#/b"}),
        document({"/a": {"$ref": "#/nowhere"}}),
        document({"/a": {"$ref": "file:///etc/passwd"}}),
        document({"/a": {"get": {}}}, servers=[{"url": "https://{zone}.test"}]),
        document({"/a": {"get": {}}}, servers=[{"url": "https://a.test:x"}]),
        document({"/a": {"get": {}}}, servers=[{"url": "https://a.test/\ud800"}]),
        document({"/a": {"get": {}}}, servers=[{"url": "https://a.test/?b"}]),
        document({"a": {"get": {}}}, servers=[{"url": "https://a.test"}]),
        document({"/a": {"get": {"operationId": "x"}, "put": {"operationId": "x"}}}, servers=SERVERS),
        document({"/a": {"get": {"operationId": "x-y"}, "put": {"operationId": "x_y"}}}, servers=SERVERS),
        document({"/a": {"get": {"parameters": [{"in": "query"}]}}}, servers=SERVERS),
        document({"/a": {"get": {"parameters": [{"name": "b", "in": "body"}]}}}, servers=SERVERS),
        "document.yaml",
    ],
)
def test_what_cannot_be_called_is_refused(spec: Any) -> None:
    """At once; nothing outside of the document is read for it."""
    with pytest.raises(InvalidInputError):
        OpenApiTool.from_spec(spec)


def test_a_header_that_is_no_text_is_refused() -> None:
    """By its name."""
    spec: Any = document({"/a": {"get": {}}}, servers=SERVERS)
    with pytest.raises(InvalidInputError, match="the value of the header X-Key must be ASCII"):
        OpenApiTool.from_spec(spec, headers={"X-Key": 5})  # type: ignore[dict-item]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=5), below, max_size=2),
    max_leaves=4,
)


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Return each object or list in *node* with each of its keys or indices."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from places(node[key])


@settings(
    max_examples=at_length(20, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(data=st.data())
def test_any_document_is_a_tool_or_refused(data: st.DataObject) -> None:
    """Whatever stands in whichever place of one."""
    damaged = copy.deepcopy(
        {**BANK, "servers": [{"url": "https://{z}.test", "variables": {"z": {"default": "a"}}}]}
    )
    for _ in range(data.draw(st.integers(1, 2))):
        holder, key = data.draw(st.sampled_from(list(places(damaged))))
        holder[key] = data.draw(VALUES)

    with contextlib.suppress(InvalidInputError):
        assert OpenApiTool.from_spec(damaged, display_name="Bank").operations


@pytest.mark.parametrize(
    ("fields", "value", "sent"),
    [
        ({"in": "query"}, {"a": 1, "b": "c"}, [("a", "1"), ("b", "c")]),
        ({"in": "query", "explode": False}, {"a": 1, "b": "c"}, [("p", "a,1,b,c")]),
        ({"in": "query", "style": "deepObject"}, {"a": 1, "b": "c"}, [("p[a]", "1"), ("p[b]", "c")]),
        ({"in": "query", "style": "spaceDelimited"}, ["a", 1], [("p", "a 1")]),
        ({"in": "query", "style": "pipeDelimited"}, ["a", 1], [("p", "a|1")]),
        ({"in": "query", "style": "pipeDelimited", "explode": True}, ["a", 1], [("p", "a"), ("p", "1")]),
        ({"in": "query", "content": {"application/json": {}}}, {"a": [1]}, [("p", '{"a": [1]}')]),
        ({"in": "query", "content": {"application/json": {}}}, "a", [("p", '"a"')]),
        ({"in": "query"}, True, [("p", "true")]),
        ({"in": "query"}, [], []),
        ({"in": "header"}, {"a": 1, "b": 2}, "a,1,b,2"),
        ({"in": "header", "explode": True}, {"a": 1, "b": 2}, "a=1,b=2"),
        ({"in": "header"}, [1, "b"], "1,b"),
        ({"in": "cookie"}, "a;b=c", "p=a%3Bb%3Dc"),
    ],
)
def test_a_parameter_is_spelt_in_its_style(fields: dict[str, Any], value: Any, sent: Any) -> None:
    """Of lists and objects too."""
    operation = one_operation({"name": "p", **fields})

    outgoing = operation.request({"p": value}, {}, SessionValues())
    headers = {"header": outgoing.headers.get("p"), "cookie": outgoing.headers.get("Cookie")}
    assert {"query": outgoing.params or [], **headers}[fields["in"]] == sent


def test_a_part_of_a_path_is_always_needed() -> None:
    """It never leads elsewhere. One that cannot be spelt is an error of the call."""
    operation = one_operation({"name": "p", "in": "path"})

    with pytest.raises(ValueError, match="missing arguments: p"):
        operation.request({}, {}, SessionValues())
    undeclared = one_operation({"name": "p", "in": "query"}, path="/{p}")
    with pytest.raises(ValueError, match="x is not called: the document does not declare the p of its path"):
        undeclared.request({"p": "a"}, {}, SessionValues())
    for value in ("../x", "..%2f", "a/../b", "?a", "#a", "\\..\\", "@evil.test", "//evil.test", "%2e%2e"):
        url = httpx.URL(operation.request({"p": value}, {}, SessionValues()).url)
        assert (url.host, url.query, url.fragment) == ("a.test", b"", "")
        assert url.raw_path.decode() == "/v1/" + quote(value, safe="") + "/end"
    odd: list[tuple[dict[str, str], Any]] = [
        ({"style": "matrix"}, "a"),
        ({"in": "query", "style": "new"}, "a"),
        ({}, []),
    ]
    for fields, argument in odd:
        with pytest.raises(ValueError, match="the argument p"):
            one_operation({"name": "p", "in": "path", **fields}).request({"p": argument}, {}, SessionValues())


def one_operation(parameter: dict[str, Any], path: str = "") -> Any:
    """Return an operation of one parameter."""
    item = {"get": {"operationId": "x", "parameters": [parameter]}}
    path = path or ("/{p}/end" if parameter["in"] == "path" else "/end")
    tool = OpenApiTool.from_spec(document({path: item}, servers=SERVERS), display_name="T")
    return tool.operations["T_x"]


USER = {"type": "string", "x-ces-session-context": "$context.variables.user"}
NOTE = {"type": "string"}
WHOSE = {"type": "object", "properties": {"user": USER, "note": NOTE}}
ALICE = {"user": "alice"}
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


def session(variables: Mapping[str, Any] = ALICE) -> SessionValues:
    """Return what one request may have of a session with *variables*."""
    return SessionValues(variables=variables)


def operation(
    schema: Any = None,
    *,
    media_type: str = JSON,
    parameters: tuple[dict[str, Any], ...] = (),
    components: dict[str, Any] | None = None,
) -> Operation:
    """Return an operation with that body."""
    fields: dict[str, Any] = {"operationId": "pay", "parameters": list(parameters)}
    if schema is not None:
        fields["requestBody"] = {"content": {media_type: {"schema": schema}}}
    document = {
        "info": {"title": "Bank"},
        "paths": {"/pay": {"post": fields}},
        "components": {"schemas": components or {}},
    }
    return OpenApiTool.from_spec(document, server="https://bank.test").operations["Bank_pay"]


MALLORY = {"user": "mallory"}
NOTED = {"note": "n"}
NESTED = {"properties": {"a": {"properties": {"b": {"items": {"allOf": [WHOSE]}}}}}}
META = {"properties": {"meta": {"properties": {"user": USER}}, "note": NOTE}}


def of(name: str) -> dict[str, str]:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def property_of(name: str, schema: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of an object with a property."""
    return {"properties": {name: schema, **more}}


@pytest.mark.parametrize(
    ("schema", "given", "sent"),
    [
        (property_of("order", WHOSE), {"order": {**MALLORY, **NOTED}}, {"order": {**ALICE, **NOTED}}),
        (
            property_of("orders", {"type": "array", "items": WHOSE}),
            {"orders": [MALLORY, NOTED]},
            {"orders": [ALICE, {**ALICE, **NOTED}]},
        ),
        (property_of("ids", {"items": USER}), {"ids": ["mallory", "eve"]}, {"ids": ["alice", "alice"]}),
        ({"allOf": [of("Whose")]}, MALLORY, ALICE),
        ({"anyOf": [{"type": "string"}, WHOSE]}, MALLORY, ALICE),
        (property_of("order", {"oneOf": [{"type": "null"}, WHOSE]}), {"order": MALLORY}, {"order": ALICE}),
        (property_of("user", of("User")), MALLORY, ALICE),
        (NESTED, {"a": {"b": [MALLORY]}}, {"a": {"b": [ALICE]}}),
        (META, NOTED, {"note": "n", "meta": ALICE}),
        ({"allOf": [{"required": ["order"]}, property_of("order", WHOSE)]}, {}, {"order": ALICE}),
        (property_of("order", WHOSE, note=NOTE), NOTED, NOTED),
        (property_of("order", WHOSE), {"order": None}, {"order": None}),
        (property_of("user", of("Renamed")), MALLORY, ALICE),
        (of("Extended%20Note"), MALLORY, ALICE),
        (of("Both/allOf/1"), MALLORY, ALICE),
        (USER, {"body": "mallory"}, "alice"),
        ({"type": "array", "items": WHOSE}, {"body": [MALLORY]}, [ALICE]),
    ],
)
def test_values_of_the_session_are_sent_at_every_depth(schema: Any, given: dict[str, Any], sent: Any) -> None:
    """In place of the caller's; objects that the caller may leave out stay out."""
    note = {"$ref": "#/components/schemas/Note"}
    components = {"Renamed": {**note, **USER}, "Extended Note": {**note, "properties": {"user": USER}}}
    components["Both"] = {"allOf": [NOTE, WHOSE]}
    found = operation(schema, components={**components, "Whose": WHOSE, "User": USER, "Note": NOTE})

    assert sent == found.request(given, {}, session()).json


@pytest.mark.parametrize("media_type", [JSON, FORM])
@pytest.mark.parametrize("body", ["user=mallory", '{"user": "mallory"}', [{"user": "mallory"}], 7, True])
def test_a_whole_body_that_cannot_be_filled_is_refused(media_type: str, body: Any) -> None:
    """Text, a list or a number, in JSON and in a form: the value of the session would be missing."""
    found = operation(WHOSE, media_type=media_type)

    for name in ("body", "requestBody"):
        with pytest.raises(ArgumentsError, match="the body must be an object, not"):
            found.request({name: body}, {}, session())


@pytest.mark.parametrize("at", ["requestBody", "media type", "reference"])
def test_a_mark_of_the_whole_body_counts_wherever_it_stands(at: str) -> None:
    """Also beside a reference; the body is the session's value then."""
    marks = {place: USER if place == at else {} for place in ("requestBody", "media type", "reference")}
    body = {**marks["requestBody"], "content": {JSON: {**marks["media type"], "schema": {}}}}
    refers = {"$ref": "#/components/requestBodies/Body", **marks["reference"]}
    pay = {"post": {"operationId": "pay", "requestBody": refers}}
    document = {
        "info": {"title": "Bank"},
        "paths": {"/pay": {"$ref": "#/components/pathItems/~1pay%7B%7D"}},
        "components": {"requestBodies": {"Body": body}, "pathItems": {"/pay{}": pay}},
    }
    found = OpenApiTool.from_spec(document, server="https://bank.test").operations["Bank_pay"]

    assert found.request({"user": "mallory"}, {}, session()).json == "alice"


@pytest.mark.parametrize(
    ("media_type", "name"),
    [(JSON, "USER_ID"), (FORM, "user[id"), (FORM, "user.id"), (FORM, " user_id"), (FORM, "User_Id[]")],
)
@pytest.mark.parametrize("variables", [ALICE, {}])
def test_a_name_that_a_server_reads_as_one_of_the_session_is_refused(
    media_type: str, name: str, variables: dict[str, Any]
) -> None:
    """Go and ASP.NET ignore case; PHP reads dots, spaces and an open bracket as underscores."""
    found = operation({"properties": {"user_id": USER, "note": NOTE}}, media_type=media_type)

    with pytest.raises(ArgumentsError, match="the body cannot have a field"):
        found.request({name: "mallory", "note": "n"}, {}, session(variables))


def test_a_text_within_a_body_is_no_object_with_a_value_of_the_session() -> None:
    """Nor is an object a list. A form has the session's values in an object of fields."""
    found = operation({"properties": {"order": WHOSE, "orders": {"items": WHOSE}}})
    form = operation(WHOSE, media_type=FORM)

    for wrong, says in (
        ({"order": '{"user": "mallory"}'}, "order of the body must be an object, not str"),
        ({"orders": {"user": "mallory"}}, "orders of the body must be a list, not dict"),
    ):
        with pytest.raises(ArgumentsError, match=says):
            found.request(wrong, {}, session())
    given = {"user": "mallory", "note": "n"}
    assert {"user": "alice", "note": "n"} == form.request({"body": given}, {}, session()).data
    with pytest.raises(ArgumentsError, match=r"cannot have a field 'user\[\]'"):
        form.request({"user[]": "mallory"}, {}, session())


def test_without_a_value_in_the_session_the_callers_is_not_sent() -> None:
    """Neither in the body, at any depth, nor as a parameter."""
    who = {"name": "who", "in": "query", "schema": USER}
    found = operation({"properties": {"user": USER, "order": WHOSE}}, parameters=(who,))
    given = {"body": {"user": "mallory", "order": {"user": "mallory", "note": "n"}}, "who": "mallory"}

    outgoing = found.request(given, {}, SessionValues())

    assert ({"order": {"note": "n"}}, None) == (outgoing.json, outgoing.params)


QUERY = {"name": "user", "in": "query"}
MARKED = {"$ref": "#/components/schemas/Parameter", "x-ces-session-context": "$context.variables.user"}
FILTER = {"name": "filter", "in": "query", "style": "deepObject", "schema": WHOSE}


@pytest.mark.parametrize(
    ("parameter", "given", "sent"),
    [
        ({**QUERY, "schema": {"allOf": [USER]}}, MALLORY, [("user", "alice")]),
        ({**QUERY, "schema": of("User")}, MALLORY, [("user", "alice")]),
        (MARKED, MALLORY, [("user", "alice")]),
        ({**QUERY, **USER, "content": {JSON: None}}, MALLORY, [("user", '"alice"')]),
        ({**QUERY, "content": {JSON: {"schema": USER}}}, MALLORY, [("user", '"alice"')]),
        (FILTER, {"filter": {**MALLORY, **NOTED}}, [("filter[note]", "n"), ("filter[user]", "alice")]),
    ],
)
def test_parameters_have_the_values_of_the_session_at_every_depth(
    parameter: dict[str, Any], given: dict[str, Any], sent: Any
) -> None:
    """Also where their schema refers to another one."""
    unmarked = {"name": "user", "in": "query", "schema": NOTE}
    found = operation(parameters=(parameter,), components={"User": USER, "Parameter": unmarked})

    assert sent == found.request(given, {}, session()).params


def test_no_other_parameter_adds_a_name_that_the_session_gives() -> None:
    """An object over the query has any names. A parameter keeps its argument beside such a field."""
    free = {"name": "filter", "in": "query", "schema": {"type": "object"}}
    found = operation(parameters=({**QUERY, "schema": USER}, free))
    own = operation(WHOSE, parameters=({**QUERY, "required": True, "schema": NOTE},))

    assert [("user", "alice"), ("page", "2")] == found.request({"filter": {"page": 2}}, {}, session()).params
    for name in ("user", "user[]"):
        with pytest.raises(ArgumentsError, match="the argument filter cannot have a field"):
            found.request({"filter": {name: "mallory"}}, {}, session())
    outgoing = own.request({"user": "bob", "note": "n"}, {}, session())
    assert ([("user", "bob")], {**ALICE, **NOTED}) == (outgoing.params, outgoing.json)


@pytest.mark.parametrize("style", ["form", "deepObject"])
def test_no_parameter_that_the_session_gives_in_part_adds_a_name_that_it_gives(style: str) -> None:
    """Neither of the same object, nor of another parameter."""
    partly = {"name": "filter", "in": "query", "style": style, "explode": True, "schema": WHOSE}
    found = operation(parameters=({"name": "tenant", "in": "query", "schema": USER}, partly))

    for name in ("user[]", "user][", *(["tenant", "tenant[0]"] if style == "form" else [])):
        with pytest.raises(ArgumentsError, match="the argument filter cannot have a field"):
            found.request({"filter": {name: "mallory"}}, {}, session())
    assert found.request({"filter": {"note": "n"}}, {}, session()).params


@pytest.mark.parametrize("marked", ["query", "header"])
def test_a_mark_counts_for_all_parameters_of_its_name(marked: str) -> None:
    """They are one argument, which a caller would otherwise choose by the one without the mark."""
    schemas = {"query": NOTE, "header": NOTE, marked: USER}
    both = [{"name": "user", "in": place, "schema": schema} for place, schema in schemas.items()]
    for parameters in (both, both[::-1]):
        outgoing = operation(parameters=tuple(parameters)).request(MALLORY, {}, session())

        assert ([("user", "alice")], ALICE) == (outgoing.params, outgoing.headers)


@pytest.mark.parametrize(
    "place", [{"in": "header"}, {"in": "cookie"}, {"in": "query", "explode": False}, {"in": "path"}]
)
def test_fields_that_are_joined_to_one_text_are_not_given_in_part(place: dict[str, Any]) -> None:
    """A caller's value could have the separator, and be read as the field."""
    found = operation(parameters=({"name": "filter", **place, "schema": WHOSE},))

    with pytest.raises(ArgumentsError, match=r"pay is not called: .*whose fields are joined to a text"):
        found.request({"filter": {"note": "n,user,mallory"}}, {}, session())


def doubled(levels: int, last: dict[str, Any], *, required: bool = False) -> Operation:
    """Return an operation in whose body each level refers twice to the next, down to *last*."""
    level = {"required": ["a", "b"]} if required else {}
    components: dict[str, Any] = {f"S{levels}": last}
    for number in range(levels):
        below = of(f"S{number + 1}")
        components[f"S{number}"] = {**level, "properties": {"a": below, "b": below}}
    return operation({"allOf": [of("S0")] * 2}, components=components)


def combined(levels: int) -> Operation:
    """Return an operation in whose body each level has the alternatives of one of the levels above it."""
    components: dict[str, Any] = {f"S{levels}": WHOSE}
    for number in range(levels):
        below, chosen = of(f"S{number + 1}"), of(f"C{number}-{number + 1}")
        components[f"S{number}"] = {"properties": {"a": {"allOf": [below, chosen]}, "b": below}}
        for at in range(number + 1, levels):
            kept = of(f"C{number}-{at + 1}")
            components[f"C{number}-{at}"] = {"properties": {"a": kept, "b": kept}}
        components[f"C{number}-{levels}"] = {}
    return operation(of("S0"), components=components)


ITEMS = {"properties": {"items": {"items": WHOSE}}}
LISTS = {"properties": {"items": {"items": {"properties": {"users": {"items": USER}, "note": NOTE}}}}}
TOO_MUCH = "more than the 2,097,152 characters .*; give shorter lists"
LONG = {"user": "a" * 3000}


@pytest.mark.parametrize(
    ("found", "given", "variables", "says"),
    [
        # In the last of 20 levels, each of 2**20 sets of schemas is another one.
        (combined(20), {}, ALICE, "combines more than 100,000 fields"),
        # 14 levels are 16,384 values of the session.
        (doubled(14, USER), {}, ALICE, TOO_MUCH),
        (doubled(30, USER), {}, ALICE, TOO_MUCH),
        # Each list is a place for values of the session, whether the request gives it items or not.
        (doubled(18, {"properties": {"users": {"items": USER}}}, required=True), {}, ALICE, TOO_MUCH),
        # A list of the caller repeats what the document marks for each of its items.
        (operation(ITEMS), {"items": [{}] * 10_001}, ALICE, TOO_MUCH),
        (operation(ITEMS), {"items": [{}] * 1000}, LONG, TOO_MUCH),
        # Each item of a list that may have a value of the session is looked at.
        (operation(LISTS), {"items": [{"users": []}] * 60_000}, ALICE, TOO_MUCH),
    ],
)
def test_a_request_of_too_many_fields_is_refused(
    found: Operation, given: dict[str, Any], variables: dict[str, Any], says: str
) -> None:
    """Whether the document doubles them at each level, or the caller's lists repeat them."""
    with pytest.raises(ArgumentsError, match=says):
        found.request(given, {}, session(variables))


def test_a_request_of_as_many_fields_as_it_may_have_is_sent() -> None:
    """At the level before too many. References that are repeated at each of 30 levels are read once."""
    assert doubled(30, WHOSE).request({"a": {"note": "n"}}, {}, session()).json == {"a": {"note": "n"}}
    assert 4096 == str(doubled(12, USER).request({}, {}, session()).json).count("alice")


NODE = {"properties": {"user": USER, "below": {"$ref": "#/components/schemas/Node"}}}
OF_APP = {"x-ces-session-context": "$context.app_id"}
UNFILLABLE = [
    (WHOSE, "text/plain", "a field is marked within a body of text/plain"),
    (WHOSE, "multipart/form-data", "a field is marked within a body of multipart/form-data"),
    (property_of("order", WHOSE), FORM, f"a field is marked within a body of {FORM}"),
    ({"additionalProperties": WHOSE}, JSON, "a field is marked in additionalProperties"),
    ({"patternProperties": {"x-a": USER}}, JSON, "a field is marked in patternProperties"),
    (of("None"), JSON, "#/components/schemas/None is not found"),
    ({"if": WHOSE}, JSON, "a field is marked in if"),
    (
        {"oneOf": [WHOSE, property_of("user", OF_APP)]},
        JSON,
        r"one field is both \$context.variables.user and \$context.app_id",
    ),
    (of("Node"), JSON, "Node, which contains itself"),
]


@pytest.mark.parametrize(("schema", "media_type", "why"), UNFILLABLE)
def test_an_operation_whose_marks_cannot_be_filled_is_not_called(
    schema: Any, media_type: str, why: str
) -> None:
    """The error says what cannot be filled; nothing of the caller is sent."""
    found = operation(schema, media_type=media_type, components={"Node": NODE})

    with pytest.raises(ArgumentsError, match=f"pay is not called: .*{why}"):
        found.request({"user": "mallory"}, {}, session())


def test_a_document_without_marks_is_read_as_before() -> None:
    """Schemas that contain themselves or are elsewhere matter only where something is marked."""
    below = {"$ref": "#/components/schemas/Node"}
    schema = {"properties": {"below": below, "other": {"$ref": "https://x.test/schema"}}}
    marked = {"properties": {**schema["properties"], "user": USER}}
    components = {"Node": {"properties": {"below": below}}}

    plain = operation(schema, components=components).request({"body": {"a": 1}}, {}, session())
    assert {"a": 1} == plain.json
    assert {"user": "alice"} == operation(marked, components=components).request({}, {}, session()).json
