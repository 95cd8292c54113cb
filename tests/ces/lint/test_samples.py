"""Lint finds no error in what public samples do, which work on the platform; and it warns of what may not.

Each shape is one of samples that were looked at, in words of its own.
"""

from pathlib import Path

import pytest

from gcp_adk_store.ces import lint_app, read_app

RACES = '''\
from typing import Any, Dict, Optional

from ces_public import ces_requests


def list_races(year: int, country: Optional[str] = None, limit: Optional[int] = None) -> Dict[str, Any]:
    """List the races of a year.

    Args:
        year: Which year.
        country: Only there.
        limit: At most so many.
    """
    try:
        params = {"year": int(year)}
        if country:
            params["country"] = country
        found = ces_requests.get(url="https://api.example.com/races", params=params, headers={"A": "b"})
        if not (found.status_code == 200 or (found.status_code == 0 and found.text)):
            return {"status": "error", "error": f"{found.status_code}: {found.reason}"}
        races = found.json()
        return {"status": "ok", "races": races[: int(limit)] if limit else races}
    except Exception as error:
        return {"status": "error", "error": str(error), "agent_action": "Apologize."}
'''
ENGINE = '''\
def engine(amount: int) -> dict:
    """Compute."""
    seen = get_variable("seen", [])
    set_variable("seen", [*seen, int(amount)])
    return {"rate": amount * 2}


def _clean(text: str) -> str:
    return text.strip()
'''
WRAPPER = '''\
import json


def wrapper(amount: int) -> dict:
    """Ask the engine, then a server."""
    rate = tools.engine({"amount": amount}).json()["result"]["rate"]
    sent = ces_requests.post("https://api.example.com/a", data={"rate": str(rate)})
    try:
        sent.raise_for_status()
    except StatusError as error:
        return {"error": error.reason, "code": error.status_code}
    waits = [async_tools.engine({"amount": each}) for each in range(3)]
    context.state["rates"] = [wait().json()["result"]["rate"] for wait in waits]
    return {"sent": json.loads(sent.text), "rate": rate}
'''
FALLBACK = '''\
try:
    import requests
except ImportError:
    requests = None


def fallback(name: str) -> dict:
    """Use what is there."""
    client = globals()["ces_requests"]
    return {"text": client.get("https://api.example.com/" + name).text}
'''
TEMPLATE = '''\
def template(name: str) -> dict:
    """Ask with keywords."""
    logger.info("asked")
    return {"name": tools.engine(amount=1).get("name")}
'''
FAREWELL = """\
import json


def _farewell(parts: list[Part]) -> bool:
    return any(part.has_function_call("end_session") for part in parts)


def after_model_callback(
    callback_context: CallbackContext, llm_response: LlmResponse
) -> Optional[LlmResponse]:
    parts = llm_response.content.parts
    if not _farewell(parts) or callback_context.variables.get("said_goodbye"):
        return None
    callback_context.variables["said_goodbye"] = True
    call = Part.from_function_call(name="post_call_logging", args={"session": callback_context.session_id})
    card = Part.from_json(json.dumps({"card": 1}))
    return LlmResponse.from_parts(parts=[Part.from_text(text="Goodbye."), card, call, *parts])
"""
BEFORE_MODEL = """\
from typing import Optional

import ces_public


def before_model_callback(
    callback_context: CallbackContext, llm_request: LlmRequest
) -> Optional[LlmResponse]:
    for part in callback_context.get_last_user_input():
        if part.text and "<event>session start</event>" in part.text:
            content = Content(parts=[ces_public.Part(text="Hello.")], role="model")
            return LlmResponse(content=content, partial=True)
        if part.text and "no user activity" in part.text:
            return LlmResponse.from_parts([Part.from_agent_transfer(agent="closing")])
    llm_request.config.hide_tool("wrapper")
    return None
"""
AFTER_TOOL = """\
from typing import Any, Dict, Optional


def after_tool_callback(
    tool: Tool, input: Dict[str, Any], callback_context: CallbackContext, tool_response: Dict[str, Any]
) -> Optional[Dict[str, Any]]:
    if tool.name != "engine":
        return None
    found = tool_response.get("result", tool_response.get("output", tool_response))
    if "error" in found:
        return {"status": "error", "error": found["error"]}
    callback_context.set_variable("rate", found.get("rate"))
    tool_response["seen"] = True
    return None
"""
RAW = AFTER_TOOL.replace(
    'tool_response.get("result", tool_response.get("output", tool_response))', "tool_response"
).replace('found.get("rate")', 'tool_response["rate"]')
BEFORE_AGENT = """\
def before_agent_callback(callback_context: CallbackContext) -> Optional[Content]:
    if callback_context.state.get("turns", 0) > 20:
        return Content(parts=[Part.from_end_session(reason="too long", escalated=True)])
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1
"""


@pytest.mark.parametrize(
    ("path", "source", "warnings"),
    [
        ("tools/list_races/python_function", RACES, ["CES206", "CES206"]),
        ("tools/engine/python_function", ENGINE, []),
        ("tools/wrapper/python_function", WRAPPER, []),
        ("tools/fallback/python_function", FALLBACK, []),
        ("tools/template/python_function", TEMPLATE, ["CES304", "CES402", "CES404"]),
        ("agents/root/after_model_callbacks/first", FAREWELL, ["CES302"]),
        ("agents/root/before_model_callbacks/first", BEFORE_MODEL, []),
        ("agents/root/after_tool_callbacks/first", AFTER_TOOL, []),
        ("agents/root/after_tool_callbacks/raw", RAW, []),
        ("agents/root/before_agent_callbacks/first", BEFORE_AGENT, ["CES302"]),
    ],
)
def test_what_samples_do_is_no_error(tmp_path: Path, path: str, source: str, warnings: list[str]) -> None:
    """And a warning says only what may differ."""
    for name, code in {"tools/engine/python_function": ENGINE, path: source}.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "python_code.py").write_text(code)
    found = lint_app(read_app(tmp_path))

    assert [] == [each for each in found if each.severity == "error"]
    assert warnings == sorted(each.code for each in found)
