"""Callbacks override, or change what they get in place."""

from typing import Any

import pydantic
import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from gcp_adk_store.ces import CallbackRun, CodeFile, PythonTool
from gcp_adk_store.errors import InvalidInputError
from tests.ces.callbacks import callback
from tests.ces.host.runs import KEY, Make, error_of, stored, tool

REQUEST = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "config": {}}
RESPONSE = {"content": {"role": "model", "parts": [{"text": "Hi"}]}}
CALL: dict[str, Any] = {"tool": "pay", "args": {"amount": 3}}
SUBJECTS: dict[str, dict[str, Any]] = {
    "before_agent": {},
    "after_agent": {},
    "before_model": {"llm_request": REQUEST},
    "after_model": {"llm_response": RESPONSE},
    "before_tool": CALL,
    "after_tool": {**CALL, "tool_response": {"result": 1}},
}
TEXT = {"parts": [{"text": "instead"}], "role": "model"}


async def called(make: Make, kind: str, *bodies: str, **more: Any) -> CallbackRun:
    """Return the run of callbacks of *kind* that do *bodies*; it must not fail."""
    codes = [callback(kind, body) for body in bodies]
    runtime = make(tools=[PythonTool(name="pay", code=tool('"""Pays."""', name="pay"))])
    run = await runtime.run_callback(kind, codes, KEY, **{**SUBJECTS[kind], **more})
    assert run.error is None, run.error.traceback
    return run


@pytest.mark.parametrize("kind", list(SUBJECTS))
async def test_a_callback_that_returns_none_overrides_nothing(kind: str, make: Make) -> None:
    """What it was given comes back. One that fails changes nothing, nor those before it."""
    run = await called(make, kind, "return None")

    assert (run.kind, run.override, run.overridden_by, run.changed) == (kind, None, None, frozenset())
    for name in ("llm_request", "llm_response", "args", "tool_response"):
        assert getattr(run, name) == SUBJECTS[kind].get(name)

    codes = [callback(kind, 'set_variable("a", 1)'), callback(kind, "raise ValueError('no')")]

    run = await make().run_callback(kind, codes, KEY, **SUBJECTS[kind])
    assert f'File "{kind}_callback_02.py", line 2' in error_of(run).traceback
    assert (run.override, run.event_id, run.changed) == (None, None, frozenset())
    assert (await stored(make.sessions)).events == []


@pytest.mark.parametrize(
    ("kind", "returned", "override"),
    [
        ("before_agent", 'Content(parts=[Part.from_text("instead")], role="model")', TEXT),
        ("after_agent", 'Content(parts=[Part.from_text("instead")], role="model")', TEXT),
        ("before_model", 'LlmResponse.from_parts([Part.from_text("instead")])', {"content": TEXT}),
        ("after_model", 'LlmResponse.from_parts([Part.from_text("instead")])', {"content": TEXT}),
        ("before_tool", '{"result": tool.name + tool.description}', {"result": "payPays."}),
        ("after_tool", '{"result": tool_response["result"] + input["amount"]}', {"result": 4}),
        ("before_tool", "{}", {}),
    ],
)
async def test_what_a_callback_returns_overrides(
    kind: str, returned: str, override: dict[str, Any], make: Make
) -> None:
    """An empty dict too. Its tool has the description that models see, here the docstring of its code."""
    run = await called(make, kind, f"return {returned}")

    assert (run.override, run.overridden_by) == (override, 0)


INSERTS = 'llm_response.content.parts.insert(0, Part.from_text("First"))'


@pytest.mark.parametrize(
    ("kind", "body", "name", "left"),
    [
        ("before_model", 'llm_request.config.hide_tool("pay")', "llm_request", ("config", "excludedTools")),
        ("after_model", INSERTS, "llm_response", ("content", "parts", 0, "text")),
        ("before_tool", 'input["amount"] = 4', "args", ("amount",)),
        ("after_tool", 'tool_response["result"] = 2', "tool_response", ("result",)),
        ("after_tool", 'input["amount"] = 4', "args", ("amount",)),
    ],
)
async def test_what_a_callback_changes_in_place_counts(
    kind: str, body: str, name: str, left: tuple[Any, ...], make: Make
) -> None:
    """Without an override."""
    run = await called(make, kind, body)

    found: Any = getattr(run, name)
    for step in left:
        found = found[step]
    assert found in (["pay"], "First", 4, 2)
    assert (set(run.changed), run.override) == ({name}, None)


