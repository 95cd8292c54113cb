"""Toolsets answer where the environment says, with their credentials; others have stand-ins."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store.ces import HttpPolicy, MockTool, ScriptedModel, lint_app, load_tools, read_app
from tests.ces.conversation.apps import write_files
from tests.ces.conversation.conftest import Converse, offered
from tests.ces.host.web import Asked, Web, serving


def of_session(name: str) -> dict[str, str]:
    """Return the mark of a value that the session gives."""
    return {"x-ces-session-context": f"$context.{name}"}


BODY = {
    "type": "object",
    "properties": {"tier": of_session("variables.tier"), "note": {"type": "string"}},
}
READ: dict[str, Any] = {
    "operationId": "read",
    "parameters": [
        {"name": "session_id", "in": "path", "required": True, **of_session("session_id")},
        {"name": "X-Token", "in": "header", "schema": {"type": "string", **of_session("variables.token")}},
        {"name": "page", "in": "query"},
    ],
    "requestBody": {"required": True, "content": {"application/json": {"schema": BODY}}},
}
SCHEMA: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Bank", "version": "1"},
    "servers": [{"url": "$env_var"}],
    "paths": {"/sessions/{session_id}": {"post": READ}},
}
VARIABLES = {"token": "t", "tier": 3}
KEY = {"apiKeyConfig": {"keyName": "X-Api-Key", "apiKeySecretVersion": "$env_var"}}


def write(
    folder: Path,
    *,
    environment: Mapping[str, Any] | None = None,
    authentication: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] = SCHEMA,
) -> Path:
    """Write an app with a toolset."""
    declared: dict[str, Any] = {"openApiSchema": "toolsets/bank/schema.yaml"}
    if authentication is not None:
        declared["apiAuthentication"] = authentication
    files = {
        "toolsets/bank/bank.json": {"displayName": "Bank", "openApiToolset": declared},
        "toolsets/bank/schema.yaml": schema,
        "app.json": {"displayName": "Test", "rootAgent": "root"},
        "agents/root/root.json": {"displayName": "root", "toolsets": [{"toolset": "Bank"}]},
        "environment.json": {"toolsets": environment or {}},
    }
    return write_files(folder, files)


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    """A server that notes what it is asked."""
    with serving() as web:
        yield web


class Asking:
    """Lets a model call the operation of an app."""

    def __init__(self, converse: Converse, web: Web) -> None:
        self._converse = converse
        self._web = web
        self.model = ScriptedModel([])
        """Of the last conversation."""

    async def response(
        self, folder: Path, args: Mapping[str, Any], *, variables: Mapping[str, Any] = VARIABLES, **more: Any
    ) -> Any:
        """Return what comes of the call; the app is read with *more*."""
        self._web.asked.clear()
        app = read_app(folder, **{"servers": {"Bank": self._web.url}, **more})
        self.model = ScriptedModel([{"calls": [{"name": "Bank_read", "args": dict(args)}]}, "Done."])
        http = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True)
        conversation = self._converse(app, model=self.model, http=http)
        session_id = f"s/{len(self._converse.made)}"
        conversation.key = await conversation.begin(session_id=session_id, variables=variables)
        (use,) = (await conversation.say("Go")).calls
        assert "secret" not in repr((app, load_tools(app)))
        return use.response

    async def __call__(self, folder: Path, args: Mapping[str, Any], **more: Any) -> Asked:
        """Return the request that comes of the call."""
        answer = await self.response(folder, args, **more)
        assert "error" not in answer, answer
        return self._web.last


@pytest.fixture
def ask(converse: Converse, web: Web) -> Asking:
    """What lets models call operations."""
    return Asking(converse, web)


@pytest.mark.parametrize("name", ["bank", "Bank"])
async def test_the_environment_says_where_a_toolset_answers(
    ask: Asking, web: Web, tmp_path: Path, name: str
) -> None:
    """By its folder or its name; a server that is given goes before it."""
    folder = write(tmp_path / "app", environment={name: {"openApiToolset": {"url": f"{web.url}/v1"}}})

    assert (await ask(folder, {}, servers={})).path.startswith("/v1/sessions/")
    assert (await ask(folder, {}, servers={"Bank": web.url})).path.startswith("/sessions/")


async def test_values_of_the_session_are_sent_and_not_shown_to_models(ask: Asking, tmp_path: Path) -> None:
    """Whatever a model gives in their place, wherever they stand; one that is missing is reported."""
    folder = write(tmp_path / "app")
    asked = await ask(folder, {"session_id": "../x", "tier": 9, "note": "hi", "page": 2})

    assert asked.path == "/sessions/s%2F1"
    assert asked.headers["x-token"] == "t"
    assert json.loads(asked.body) == {"note": "hi", "tier": 3}
    assert asked.query == [("page", "2")]
    assert offered(ask.model).parameters_json_schema == {
        "type": "object",
        "properties": {"page": {}, "body": {"type": "object"}},
        "required": ["body"],
    }
    assert json.loads((await ask(folder, {})).body) == {"tier": 3}

    absent = json.loads(json.dumps(SCHEMA).replace("$context.session_id", "$context.variables.absent"))
    missing = await ask.response(write(tmp_path / "other", schema=absent), {"note": "hi"})
    assert "no value for session_id, which is $context.variables.absent" in missing["error"]


def test_lint_warns_of_a_value_that_the_session_cannot_give(tmp_path: Path) -> None:
    """By the document's file and the operation, also where the document itself is refused."""
    text = json.dumps(SCHEMA)
    unknown = "no operation of Bank is called: POST .*'.context.user' is unknown; known: .context.project_id"
    write(tmp_path)
    assert lint_app(read_app(tmp_path)) == []

    for schema, says in (
        (text.replace("application/json", "text/plain"), "Bank_read is not called: a field is marked within"),
        (text.replace("$context.session_id", "$context.user"), unknown),
    ):
        (found,) = lint_app(read_app(write(tmp_path, schema=json.loads(schema))))

        assert (found.code, found.severity) == ("CES601", "warning")
        assert (found.path, bool(re.match(says, found.says))) == ("toolsets/bank/schema.yaml", True), (
            found.says
        )


