"""Answer tool calls in place of tools."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from gcp_adk_store.ces.guest.scanning import scan
from gcp_adk_store.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class MockedCall:
    """One answer of a `MockConfig`."""

    tool: str
    response: Mapping[str, Any]
    """What the answer's ``json()`` is, ``result`` included where the tool's own answer has one."""
    expected_args: Mapping[str, Any] = field(default_factory=dict)
    """What the arguments must have, at any depth; others may be there too."""

    def fits(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether it answers the call of *tool* with *args*."""
        return tool == self.tool and _has(args, self.expected_args)


@dataclass(frozen=True, slots=True, kw_only=True)
class MockConfig:
    """Answers to the calls that the code makes of tools: the first one that fits."""

    calls: Sequence[MockedCall] = ()
    unmatched: Literal["PASS_THROUGH", "FAIL"] = "PASS_THROUGH"
    """Whether a call by code that none fits goes to the tool, or ends the run; a model's goes to the tool."""

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> Self:
        """Return the ``mockConfig`` of the platform's API, in camelCase or snake_case.

        Raises:
            InvalidInputError: *config* is not a mockConfig.
        """
        mocked = _either(config, "mockedToolCalls", "mocked_tool_calls") or []
        if not isinstance(mocked, list | tuple):
            raise InvalidInputError("mockedToolCalls must be a list")
        unmatched = _either(config, "unmatchedToolCallBehavior", "unmatched_tool_call_behavior")
        if unmatched in (None, "UNMATCHED_TOOL_CALL_BEHAVIOR_UNSPECIFIED"):
            unmatched = "PASS_THROUGH"
        if unmatched not in ("PASS_THROUGH", "FAIL"):
            raise InvalidInputError(f"unmatchedToolCallBehavior is {unmatched!r}: PASS_THROUGH or FAIL")
        return cls(
            calls=tuple(
                MockedCall(
                    tool=_tool_of(call),
                    response=_object(call, "mockResponse", "mock_response"),
                    expected_args=_object(call, "expectedArgsPattern", "expected_args_pattern"),
                )
                for call in mocked
            ),
            unmatched=unmatched,
        )

    def find(self, tool: str, args: Mapping[str, Any]) -> MockedCall | None:
        """Return the first answer that fits a call of *tool*, or None."""
        return next((call for call in self.calls if call.fits(tool, args)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTools:
    """Python code that answers tool calls: ``fake_{tool}``, or ``fake_tool_call`` for all of them.

    Each is called with ``tool``, ``input`` and ``callback_context``; None lets the tool itself answer.

    Raises:
        InvalidInputError: the source is not valid Python.
    """

    source: str
    filename: str = "fakes.py"
    functions: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        try:
            found = scan(ast.parse(self.source)).functions
        except (SyntaxError, ValueError) as exc:
            raise InvalidInputError(f"{self.filename}: {exc}") from exc
        object.__setattr__(self, "functions", frozenset(found))

    def function_for(self, tool: str) -> str | None:
        """Return the name of the function that answers calls of *tool*, or None."""
        return next((name for name in (f"fake_{tool}", "fake_tool_call") if name in self.functions), None)


def _tool_of(call: Mapping[str, Any]) -> str:
    """Return the name that code calls the tool of *call* by; resource names end with it."""
    toolset = _either(call, "toolset", "toolset") or _either(call, "toolsetTool", "toolset_tool")
    if isinstance(toolset, Mapping):
        operation = _either(toolset, "toolId", "tool_id")
        return f"{_last(str(toolset.get('toolset', '')))}_{operation}"
    named = _either(call, "toolId", "tool_id") or call.get("tool")
    if not isinstance(named, str):
        raise InvalidInputError("a mocked tool call must name its tool, in toolId, tool or toolset")
    name = _last(named)
    return f"{_last(toolset)}_{name}" if isinstance(toolset, str) else name


def _last(resource_name: str) -> str:
    return resource_name.rpartition("/")[2]


def _object(given: Mapping[str, Any], camel: str, snake: str) -> Mapping[str, Any]:
    found = _either(given, camel, snake) or {}
    if not isinstance(found, Mapping):
        raise InvalidInputError(f"{camel} of a mocked tool call must be an object")
    return found


def _either(given: Any, camel: str, snake: str) -> Any:
    if not isinstance(given, Mapping):
        raise InvalidInputError("a mockConfig, and each of its mocked tool calls, must be an object")
    return given.get(camel, given.get(snake))


def _has(value: Any, pattern: Any) -> bool:
    if isinstance(pattern, Mapping):
        return isinstance(value, Mapping) and all(
            name in value and _has(value[name], below) for name, below in pattern.items()
        )
    return bool(value == pattern) and isinstance(value, bool) == isinstance(pattern, bool)  # 1 == True
