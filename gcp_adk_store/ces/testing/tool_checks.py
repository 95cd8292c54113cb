"""Run tests of tools: each on a session of its own in memory."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.adk.sessions import InMemorySessionService

from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.apps.loading import load_code
from gcp_adk_store.ces.host.keys import SessionKey
from gcp_adk_store.ces.host.results import ToolRun
from gcp_adk_store.ces.host.runtime import PythonRuntime
from gcp_adk_store.ces.sandbox.errors import SandboxError, SandboxUnavailableError
from gcp_adk_store.ces.testing.expectations import Expectation
from gcp_adk_store.ces.testing.nodes import MalformedTestError
from gcp_adk_store.ces.testing.outcomes import Outcome, Status
from gcp_adk_store.ces.testing.tool_tests import ToolTest
from gcp_adk_store.ces.tools.declarations import Execution
from gcp_adk_store.ces.tools.mocks import MockConfig
from gcp_adk_store.errors import InvalidInputError

_APP: Final = "ces-test"
_STATE: Final = ("state", "variables")
_USER_CONTENT: Final = ("userContent", "user_content")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChecks:
    """What tests of tools are run on."""

    runtime: PythonRuntime
    """On *sessions*, with the tools of *app*."""
    sessions: InMemorySessionService
    app: AgentApp
    variables: Mapping[str, Any]
    """In place of declared defaults, or beside them."""

    async def run(self, test: ToolTest) -> Outcome:
        """Return what becomes of *test*.

        Raises:
            SandboxUnavailableError: no code can be run here.
        """
        if test.tool not in self.app.tool_names:
            known = ", ".join(sorted(self.app.tool_names)) or "none"
            return self._outcome(test, "error", (f"unknown tool {test.tool}; known: {known}",))
        began = time.perf_counter()
        try:
            run = await self._call(test)
        except SandboxUnavailableError:
            raise
        except (InvalidInputError, SandboxError) as exc:
            output = exc.output if isinstance(exc, SandboxError) else ""
            return self._outcome(test, "error", (str(exc),), stdout=output, began=began)
        wrong = [
            f"{where} {failure} ({test.path}:{each.line})"
            for where, document, expected in (
                ("response", run.response, test.response),
                ("variables", run.variables, test.variables_after),
            )
            for each in expected
            if (failure := each.failure(document))
        ]
        if run.error is not None and not (wrong or any(map(_is_of_error, test.response))):
            wrong.append("the tool raised an exception that the test does not expect")
        if wrong and run.error is not None:
            wrong.append(run.error.traceback.rstrip() or str(run.error))
        return self._outcome(
            test, "failed" if wrong else "passed", tuple(wrong), stdout=run.stdout, began=began
        )

    async def _call(self, test: ToolTest) -> ToolRun:
        context = dict(test.context or {})
        state = {**self.app.variables, **self.variables}
        missing = [name for name in test.declared if name not in state]
        if missing:
            raise InvalidInputError(f"the app declares no variable {missing[0]} with a default")
        for name in _STATE:
            state |= context.pop(name, None) or {}
        said = [context.pop(name, None) for name in _USER_CONTENT]
        session = await self.sessions.create_session(
            app_name=_APP, user_id="test", session_id=uuid.uuid4().hex, state=state | dict(test.variables)
        )
        key = SessionKey(_APP, "test", session.id)
        options: dict[str, Any] = {"user_content": said[0] or said[1], "context": context or None}
        if test.mock_config is not None:
            options["mocks"] = MockConfig.from_json(test.mock_config)
        tool = next((each for each in self.app.tools if each.name == test.tool), None)
        if tool is None:
            return await self.runtime.call_tool(test.tool, test.args, key, **options)
        # Mocks are of what it calls, not of the tool that is tested.
        execution: Execution = "ASYNCHRONOUS" if tool.asynchronous else "SYNCHRONOUS"
        run = await self.runtime.run_tool(
            load_code(tool.path), tool.name, test.args, key, execution=execution, **options
        )
        return await run.finished()

    @staticmethod
    def _outcome(
        test: ToolTest, status: Status, says: tuple[str, ...], *, stdout: str = "", began: float | None = None
    ) -> Outcome:
        return Outcome(
            path=test.path,
            line=test.line,
            name=test.name,
            subject=test.tool,
            status=status,
            says=says,
            stdout=stdout,
            duration_s=0.0 if began is None else time.perf_counter() - began,
        )


def _is_of_error(expectation: Expectation) -> bool:
    """Whether a test names the error of a tool that raises, by its path or in its value."""
    value = expectation.value
    within = value.get("result", value) if isinstance(value, dict) else None
    return expectation.path.has("error") or (isinstance(within, dict) and "error" in within)


def malformed(error: MalformedTestError) -> Outcome:
    """Return the outcome of a malformed test file."""
    return Outcome(
        path=error.path, line=error.line, name="the file", subject="", status="error", says=(error.says,)
    )
