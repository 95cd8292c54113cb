"""Hold a conversation with the sample's agent: its callbacks and tools run as on their platform.

There is no model: what one would call and say is written down here. ``python -m examples.ces.conversation``
lets one process begin and another go on, on the Firestore emulator; it exits with 0 only if all came as it
should.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions import BaseSessionService
from google.genai import types

from examples.ces.api import account_server
from gcp_adk_store import Store
from gcp_adk_store.ces import HttpPolicy, PythonRuntime, RuntimeSettings, load_code, load_tools, read_app
from gcp_adk_store.ces.sandbox import Limits, SandboxUnavailableError
from gcp_adk_store.testing.emulators import EmulatorError, firestore_emulator

APP: Final = read_app(Path(__file__).parent / "app")
KEY: Final = "support/ada/call-1"
WHO: Final[Mapping[str, Any]] = {"app_name": "support", "user_id": "ada", "session_id": "call-1"}


class Call:
    """One caller's conversation."""

    def __init__(self, sessions: BaseSessionService, api_url: str) -> None:
        self._sessions = sessions
        host = api_url.removeprefix("http://")
        self.runtime = PythonRuntime(
            sessions,
            tools=load_tools(APP),
            http=HttpPolicy(allow=[host], allow_loopback=True),
            # A tool that calls others waits for a sandbox of each, which a busy machine starts slowly.
            settings=RuntimeSettings(limits=Limits(wall_s=300)),
        )

    async def hear(self, said: str) -> str:
        """Append what the caller said; return what callbacks answer in place of the model."""
        session = await self._sessions.get_session(**WHO)
        assert session is not None
        content = types.Content(role="user", parts=[types.Part(text=said)])
        await self._sessions.append_event(
            session, Event(author="user", invocation_id=uuid.uuid4().hex, content=content)
        )
        ran = await self.runtime.run_callback("before_model", _code("before_model"), KEY, llm_request={})
        print(f"caller: {said}")
        return "(the model answers)" if ran.override is None else _told(ran.override["content"]["parts"])

    async def use(self, tool: str, args: Mapping[str, Any]) -> Any:
        """Call a tool as a model does; return what the model gets to see."""
        ran = await self.runtime.call_tool(tool, args, KEY)
        after = await self.runtime.run_callback(
            "after_tool", _code("after_tool"), KEY, tool=tool, args=args, tool_response=ran.response
        )
        assert after.tool_response is not None
        return (after.override or after.tool_response)["result"]

    async def end(self) -> str:
        """Let the model end the session without a word; return what the caller hears."""
        ending = {"functionCall": {"name": "end_session", "args": {"reason": "done"}}}
        response = {"content": {"role": "model", "parts": [ending]}}
        ran = await self.runtime.run_callback("after_model", _code("after_model"), KEY, llm_response=response)
        assert ran.llm_response is not None
        return _told(ran.llm_response["content"]["parts"])


def _code(kind: str) -> list[Any]:
    return [load_code(each.path) for each in APP.callbacks if each.callback == kind and not each.disabled]


def _told(parts: list[Mapping[str, Any]]) -> str:
    """Return what of *parts* is heard."""
    spoken = [
        part.get("text") or part.get("functionCall", {}).get("name") or "(a voice message)" for part in parts
    ]
    return " + ".join(spoken)


async def begin(project: str, api_url: str) -> None:
    """Greet, verify, arrange."""
    async with Store.connect(project=project) as store:
        sessions = store.sessions
        await sessions.create_session(**WHO, state={**APP.variables, "api_url": api_url})
        call = Call(sessions, api_url)
        async with call.runtime:
            _expect("(a voice message)", await call.hear("<event>session start</event>"))
            _expect("(the model answers)", await call.hear("I cannot pay my bill. 1234 5678, 10115."))
            verified = await call.use(
                "verify_customer", {"account_number": "1234 5678", "postal_code": "10115"}
            )
            _expect("Ada", verified["name"])
            arranged = await call.use("arrange_payment", {"months": 3})
            _expect([8217, 8217, 8216], arranged["parts_cents"])


async def go_on(project: str, api_url: str) -> None:
    """Know who calls, look for an outage, notice silence, say goodbye."""
    async with Store.connect(project=project) as store:
        sessions = store.sessions
        call = Call(sessions, api_url)
        async with call.runtime:
            _expect("(the model answers)", await call.hear("And there is no light."))
            checked = await call.use("check_services", {})
            _expect(["electricity", "gas", "water"], [each["service"] for each in checked["services"]])
            _expect("Say that electricity is out until 18:00; offer a message.", checked["agent_action"])
            silence = "<context>no user activity detected for 10 seconds.</context>"
            _expect("Are you still there?", await call.hear(silence))
            _expect("(the model answers)", await call.hear("Yes. A message is fine, thank you."))
            _expect("Goodbye, Ada. + end_session", await call.end())
        session = await sessions.get_session(**WHO)
        assert session is not None
        _expect({"service": "electricity", "until": "18:00"}, session.state["outage"])
        _expect({"months": 3, "parts_cents": [8217, 8217, 8216]}, session.state["arrangement"])
        _expect(
            (True, True, 0), (session.state["verified"], session.state["greeted"], session.state["silences"])
        )


def _expect(expected: object, found: object) -> None:
    assert expected == found, f"expected {expected!r}, found {found!r}"
    print(f"        {found}")


def main() -> int:
    """Run the first process, or with ``--second`` the one that goes on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--second", nargs=2, metavar=("PROJECT", "URL"), help=argparse.SUPPRESS)
    second = parser.parse_args().second
    if second:
        asyncio.run(go_on(*second))
        return 0
    project = f"demo-{uuid.uuid4().hex[:20]}"
    try:
        with firestore_emulator() as emulator, account_server() as api_url:
            os.environ[emulator.variable] = emulator.address
            asyncio.run(begin(project, api_url))
            print("-- another process goes on", flush=True)
            command = [sys.executable, "-m", "examples.ces.conversation", "--second", project, api_url]
            return subprocess.run(command, check=False).returncode
    except (EmulatorError, SandboxUnavailableError) as exc:
        print(exc, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
