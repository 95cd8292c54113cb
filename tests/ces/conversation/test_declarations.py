"""Models get the declarations of tools, by their code or their document."""

from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces import AgentApp, ScriptedModel, read_app
from tests.ces.conversation.apps import write_app, write_files
from tests.ces.conversation.conftest import Converse, first_turn


async def declared(app: AgentApp, converse: Converse) -> dict[str, Any]:
    """Return what a model gets of the only tool."""
    model = ScriptedModel(["Done."])
    await first_turn(converse(app, model=model), "Go")
    (tool,) = model.requests[0].config.tools or []
    (function,) = tool.function_declarations or []  # type: ignore[union-attr]  # one of genai
    return function.model_dump(exclude_none=True)


def of_code(folder: Path, code: str) -> AgentApp:
    """Return an app whose tool has this *code*."""
    return write_app(folder, {"root": {"tools": ["find"]}}, tools={"find": code})


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", {"type": "string"}),
        ("int", {"type": "integer"}),
        ("'float'", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list[str]", {"type": "array", "items": {"type": "string"}}),
        ("typing.List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("list", {"type": "array", "items": {}}),
        ("dict[str, Any]", {"type": "object"}),
        ("Optional[int]", {"type": "integer"}),
        ("str | None", {"type": "string"}),
        ("Union[str, int]", {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ("str | int | None", {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (" | ".join(["int"] * 2000), {"anyOf": [{"type": "integer"}] * 2000}),
        ("Literal['a', 'b']", {"enum": ["a", "b"]}),
        ("Any", {}),
        ("'not python'", {}),
    ],
)
async def test_a_python_tool_is_declared_by_its_signature(
    converse: Converse, annotation: str, schema: dict[str, Any]
) -> None:
    """Parameters without a default are required."""
    code = f'def find(it: {annotation}, *, most: int = 3):\n    """Find it.\n\n    And more.\n    """\n'

    assert await declared(of_code(converse.folder, code), converse) == {
        "name": "find",
        "description": "Find it.\n\nAnd more.",
        "parameters_json_schema": {
            "type": "object",
            "properties": {"it": schema, "most": {"type": "integer"}},
            "required": ["it"],
        },
    }


@pytest.mark.parametrize("code", ["def (", "x = 1", f"x = a{'.b' * 10_000}"])
async def test_code_that_cannot_be_read_is_declared_without_parameters(converse: Converse, code: str) -> None:
    """A call of it says what is wrong."""
    found = await declared(of_code(converse.folder, code), converse)

    assert found["parameters_json_schema"] == {"type": "object", "properties": {}}


async def test_an_operation_is_declared_by_its_document(converse: Converse) -> None:
    """Its body is one argument."""
    content: dict[str, Any] = {"application/json": {}}
    operation = {
        "operationId": "pay",
        "summary": "Pay.",
        "parameters": [{"name": "id", "in": "path"}, {"name": "dry", "in": "query"}],
        "requestBody": {"required": True, "content": content},
    }
    document = {
        "info": {"title": "Shop"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/bills/{id}": {"post": operation}},
    }
    converse.app({"root": {"toolsets": [{"toolset": "Shop"}]}})
    toolset = {"displayName": "Shop", "openApiToolset": {"openApiSchema": "toolsets/Shop/schema.yaml"}}
    files = {"toolsets/Shop/Shop.json": toolset, "toolsets/Shop/schema.yaml": document}

    assert await declared(read_app(write_files(converse.folder, files)), converse) == {
        "name": "Shop_pay",
        "description": "Pay.",
        "parameters_json_schema": {
            "type": "object",
            "properties": {"id": {}, "dry": {}, "body": {"type": "object"}},
            "required": ["id", "body"],
        },
    }
