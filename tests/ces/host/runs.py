"""Run tools whose code a test writes, and look at what is stored."""

import asyncio
import textwrap
from collections.abc import Callable, Coroutine
from typing import Any, Final

from google.adk.sessions import BaseSessionService, Session

from gcp_adk_store.ces import PythonRuntime, SessionKey, SessionKeyLike, ToolRun
from gcp_adk_store.ces.host.results import Call, Run, RunFailure
from gcp_adk_store.ces.sandbox import InProcessSandbox

KEY: Final = "shop/ada/s1"


class Make:
    """Makes runtimes that run the tests' own code in this process."""

    def __init__(self, sessions: BaseSessionService) -> None:
        self.sessions = sessions
        """Of which there is one, unless a runtime is made on others."""
        self.made: list[PythonRuntime] = []

    def __call__(self, **options: Any) -> PythonRuntime:
        """Return a runtime with *options*."""
        service = options.pop("sessions", self.sessions)
        self.made.append(PythonRuntime(service, **{"sandbox": InProcessSandbox(), **options}))
        return self.made[-1]


class Gate:
    """A tool, or a sandbox, that signals when it is called, and answers once it is opened."""

    def __init__(self, answer: Any = 1) -> None:
        self.begun, self.opened = asyncio.Event(), asyncio.Event()
        self._answer = answer

    async def __call__(self, *_: object, **__: object) -> Any:
        self.begun.set()
        await self.opened.wait()
        return self._answer


class Acted:
    """A sandbox that does what a test says in place of running code."""

    runs_at_once = None

    def __init__(self, run: Callable[..., Coroutine[Any, Any, dict[str, Any]]]) -> None:
        self.run = run

    async def close(self) -> None:
        """Do nothing."""


def tool(body: str, *, name: str = "tool", parameters: str = "") -> str:
    """Return the file of a tool that does *body*."""
    return f"def {name}({parameters}):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"


async def stored(sessions: BaseSessionService, key: SessionKeyLike = KEY) -> Session:
    """Return the session as others see it."""
    parsed = SessionKey.of(key)
    found = await sessions.get_session(app_name=parsed.app, user_id=parsed.user, session_id=parsed.session)
    assert found is not None
    return found


async def result_of(runtime: PythonRuntime, body: str, **options: Any) -> Any:
    """Return what a tool returns whose body is *body*; it must not fail."""
    run = await ran(runtime, body, **options)
    assert run.error is None, run.error.traceback
    return run.result


async def ran(runtime: PythonRuntime, body: str, **options: Any) -> ToolRun:
    """Return the run of a tool whose body is *body*."""
    return await runtime.run_tool(tool(body), "tool", {}, options.pop("key", KEY), **options)


def error_of(run: Run | Call) -> RunFailure:
    """Return the error of a run that failed."""
    assert run.error is not None
    return run.error