BEARER = {"authorization": "Bearer secret"}


@pytest.mark.parametrize(
    ("authentication", "headers", "params"),
    [
        (KEY, {"x-api-key": "secret"}, []),
        ({"apiKeyConfig": {"keyName": "key", "requestLocation": "QUERY_STRING"}}, {}, [("key", "secret")]),
        ({"oauthConfig": {"clientId": "x"}}, BEARER, []),
        ({"serviceAccountAuthConfig": {"serviceAccount": "x"}}, BEARER, []),
        ({"serviceAgentIdTokenAuthConfig": {}}, BEARER, []),
        ({"bearerTokenConfig": {"token": "$context.variables.token"}}, BEARER, []),
        ({}, BEARER, []),
    ],
)
async def test_a_toolset_authenticates_itself_as_it_declares(
    ask: Asking, tmp_path: Path, authentication: dict[str, Any], headers: dict[str, str], params: Any
) -> None:
    """By the credential that is given; nothing shows it."""
    folder = write(tmp_path / "app", authentication=authentication)
    asked = await ask(folder, {"note": "hi"}, credentials={"bank": "secret"})

    assert {name: value for name, value in asked.headers.items() if value.endswith("secret")} == headers
    assert asked.query == params


async def test_a_credential_that_is_missing_is_an_error_of_the_call(ask: Asking, tmp_path: Path) -> None:
    """Which names the option, or the variable. No argument has the name of a key in the query."""
    bearer = {"bearerTokenConfig": {"token": "$context.variables.token"}}
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (KEY, VARIABLES, "--credential Bank=VARIABLE"),
        ({"oauthConfig": {}}, VARIABLES, "--credential Bank=VARIABLE"),
        ({"serviceAgentIdTokenAuthConfig": {}}, VARIABLES, "--credential Bank=VARIABLE"),
        (bearer, {}, "set the variable token"),
    ]
    for number, (authentication, variables, says) in enumerate(cases):
        folder = write(tmp_path / f"{number}", authentication=authentication)
        assert says in (await ask.response(folder, {"note": "hi"}, variables=variables))["error"]

    assert (await ask(folder, {"note": "hi"})).headers["authorization"] == "Bearer t"

    in_query = {"apiKeyConfig": {"keyName": "page", "requestLocation": "QUERY_STRING"}}
    folder = write(tmp_path / "key", authentication=in_query)
    asked = await ask(folder, {"note": "hi", "page": "mine"}, credentials={"Bank": "secret"})

    assert asked.query == [("page", "secret")]


