"""Toolsets answer where the environment says, with their credentials; others have stand-ins."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces import MockTool, lint_app, load_tools, read_app
from gcp_adk_store.ces.conversation.decisions import tool_names
from gcp_adk_store.ces.tools.declarations import OperationTool, by_name, declaration_of
from gcp_adk_store.ces.tools.parameters import ArgumentsError, CredentialMissingError, SessionValues
from tests.ces.conversation.apps import write_files


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
SESSION = SessionValues(context={"sessionId": "s/1", "appId": "a"}, variables={"token": "t", "tier": 3})
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
        "app.json": {},
        "environment.json": {"toolsets": environment or {}},
    }
    return write_files(folder, files)


def operation(folder: Path, **more: Any) -> OperationTool:
    """Return the operation of the app in *folder*."""
    found = by_name(load_tools(read_app(folder, **more)))["Bank_read"]
    assert isinstance(found, OperationTool)
    return found


@pytest.mark.parametrize("name", ["bank", "Bank"])
def test_the_environment_says_where_a_toolset_answers(tmp_path: Path, name: str) -> None:
    """By its folder or its name; a server that is given goes before it."""
    write(tmp_path, environment={name: {"openApiToolset": {"url": "https://bank.test/v1"}}})

    assert operation(tmp_path).operation.server == "https://bank.test/v1"
    assert (
        operation(tmp_path, servers={"Bank": "http://127.0.0.1:1"}).operation.server == "http://127.0.0.1:1"
    )


def test_values_of_the_session_are_sent_and_not_shown_to_models(tmp_path: Path) -> None:
    """Whatever a model gives in their place, wherever they stand; one that is missing is reported."""
    found = operation(write(tmp_path), servers={"Bank": "https://bank.test"})

    outgoing = found.request({"session_id": "../x", "tier": 9, "note": "hi", "page": 2}, SESSION)
    declared = declaration_of(found)["parametersJsonSchema"]

    assert outgoing.url == "https://bank.test/sessions/s%2F1"
    assert outgoing.headers["X-Token"] == "t"
    assert outgoing.json == {"note": "hi", "tier": 3}
    assert outgoing.params == [("page", "2")]
    assert declared == {
        "type": "object",
        "properties": {"page": {}, "body": {"type": "object"}},
        "required": ["body"],
    }
    assert found.request({}, SESSION).json == {"tier": 3}

    with pytest.raises(ArgumentsError, match=r"no value for session_id, which is \$context.session_id"):
        found.request({"note": "hi"}, SessionValues())


def with_doubled_body(levels: int) -> str:
    """Return the document with a body in which each level refers twice to the next, down to the session's."""
    below = [{"$ref": f"#/components/schemas/S{level}"} for level in range(levels + 1)]
    schemas: dict[str, Any] = {
        f"S{level}": {"properties": dict.fromkeys("ab", below[level + 1])} for level in range(levels)
    }
    schemas[f"S{levels}"] = of_session("session_id")
    body = {"content": {"application/json": {"schema": below[0]}}}
    paths = {"/sessions/{session_id}": {"post": {**READ, "requestBody": body}}}
    return json.dumps({**SCHEMA, "paths": paths, "components": {"schemas": schemas}})


def test_lint_warns_of_a_value_that_the_session_cannot_give(tmp_path: Path) -> None:
    """By the document's file and the operation, also where the document itself is refused."""
    text = json.dumps(SCHEMA)
    unknown = "no operation of Bank is called: POST .*'.context.user' is unknown; known: .context.project_id"
    write(tmp_path)
    assert lint_app(read_app(tmp_path)) == []

    for schema, says in (
        (text.replace("application/json", "text/plain"), "Bank_read is not called: a field is marked within"),
        (with_doubled_body(14), "Bank_read is not called: the session gives more than 10,000 fields"),
        (text.replace("$context.session_id", "$context.user"), unknown),
    ):
        (found,) = lint_app(read_app(write(tmp_path, schema=json.loads(schema))))

        assert (found.code, found.severity) == ("CES601", "warning")
        assert (found.path, bool(re.match(says, found.says))) == ("toolsets/bank/schema.yaml", True), (
            found.says
        )


BEARER = {"Authorization": "Bearer secret"}


