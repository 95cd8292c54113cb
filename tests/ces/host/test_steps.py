"""The event loop of the host goes on, with everything that it serves, whatever code asks for."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store.ces import HttpPolicy, MockTool, OpenApiTool, PythonTool
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxError, SandboxOutputError
from tests.ces.host.runs import Make, ran, stored
from tests.ces.host.web import Web
from tests.support.loop_work import LoopWork, counted_steps

MOST_CALLS: Final = 300_000
"""Of functions, in one step of the event loop."""

PARAMETERS: Final = [
    {"name": "id", "in": "path"},
    *({"name": at, "in": at} for at in ("query", "header", "cookie")),
]
SPEC: Final = {
    "openapi": "3.0.0",
    "info": {"title": "Shop"},
    "servers": [{"url": "http://127.0.0.1:1"}],
    "paths": {"/{id}": {"get": {"operationId": "get", "parameters": PARAMETERS}}},
}


@pytest.fixture
def steps() -> Iterator[LoopWork]:
    """Steps of the test's event loop, from now on."""
    with counted_steps() as found:
        yield found


ASKED: Final = {
    "400,000 headers": "ces_requests.get(URL, headers={f'h{n}': 'v' for n in range(400_000)})",
    "as many headers as a frame has": "ces_requests.get(URL, headers={f'h{n}': 'v' for n in range(45_000)})",
    "headers of the host's": (
        "from itertools import product\n"
        "names = [''.join(each) for each in product(*zip('accept-encoding', 'ACCEPT-ENCODING'))]\n"
        "ces_requests.get(URL, headers=dict.fromkeys(names, 'v'))"
    ),
    "a long header": "ces_requests.get(URL, headers={'h': 'v' * 10_000_000})",
    "400,000 params": "ces_requests.get(URL, params={f'p{n}': 1 for n in range(400_000)})",
    "forged params": "ces_requests.get(URL, params=[['p', n] for n in range(45_000)])",
    "params of one name": "ces_requests.get(URL, params={'p': list(range(45_000))})",
    "long params": "ces_requests.get(URL, params={'p': 'é' * 5_000_000})",
    "params as a long text": "ces_requests.get(URL, params='a=b&' * 2_500_000)",
    "a long URL": "ces_requests.get(URL + '/é' * 3_000_000)",
    "a long form": "ces_requests.post(URL, data={'f': 'é' * 5_000_000})",
    "a form of many fields": "ces_requests.post(URL, data={f'f{n}': 'é' for n in range(45_000)})",
    "a long text": "ces_requests.post(URL, data='é' * 5_000_000)",
    "much JSON": "ces_requests.post(URL, json={f'f{n}': 'é' for n in range(45_000)})",
    "many arguments": "tools.mock({f'f{n}': 'é' for n in range(45_000)})",
    "a long part of a path": "tools.Shop_get({'id': 'é' * 5_000_000})",
    "a long parameter": "tools.Shop_get({'id': '1', 'query': 'é' * 5_000_000})",
    "a long cookie": "tools.Shop_get({'id': '1', 'cookie': 'é' * 5_000_000})",
    "a long header of an operation": "tools.Shop_get({'id': '1', 'header': 'v' * 10_000_000})",
    "200,000 small variables": "for n in range(200_000): set_variable(f'v{n}', n)",
    "as many variables as a frame holds": "for n in range(45_000): set_variable(f'v{n}', n)",
    "variables of 5 MB": "for n in range(20): set_variable(f'v{n}', 'x' * 250_000)",
    "a text of many commas": "return ',' * 5_000_000",
    "a text of many quotation marks": "return '\"' * 2_500_000",
    "a text of commas and quotation marks": "forge(b'\"' + b',\\\\\"' * 4_000_000 + b'\"')",
    "many texts of many quotation marks": (
        "forge(b'[' + b','.join([b'\"' + b'\\\\\"' * 100 + b'\"'] * 49_000) + b']')"
    ),
    "long numbers": "forge(b'[' + b','.join([b'1' * 4000] * 2900) + b']')",
    "long numbers together": "forge(b'[' + b','.join([b'1' * 4000] * 970) + b']')",
    "numbers of 80 digits": "forge(b'[' + b','.join([b'1' * 79] * 49_000) + b']')",
    "long floats": "import os\nlong = b'0.' + b'1' * 11_000_000\n" + "forge(long)",
    "arguments of a tool with code": "tools.same({f'f{n}': 'é' for n in range(40_000)})",
    "a large result": "return 'x' * 11_000_000",
}

