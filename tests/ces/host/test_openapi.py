"""Operations of OpenAPI documents are called as they are described."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gcp_adk_store.ces import HttpPolicy, OpenApiTool
from gcp_adk_store.ces.tools.openapi import operation_names
from gcp_adk_store.ces.tools.session_fields import SessionValues
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
FORM: dict[str, Any] = {"content": {"application/x-www-form-urlencoded": {}}}
BANK = document(
    {
        "x-of-the-bank": ["mobile"],
        "/accounts/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {"operationId": "getAccount", "summary": "Reads an account.", "parameters": FIELDS},
            "post": {"operationId": "pay-now", "requestBody": {"$ref": "#/components/requestBodies/payment"}},
            "delete": {},
        },
        "/forms": {"put": {"operationId": "form", "requestBody": FORM}},
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


JSON = st.recursive(
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
        holder[key] = data.draw(JSON)

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


def one_operation(parameter: dict[str, Any]) -> Any:
    """Return an operation of one parameter."""
    path = {"get": {"operationId": "x", "parameters": [parameter]}}
    tool = OpenApiTool.from_spec(document({"/{p}/end": path}, servers=SERVERS), display_name="T")
    return tool.operations["T_x"]
