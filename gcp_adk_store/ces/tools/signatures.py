"""Declare tools to models: names, descriptions and schemas of parameters, read from code and documents."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any, Final

from gcp_adk_store.ces.tools.declarations import Callee, CodeFile, MockTool, OperationTool, PythonTool

_OBJECT: Final = {"type": "object"}
_SCALARS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_LISTS: Final = frozenset({"list", "List", "tuple", "Tuple", "set", "Set", "Sequence", "Iterable"})
_ALIASES: Final = frozenset({"Optional", "Annotated"})


def declaration_of(callee: Callee) -> dict[str, Any]:
    """Return *callee* as JSON: ``name``, ``description`` and ``parametersJsonSchema``.

    A Python tool is declared by its signature and docstring, as on the platform; a mock takes any arguments.
    Code that cannot be read is declared without parameters: a call of it says what is wrong.
    """
    match callee:
        case PythonTool():
            return _of_python(callee)
        case OperationTool():
            operation = callee.operation
            hidden = {name for name, each in operation.of_session.items() if each.expression}
            told = [each for each in operation.parameters if each.name not in hidden]
            properties: dict[str, Any] = {each.name: {} for each in told}
            required = [each.name for each in told if each.required]
            of_session = operation.body_of_session
            if operation.body is not None and not of_session.expression:
                properties["body"] = dict(_OBJECT) if of_session or "json" in operation.body else {}
                required += ["body"] if operation.body_required else []
            return _declared(callee.name, callee.description, properties, required)
        case MockTool():
            made = _declared(callee.name, callee.description, {}, [])
            return made if callee.parameters is None else {**made, "parametersJsonSchema": callee.parameters}


def _declared(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {**_OBJECT, "properties": properties}
    if required:
        schema["required"] = required
    return {"name": name, "description": description, "parametersJsonSchema": schema}


def _of_python(tool: PythonTool) -> dict[str, Any]:
    code = CodeFile.of(tool.code)
    try:
        functions = [
            node
            for node in ast.parse(code.source).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        functions = []
    wanted = code.name or tool.name
    found = next((each for each in functions if each.name == wanted), next(iter(functions), None))
    if found is None:
        return _declared(tool.name, tool.description, {}, [])
    properties, required = {}, []
    for argument, has_default in _parameters(found.args):
        properties[argument.arg] = _schema(argument.annotation)
        if not has_default:
            required.append(argument.arg)
    described = ast.get_docstring(found, clean=False)
    return _declared(tool.name, tool.description or inspect.cleandoc(described or ""), properties, required)


def _parameters(arguments: ast.arguments) -> Iterator[tuple[ast.arg, bool]]:
    """Yield each parameter, and whether it has a default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = len(positional) - len(arguments.defaults)
    for number, argument in enumerate(positional):
        yield argument, number >= without
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument, default is not None


def _schema(annotation: ast.expr | None) -> dict[str, Any]:  # noqa: C901, PLR0911, PLR0912  # one for each kind
    """Return the JSON schema of *annotation*; empty for what is not known."""
    match annotation:
        case ast.Constant(value=str() as text):
            try:
                return _schema(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError):
                return {}
        case ast.Name(id=name) if name in _SCALARS:
            return {"type": _SCALARS[name]}
        case ast.Name(id=name) if name in _LISTS:
            return {"type": "array", "items": {}}
        case ast.Name(id="dict" | "Dict" | "Mapping"):
            return dict(_OBJECT)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either([left, right])
        case ast.Subscript(value=ast.Attribute(attr=name) | ast.Name(id=name), slice=inner):
            items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name in _ALIASES:
                return _schema(items[0])
            if name == "Union":
                return _either(items)
            if name == "Literal":
                values = [each.value for each in items if isinstance(each, ast.Constant)]
                return {"enum": values}
            if name in _LISTS:
                return {"type": "array", "items": _schema(items[0])}
            return dict(_OBJECT) if name in {"dict", "Dict", "Mapping"} else {}
        case ast.Attribute(attr=name):
            return _schema(ast.Name(id=name))
        case _:
            return {}


def _either(annotations: list[ast.expr]) -> dict[str, Any]:
    """Return the schema of a union; a part that is None makes it no other type."""
    kinds = [each for each in annotations if not (isinstance(each, ast.Constant) and each.value is None)]
    return _schema(kinds[0]) if len(kinds) == 1 else {"anyOf": [_schema(each) for each in kinds]}
