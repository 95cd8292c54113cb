"""Write callbacks of each of the six kinds."""

from typing import Final

PARAMETERS: Final = {
    "before_agent": "callback_context",
    "after_agent": "callback_context",
    "before_model": "callback_context, llm_request",
    "after_model": "callback_context, llm_response",
    "before_tool": "tool, input, callback_context",
    "after_tool": "tool, input, callback_context, tool_response",
}
"""What the platform calls each kind with, by name."""


def callback(kind: str, *statements: str) -> str:
    """Return the file of a callback of *kind* that does *statements*."""
    body = "".join(f"    {statement}\n" for statement in statements)
    return f"def {kind}_callback({PARAMETERS[kind]}):\n{body}"