async def test_callbacks_run_in_order_until_one_overrides(make: Make) -> None:
    """One event has what those that ran changed."""
    bodies = [
        'set_variable("order", [1])',
        'set_variable("order", [*get_variable("order"), 2]); return {"by": "second"}',
        'set_variable("order", [])',
    ]
    run = await called(make, "before_tool", *bodies)

    assert (run.override, run.overridden_by) == ({"by": "second"}, 1)
    (event,) = (await stored(make.sessions)).events
    assert (event.id, event.actions.state_delta) == (run.event_id, {"order": [1, 2]})


async def test_the_kind_may_be_spelt_as_the_function_is(make: Make) -> None:
    """And a file is called as it is named."""
    code = CodeFile(callback("before_agent", "raise ValueError"), "a.py")

    run = await make().run_callback("before_agent_callback", code, KEY)
    assert (run.kind, run.error is not None) == ("before_agent", True)
    assert 'File "a.py"' in error_of(run).traceback


@pytest.mark.parametrize(
    ("kind", "code", "more", "message"),
    [
        ("before_lunch", "pass", {}, "before_lunch"),
        ("before_agent", [], {}, "code is empty"),
        ("before_model", "pass", {}, "llm_request"),
        ("after_model", "pass", {"llm_request": {}}, "llm_response"),
        ("before_tool", "pass", {"args": {}}, "tool"),
        ("after_tool", "pass", {"tool": "a", "args": {}}, "tool_response"),
    ],
)
async def test_what_is_no_callback_is_refused(
    kind: Any, code: Any, more: dict[str, Any], message: str, make: Make
) -> None:
    """Before anything runs, with what is missing."""
    with pytest.raises(InvalidInputError, match=message):
        await make().run_callback(kind, code, KEY, **more)


async def test_adks_requests_and_responses_are_understood(make: Make) -> None:
    """Bytes, and what the runtime does not know, come back as they were."""
    picture = types.Blob(mime_type="image/png", data=b"\xfb\xff")
    parts = [types.Part(text="Hello", thought_signature=b"\xfb\xff"), types.Part(inline_data=picture)]
    pay = types.Tool(function_declarations=[types.FunctionDeclaration(name="pay")])
    given = types.GenerateContentConfig(system_instruction="Be kind.", temperature=0.5, tools=[pay])
    contents = [types.Content(role="user", parts=parts)]
    request = LlmRequest(model="gemini", contents=contents, config=given)
    body = """
    assert llm_request.contents[0].parts[1].inline_data.raw_data == b"\\xfb\\xff"
    assert llm_request.config.tools[0].function_declarations[0].name == "pay"
    llm_request.config.system_instruction.parts[0].text += " Be brief."
"""
    run = await called(make, "before_model", body, llm_request=request)
    response = LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Hi")]))
    says = 'llm_response.content.parts[0].text = "Hey"'
    after = await called(make, "after_model", says, llm_response=response)

    assert run.llm_request is not None
    config = types.GenerateContentConfig.model_validate(run.llm_request["config"])
    assert config.temperature == 0.5
    assert isinstance(config.system_instruction, types.Content)
    assert config.system_instruction.parts == [types.Part(text="Be kind. Be brief.")]
    assert [types.Content.model_validate(each) for each in run.llm_request["contents"]] == contents
    assert after.llm_response == {"content": {"role": "model", "parts": [{"text": "Hey"}]}}


class Quote(pydantic.BaseModel):
    """What an agent answers with."""

    cents: int


@pytest.mark.parametrize("schema", [Quote, list[Quote], {"type": "OBJECT"}])
async def test_requests_with_an_output_schema_are_understood(schema: Any, make: Make) -> None:
    """ADK has it as a class; it comes back as JSON that ADK takes, and ADK's own stays as it was."""
    request = LlmRequest(model="gemini", config=types.GenerateContentConfig(response_schema=schema))

    run = await called(make, "before_model", 'llm_request.config.hide_tool("pay")', llm_request=request)

    assert run.llm_request is not None
    config = run.llm_request["config"]
    assert config["excludedTools"] == ["pay"]
    assert config["responseSchema"] == (
        schema if isinstance(schema, dict) else pydantic.TypeAdapter(schema).json_schema()
    )
    again = types.GenerateContentConfig(response_schema=config["responseSchema"])
    assert again.response_schema == config["responseSchema"]
    assert request.config.response_schema == schema


async def test_actions_of_callbacks_are_reported(make: Make) -> None:
    """What follows of them is the caller's."""
    run = await called(make, "before_agent", "callback_context.actions.escalate = True")

    assert run.actions is not None
    assert run.actions["escalate"] is True
    assert (await stored(make.sessions)).events == []
