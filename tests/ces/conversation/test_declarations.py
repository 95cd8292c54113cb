"""Models get the declarations of tools, by their code or their document."""

from typing import Any

import pytest

from gcp_adk_store.ces import MockTool, OpenApiTool, PythonTool
from gcp_adk_store.ces.tools.declarations import by_name, declaration_of


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
def test_a_python_tool_is_declared_by_its_signature(annotation: str, schema: dict[str, Any]) -> None:
    """Parameters without a default are required."""
    code = f'def find(it: {annotation}, *, most: int = 3):\n    """Find it.\n\n    And more.\n    """\n'

    assert declaration_of(PythonTool(name="find", code=code)) == {
        "name": "find",
        "description": "Find it.\n\nAnd more.",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {"it": schema, "most": {"type": "integer"}},
            "required": ["it"],
        },
    }


@pytest.mark.parametrize("code", ["def (", "x = 1", f"x = a{'.b' * 10_000}"])
def test_code_that_cannot_be_read_is_declared_without_parameters(code: str) -> None:
    """A call of it says what is wrong."""
    declared = declaration_of(PythonTool(name="find", code=code, description="Finds."))

    assert declared["description"] == "Finds."
    assert declared["parametersJsonSchema"] == {"type": "object", "properties": {}}
    assert declared == declaration_of(MockTool(name="find", response=1, description="Finds."))


def test_an_operation_is_declared_by_its_document() -> None:
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

    (callee,) = by_name([OpenApiTool.from_spec(document)]).values()

    assert declaration_of(callee) == {
        "name": "Shop_pay",
        "description": "Pay.",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {"id": {}, "dry": {}, "body": {"type": "object"}},
            "required": ["id", "body"],
        },
    }
