"""Hold what a process runs before others are forked from it: trusted code that uses what most code uses."""

from typing import Any, Final

_TOOL: Final = '''\
import json
import re
from typing import Any, Optional


def look_up(number: int, names: Optional[list[str]] = None) -> dict[str, Any]:
    """Look something up."""
    seen = get_variable("seen", 0)
    set_variable("seen", seen + number)
    context.state["names"] = {"all": names or [], "share": 0.5, "last": None}
    print(f"{number} of", json.dumps(names))
    try:
        found = tools.other({"text": re.sub("a", "b", "abc")}).json()["result"]
        background = async_tools.other({"text": "d"})
        found += background().json()["result"]
        response = ces_requests.get("https://example.com", params={"a": "b"})
        response.raise_for_status()
    except (KeyError, StatusError) as error:
        return {"status": "error", "error": str(error)}
    return {"found": found, "names": [name.strip() for name in names or []]}
'''
_FAILS: Final = "def fails() -> dict:\n    return {}['missing']\n"
_CALLBACK: Final = """\
def {kind}_callback({parameters}):
    callback_context.variables["turns"] = callback_context.get_variable("turns", 0) + 1
    said = [part.text_or_transcript() for part in callback_context.get_last_user_input()]
    if "stop" in said:
        return LlmResponse.from_parts([Part.from_text("Goodbye"), Part.from_end_session(reason="done")])
"""
_SUBJECTS: Final[dict[str, dict[str, Any]]] = {
    "before_agent": {},
    "before_model": {"llm_request": {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}},
    "after_model": {"llm_response": {"content": {"role": "model", "parts": [{"text": "hello"}]}}},
    "after_tool": {"tool": {"name": "look_up"}, "input": {}, "tool_response": {"result": {"found": 1}}},
}
_CONTEXT: Final[dict[str, Any]] = {
    "state": {"seen": 1, "account": {"owed_cents": 24650}},
    "events": [
        {
            "id": "e1",
            "author": author,
            "invocationId": "i1",
            "timestamp": 1.5,
            "actions": {"stateDelta": {}},
            "content": {"role": role, "parts": [{"text": "hello"}]},
        }
        for author, role in (("user", "user"), ("agent", "model"))
    ],
    "userContent": {"role": "user", "parts": [{"text": "hello"}]},
}


def _tool(source: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
    code = {"source": source, "filename": f"{name}.py", "name": name}
    return {"kind": "tool", "code": [code], "args": args, "context": _CONTEXT, "tools": ["other"]}


def _callback(kind: str, subjects: dict[str, Any]) -> dict[str, Any]:
    source = _CALLBACK.format(kind=kind, parameters=", ".join((*subjects, "callback_context")))
    given = {"args" if name == "input" else name: value for name, value in subjects.items()}
    code = {"source": source, "filename": f"{kind}.py"}
    return {"kind": "callback", "callback": kind, "code": [code], "context": _CONTEXT, **given}


FIRST_RUNS: Final = (
    _tool(_TOOL, "look_up", {"number": 3, "names": ["Ada"]}),
    _tool(_FAILS, "fails", {}),
    *(_callback(kind, subjects) for kind, subjects in _SUBJECTS.items()),
)
"""Requests of a tool, of one that fails, and of callbacks."""

FIRST_REPLY: Final[dict[str, Any]] = {"status_code": 200, "reason": "", "text": '{"result": [1]}'}
"""The answer to each of their host calls."""