@pytest.mark.parametrize(
    ("authentication", "headers", "params"),
    [
        (KEY, {"X-Api-Key": "secret"}, None),
        ({"apiKeyConfig": {"keyName": "key", "requestLocation": "QUERY_STRING"}}, {}, [("key", "secret")]),
        ({"oauthConfig": {"clientId": "x"}}, BEARER, None),
        ({"serviceAccountAuthConfig": {"serviceAccount": "x"}}, BEARER, None),
        ({"serviceAgentIdTokenAuthConfig": {}}, BEARER, None),
        ({"bearerTokenConfig": {"token": "$context.variables.token"}}, BEARER, None),
        ({}, BEARER, None),
    ],
)
def test_a_toolset_authenticates_itself_as_it_declares(
    tmp_path: Path, authentication: dict[str, Any], headers: dict[str, str], params: Any
) -> None:
    """By the credential that is given; nothing shows it."""
    options = {"servers": {"Bank": "https://bank.test"}, "credentials": {"bank": "secret"}}
    found = operation(write(tmp_path, authentication=authentication), **options)

    outgoing = found.request({"note": "hi"}, SESSION)

    assert {name: value for name, value in outgoing.headers.items() if value.endswith("secret")} == headers
    assert outgoing.params == params
    assert "secret" not in repr((found, read_app(tmp_path, **options)))


def test_a_credential_that_is_missing_is_an_error_of_the_call(tmp_path: Path) -> None:
    """Which names the option, or the variable. No argument has the name of a key in the query."""
    bearer = {"bearerTokenConfig": {"token": "$context.variables.token"}}
    without = SessionValues(context=SESSION.context)
    for authentication, session, says in (
        (KEY, SESSION, "--credential Bank=VARIABLE"),
        ({"oauthConfig": {}}, SESSION, "--credential Bank=VARIABLE"),
        ({"serviceAgentIdTokenAuthConfig": {}}, SESSION, "--credential Bank=VARIABLE"),
        (bearer, without, "set the variable token"),
    ):
        folder = write(tmp_path, authentication=authentication)
        found = operation(folder, servers={"Bank": "https://bank.test"})
        with pytest.raises(CredentialMissingError, match=says):
            found.request({"note": "hi"}, session)

    assert found.request({"note": "hi"}, SESSION).headers["Authorization"] == "Bearer t"

    authentication = {"apiKeyConfig": {"keyName": "page", "requestLocation": "QUERY_STRING"}}
    folder = write(tmp_path, authentication=authentication)
    found = operation(folder, servers={"Bank": "https://bank.test"}, credentials={"Bank": "secret"})

    assert found.request({"note": "hi", "page": "mine"}, SESSION).params == [("page", "secret")]


def test_tools_without_code_are_named_mocks_that_fail_loudly(tmp_path: Path) -> None:
    """MCP toolsets by what agents choose and code calls; functions of the client with their schema."""
    mcp = {"displayName": "Crm", "mcpToolset": {"serverAddress": "https://crm.test/mcp/"}}
    root = {"tools": ["show", "scan"], "toolsets": [{"toolset": "crm", "toolIds": ["find"]}]}
    schema = {"type": "OBJECT", "properties": {"id": {"type": "STRING"}}}
    show = {"name": "show", "description": "Shows a card.", "parameters": schema}
    code = 'def ask() -> dict:\n    """Ask."""\n    return tools.Crm_open({"id": 1}).json()\n'
    files: dict[str, Any] = {
        "app.json": {"rootAgent": "root"},
        "toolsets/crm/crm.json": mcp,
        "agents/root/root.json": root,
        "tools/show/show.json": {"widgetTool": show},
        "tools/scan/scan.json": {"clientFunction": {"name": "scan_code"}},
        "tools/ask/python_function/python_code.py": code,
    }
    app = read_app(write_files(tmp_path, files))
    found = {tool.name: tool for tool in load_tools(app) if isinstance(tool, MockTool)}

    assert app.root is not None
    assert lint_app(app) == []
    assert set(found) == {"Crm_find", "Crm_open", "show", "scan_code"}
    assert {tool.status_code for tool in found.values()} == {501}
    assert found["Crm_find"].reason == (
        "Crm_find is one of the tools of an MCP server, and runs on the platform alone; give it a mock"
    )
    declared = {"type": "object", "properties": {"id": {"type": "string"}}}
    assert declaration_of(found["show"]) == {
        **{name: show[name] for name in ("name", "description")},
        "parametersJsonSchema": declared,
    }
    assert tool_names(app.root, app) == ["show", "scan", "Crm_find"]
