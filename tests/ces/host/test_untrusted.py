"""What a sandbox sends is believed in nothing but its own authority."""

import asyncio
import contextlib
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gcp_adk_store.ces import CallbackRun, MockTool
from gcp_adk_store.ces.sandbox import SandboxMemoryError, SandboxProtocolError
from tests.ces.host.runs import KEY, Acted, Make, error_of, ran, stored

HONEST: dict[str, Any] = {
    "result": 1,
    "overridden_by": None,
    "state_delta": {"changed": {}, "removed": []},
    "actions": None,
    "changed": {},
    "warnings": [],
    "error": None,
}


class Forging(Acted):
    """A sandbox whose process asks and answers what a test says."""

    def __init__(self, answer: dict[str, Any], *questions: dict[str, Any]) -> None:
        super().__init__(self._forge)
        self._answer = answer
        self._questions = questions
        self.replies: list[dict[str, Any]] = []

    async def _forge(self, _request: Any, answer: Any, *, on_output: Any, **_: Any) -> dict[str, Any]:
        on_output("printed\n")
        for question in self._questions:
            self.replies.append(await answer(question))
        return self._answer


@pytest.mark.parametrize(
    "forged",
    [
        {"state_delta": None},
        {"state_delta": {"changed": [], "removed": []}},
        {"state_delta": {"changed": {}, "removed": [1]}},
        {"state_delta": {"changed": {}, "removed": "name"}},
        {"state_delta": {"changed": {"a": 1}, "removed": ["a"]}},
        {"warnings": "all"},
        {"warnings": [None]},
        {"actions": 3},
        {"error": "text"},
        {"error": {"type": "E"}},
        {"overridden_by": True, "result": {}},
        {"overridden_by": 0, "result": "text"},
        {"changed": {"llm_request": []}},
    ],
)
async def test_an_answer_that_is_none_is_a_protocol_error(forged: dict[str, Any], make: Make) -> None:
    """Nothing is stored; what was printed is shown."""
    with pytest.raises(SandboxProtocolError) as caught:
        await ran(make(sandbox=Forging({**HONEST, **forged})), "return 1")
    assert "printed\n" == caught.value.output
    assert (await stored(make.sessions)).events == []


BEGIN = {"call": "http", "id": 1, "method": "GET", "url": "http://a", "background": True}


@pytest.mark.parametrize(
    "question",
    [
        (BEGIN, BEGIN),  # one of them could never be ended
        {},
        {"call": "shell", "id": 1},
        {"call": ["tool"], "id": 1},
        {"call": "tool", "id": "1", "tool": "a", "args": {}},
        {"call": "tool", "id": True, "tool": "a", "args": {}},
        {"call": "tool", "id": 1, "args": {}},
        {"call": "tool", "id": 1, "tool": "a", "args": []},
        {"call": "tool", "id": 1, "tool": "a", "args": {}, "state": []},
        {"call": "http", "id": 1, "method": "GET"},
        {"call": "http", "id": 1, "method": 3, "url": "http://a"},
        {"call": "collect", "id": 1},
    ],
)
async def test_a_question_that_is_none_is_a_protocol_error(question: Any, make: Make) -> None:
    """The run is over."""
    questions = question if isinstance(question, tuple) else (question,)
    with pytest.raises(SandboxProtocolError):
        await ran(make(sandbox=Forging(HONEST, *questions)), "return 1")
    assert (await stored(make.sessions)).events == []


async def test_a_tool_that_is_not_there_ends_a_run_that_asks_for_it(make: Make) -> None:
    """Though its code was found to name none, and its process goes on: what it asks then has no effect."""
    asked: list[Any] = []
    mock = MockTool(name="there", response=asked.append)
    questions: list[dict[str, Any]] = [
        {"call": "tool", "id": 1, "tool": name, "args": {}, "state": {}} for name in ("hidden", "there")
    ]
    forged = {**HONEST, "state_delta": {"changed": {"name": "Eve"}, "removed": []}}
    sandbox = Forging(forged, *questions)

    run = await ran(make(tools=[mock], sandbox=sandbox), "return 1")
    assert [reply["error"]["type"] for reply in sandbox.replies] == ["UnknownToolError"] * 2
    assert (error_of(run).type, run.result, asked) == ("UnknownToolError", {"error": str(run.error)}, [])
    assert (run.variables, (await stored(make.sessions)).events) == ({"name": "Ada"}, [])