async def test_tools_without_code_are_named_mocks_that_fail_loudly(
    converse: Converse, tmp_path: Path
) -> None:
    """MCP toolsets by what agents choose and code calls; functions of the client with their schema."""
    mcp = {"displayName": "Crm", "mcpToolset": {"serverAddress": "https://crm.test/mcp/"}}
    root = {"tools": ["show", "scan"], "toolsets": [{"toolset": "crm", "toolIds": ["find"]}]}
    schema = {"type": "OBJECT", "properties": {"id": {"type": "STRING"}}}
    show = {"name": "show", "description": "Shows a card.", "parameters": schema}
    code = 'def ask() -> dict:\n    """Ask."""\n    return tools.Crm_open({"id": 1}).json()\n'
    files: dict[str, Any] = {
        "app.json": {"displayName": "Test", "rootAgent": "root"},
        "toolsets/crm/crm.json": mcp,
        "agents/root/root.json": root,
        "tools/show/show.json": {"widgetTool": show},
        "tools/scan/scan.yaml": "clientFunction: {name: scan_code, parameters: {default: 2026-08-04}}",
        "tools/ask/python_function/python_code.py": code,
    }
    app = read_app(write_files(tmp_path / "app", files))
    model = ScriptedModel(["Done."])
    await converse(app, model=model).say("Go")
    functions = {
        each.name: each
        for tool in model.requests[0].config.tools or []
        if isinstance(tool, types.Tool)
        for each in tool.function_declarations or []
    }
    found = {tool.name: tool for tool in load_tools(app) if isinstance(tool, MockTool)}

    assert app.root is not None
    assert lint_app(app) == []
    assert set(found) == {"Crm_find", "Crm_open", "show", "scan_code"}
    assert {tool.status_code for tool in found.values()} == {501}
    assert found["Crm_find"].reason == (
        "Crm_find is a tool of the mcpToolset Crm, and runs on the platform alone; give it a mock"
    )
    declared = {"type": "object", "properties": {"id": {"type": "string"}}}
    shown = functions["show"]
    assert (shown.description, shown.parameters_json_schema) == ("Shows a card.", declared)
    assert functions["scan_code"].parameters_json_schema == {"default": "2026-08-04"}
    assert list(functions) == ["show", "scan_code", "Crm_find"]


async def test_a_tool_that_is_given_replaces_one_operation_alone(
    converse: Converse, web: Web, tmp_path: Path
) -> None:
    """The other operations of its toolset are offered, and called, as before."""
    paths = {**SCHEMA["paths"], "/other": {"get": {"operationId": "other"}}}
    app = read_app(write(tmp_path / "app", schema={**SCHEMA, "paths": paths}), servers={"Bank": web.url})
    http = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True)
    given = MockTool(name="Bank_read", response={"read": 1})
    replies = [{"calls": [{"name": "Bank_read"}, {"name": "Bank_other"}]}, "Done."]
    turn = await converse(app, replies, http=http, tools=[given]).say("Go")

    assert turn.calls[0].response == {"read": 1}
    assert web.last.path == "/other"


async def test_an_agent_may_name_a_tool_by_its_folder(converse: Converse) -> None:
    """As lint lets it; its model gets the tool by the name that code has, and may call it."""
    converse.app({"root": {"tools": ["find_it"]}})
    code = 'def find() -> str:\n    """Find."""\n    return "found"\n'
    files = {
        "tools/find_it/find_it.json": {"pythonFunction": {"name": "find"}},
        "tools/find_it/python_function/python_code.py": code,
        "agents/root/instruction.txt": "Call {@TOOL: find}.",
    }
    app = read_app(write_files(converse.folder, files))
    turn = await converse(app, [{"calls": [{"name": "find"}]}, "Done."]).say("Go")

    assert [] == lint_app(app)
    assert [{"result": "found"}] == [use.response for use in turn.calls]
