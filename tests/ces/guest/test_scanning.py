"""User code is read without running it."""

import ast

import pytest

from gcp_adk_store.ces.guest.scanning import scan


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("tools.a({})\nasync_tools.b({})", [("tools", "a", 1), ("async_tools", "b", 2)]),
        ("call = tools.a", [("tools", "a", 1)]),
        ("import ces_public\nces_public.tools.a({})", [("tools", "a", 2)]),
        ("from ces_public import tools\ntools.a({})", [("tools", "a", 2)]),
        ("from ces_public import tools as tools\ntools.a({})", [("tools", "a", 2)]),
        ("def f():\n    async_tools.b({})\n\ntools.a({})", [("async_tools", "b", 2), ("tools", "a", 4)]),
        ("tools = 1\ntools.a", []),
        ("def f(tools):\n    return tools.a", []),
        ("from elsewhere import tools\ntools.a", []),
        ("import tools\ntools.a", []),
        ("for tools in []:\n    tools.a", []),
        ("self.tools.a", []),
        ("found().tools.a", []),
        ("from ces_public import async_tools as tools\ntools.a({})", []),
        ("'tools.a({})'  # tools.a({})", []),
    ],
)
def test_tools_are_found_where_they_are_the_runtimes(source: str, names: list[tuple[str, str, int]]) -> None:
    """In order of lines; what the code binds by itself is its own."""
    assert names == [(found.owner, found.name, found.line) for found in scan(ast.parse(source)).tools]


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("x: Optional[List[int]] = None\ny: Optional[int] = 1", (("List", 1), ("Optional", 1))),
        ("from typing import Optional\nx: Optional[int] = None", ()),
        ("from somewhere import *\nx: Optional[int] = None", ()),
        ("from ces_public import *\nx: Optional[int] = None", (("Optional", 2),)),
        ("import typing\nx: typing.Optional[int] = None", ()),
        ("from json import loads\nx: Optional[int] = None", (("Optional", 2),)),
        ("class Any: pass\nx: Any = None", ()),
    ],
)
def test_names_of_typing_are_found_that_nothing_binds(
    source: str, missing: tuple[tuple[str, int], ...]
) -> None:
    """With their first line."""
    assert missing == scan(ast.parse(source)).missing_imports


def test_functions_are_those_of_the_module_in_order() -> None:
    """Not methods, not inner ones."""
    source = "class C:\n    def m(self): ...\n\ndef b():\n    def inner(): ...\n\nasync def a(): ..."

    assert scan(ast.parse(source)).functions == ("b", "a")
