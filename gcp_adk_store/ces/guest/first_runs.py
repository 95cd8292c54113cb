"""Hold what a process runs before others are forked from it: trusted code that uses what most code uses."""

from typing import Any, Final

_CODE: Final = """\
import json
import re
from typing import Any, Optional


def look_up(number: int, names: Optional[list[str]] = None) -> dict[str, Any]:
    set_variable("seen", get_variable("seen", 0) + number)
    print(f"{number} of", json.dumps(names))
    found = tools.other({"text": re.sub("a", "b", "abc")}).json()["result"]
    found += async_tools.other({"text": "d"})().json()["result"]
    ces_requests.get("https://example.com", params={"a": "b"}).raise_for_status()
    return {"found": found, "names": names}


def fails() -> dict:
    return {}["missing"]


def before_model_callback(callback_context, llm_request):
    said = [part.text_or_transcript() for part in callback_context.get_last_user_input()]
    return LlmResponse.from_parts([Part.from_text(said[0]), Part.from_end_session(reason="done")])


def after_model_callback(callback_context, llm_response):
    callback_context.variables["turns"] = callback_context.get_variable("turns", 0) + 1


def after_tool_callback(tool, input, callback_context, tool_response):
    tool_response["seen"] = tool.name
"""
_CONTENT: Final = {"role": "user", "parts": [{"text": "hello"}]}
_EVENT: Final = {"id": "e1", "author": "user", "invocationId": "i1", "timestamp": 1.5, "content": _CONTENT}
_CONTEXT: Final = {"state": {"seen": 1, "account": {"owed": 5}}, "events": [_EVENT], "userContent": _CONTENT}
_RUNS: Final[dict[str, dict[str, Any]]] = {
    "look_up": {"kind": "tool", "args": {"number": 3, "names": ["Ada"]}},
    "fails": {"kind": "tool"},
    "before_model_callback": {"callback": "before_model", "llm_request": {"contents": [_CONTENT]}},
    "after_model_callback": {"callback": "after_model", "llm_response": {"content": _CONTENT}},
    "after_tool_callback": {
        "callback": "after_tool",
        "tool": {"name": "look_up"},
        "args": {},
        "tool_response": {"result": {"found": 1}},
    },
}

FIRST_RUNS: Final = tuple(
    {
        "kind": "callback",
        "code": [{"source": _CODE, "filename": f"{name}.py", "name": name}],
        "context": _CONTEXT,
        "tools": ["other"],
        **more,
    }
    for name, more in _RUNS.items()
)
"""Requests of a tool, of one that fails, and of callbacks."""

FIRST_REPLY: Final[dict[str, Any]] = {"status_code": 200, "reason": "", "text": '{"result": [1]}'}
"""The answer to each of their host calls."""