async def test_a_callback_that_is_not_there_cannot_override(make: Make) -> None:
    """Its caller would look for it. Nothing changes that a callback was not given, nor by a run that failed.

    What is shown is what is stored, whatever the process says of variables that are not its own.
    """

    async def said(**forged: Any) -> CallbackRun:
        runtime = make(sandbox=Forging({**HONEST, **forged}))
        return await runtime.run_callback("before_agent", "pass", KEY)

    for index in (-1, 1, 99):
        with pytest.raises(SandboxProtocolError, match="unknown callback"):
            await said(overridden_by=index, result={})
    run = await said(changed={"llm_request": {"model": "other"}, "args": {"amount": 9}})
    assert (run.llm_request, run.args, run.changed) == (None, None, frozenset())
    error = {"type": "E", "message": "m", "traceback": "t"}
    delta = {"changed": {"name": "Eve"}, "removed": []}
    failed = await said(error=error, state_delta=delta, overridden_by=0, result={})
    assert (failed.override, failed.event_id, failed.variables) == (None, None, {"name": "Ada"})
    assert (await stored(make.sessions)).state == {"name": "Ada"}
    shown = await said(state={"name": "Eve"}, state_delta={"changed": {"a": 1}, "removed": []})
    assert shown.variables == (await stored(make.sessions)).state == {"name": "Ada", "a": 1}


async def test_what_it_says_of_itself_is_cut(make: Make) -> None:
    """A run is shown to somebody, and kept."""
    error = {"type": "E" * 10**6, "message": "m" * 10**6, "traceback": "t" * 10**6}
    warnings = [f"{number} {'w' * 10**4}" for number in range(1000)]

    run = await ran(make(sandbox=Forging({**HONEST, "error": error, "warnings": warnings})), "return 1")

    assert run.error is not None
    assert [len(text) for text in (run.error.type, run.error.message, run.error.traceback)] == [
        200,
        10_000,
        40_000,
    ]
    assert {len(text) for text in run.warnings} == {1000}
    assert len(run.warnings) == 100


@pytest.mark.parametrize("forged", [True, False])
async def test_code_that_reports_that_memory_ran_out_is_out_of_memory(make: Make, *, forged: bool) -> None:
    """As where its process was killed for it; its author sees the line, and what was printed."""
    error = {"type": "MemoryError", "message": "", "traceback": 'File "tool.py", line 2'}
    sandbox = {"sandbox": Forging({**HONEST, "error": error})} if forged else {}

    with pytest.raises(SandboxMemoryError, match=r'File "tool\.py", line') as raised:
        await ran(make(**sandbox), 'print("printed"); set_variable("a", 1); raise MemoryError')
    assert raised.value.output == "printed\n"
    assert (await stored(make.sessions)).events == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=5,
)


FRAMES = st.fixed_dictionaries({}, optional=dict.fromkeys([*HONEST, "call", "id", "tool", "method"], JSON))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(frame=FRAMES)
def test_any_frame_is_read_or_refused(frame: dict[str, Any]) -> None:
    """By one type of error, as an answer and as a question."""

    async def run(*questions: dict[str, Any]) -> None:
        sessions = InMemorySessionService()
        await sessions.create_session(app_name="shop", user_id="ada", session_id="s1")
        with contextlib.suppress(SandboxProtocolError):
            await ran(Make(sessions)(sandbox=Forging({**HONEST, **frame}, *questions)), "return 1")

    asyncio.run(run())
    asyncio.run(run(frame))