FORGING: Final = """
def forge(value):
    import os
    text = b'{"result": {"x": ' + value + b'}}'
    text = len(text).to_bytes(4, "big") + text
    while text:
        text = text[os.write(3, text):]
    os.read(3, 1)
"""


@pytest.mark.sample(5)
@pytest.mark.parametrize("code", ASKED.values(), ids=ASKED)
async def test_no_step_of_the_host_is_long(
    code: str, make: Make, bubblewrap: BubblewrapSandbox, web: Web, steps: LoopWork
) -> None:
    """Whatever code asks for, and however it ends: other sessions are served meanwhile."""
    mock = MockTool(name="mock", response={"result": 1})
    same = PythonTool(name="same", code="def same(**given):\n    return given\n")
    tools = [mock, same, OpenApiTool.from_spec(SPEC)]
    http = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True)
    runtime = make(sandbox=bubblewrap, tools=tools, http=http)

    await ran(runtime, f"ces_requests.get({web.url!r})")  # the first one imports, and reads certificates
    await asyncio.sleep(0)  # ends the step that is counted
    steps.calls = 0
    with contextlib.suppress(SandboxError):
        await ran(runtime, f"{FORGING}\nURL = {web.url!r}\n{code}")
    await asyncio.sleep(0)

    assert 0 < steps.calls < MOST_CALLS


async def test_a_long_session_is_shown_to_code_in_short_steps(
    make: Make, bubblewrap: BubblewrapSandbox, steps: LoopWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events are made JSON, and are sent, while other sessions are served."""
    count = 4000
    event = Event(
        author="user",
        invocation_id="turn",
        content=types.Content(role="user", parts=[types.Part(text="hello")]),
        actions=EventActions(state_delta={"n": 1}),
    )
    session = Session(id="s1", app_name="shop", user_id="ada", events=[event] * count)

    async def read(**_: Any) -> Session:
        return session

    monkeypatch.setattr(make.sessions, "get_session", read)  # ADK's own copies all events in one step
    runtime = make(sandbox=bubblewrap)
    await asyncio.sleep(0)
    steps.calls = 0
    run = await ran(runtime, "return len(context.events)")
    await asyncio.sleep(0)

    assert count == run.result
    assert 0 < steps.calls < MOST_CALLS


async def test_what_is_shown_of_a_call_is_bounded(make: Make, bubblewrap: BubblewrapSandbox) -> None:
    """By the beginning of each argument, and that is said. Too many variables are not changed at all."""
    mock = MockTool(name="mock", response={"result": 1})
    code = (
        "for given in ({'a': 'x' * 9}, {'a': 'x' * 100_000, 'b': 1}, {'a': [1] * 40_000}): tools.mock(given)"
    )

    run = await ran(make(sandbox=bubblewrap, tools=[mock]), code)
    whole, text, numbers = run.calls
    assert (whole.asked, whole.asked_whole) == ({"a": "x" * 9}, True)
    assert (text.asked, text.asked_whole) == ({"a": "x" * 512, "b": "1"}, False)
    assert (numbers.asked, numbers.asked_whole) == ({"a": ("[" + "1, " * 512)[:512]}, False)

    runtime = make(sandbox=bubblewrap)

    with pytest.raises(SandboxOutputError, match="10,001 variables"):
        await ran(runtime, "for n in range(10_001): set_variable(f'v{n}', n)")
    assert (await stored(make.sessions)).events == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("headers={f'h{n}': '' for n in range(101)}", "101 headers"),
        ("headers={'h': 'v' * 70_000}", "the headers have 70,001"),
        ("params={'p': [1] * 1001}", "1,001 params"),
        ("params='a=1&' * 1001", "1,001 params"),
        ("params={'p': 'v' * 70_000}", "70,001 characters"),
        ("data={f'f{n}': 1 for n in range(1001)}", "1,001 fields"),
        ("data={'f': 'v' * 600_000}", "600,001 characters"),
        ("data='v' * 2_100_000", "HttpPolicy.max_request_bytes"),
        ("json='v' * 2_100_000", "HttpPolicy.max_request_bytes"),
    ],
)
async def test_a_request_of_too_much_is_not_sent(
    given: str, why: str, make: Make, bubblewrap: BubblewrapSandbox
) -> None:
    """The status is 0, and a warning says what there is too much of."""
    http = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True)

    run = await ran(
        make(sandbox=bubblewrap, http=http),
        f"return ces_requests.post('http://127.0.0.1:1', {given}).status_code",
    )
    assert run.result == 0
    assert why in run.warnings[-1]
