"""Answer calls of tools: by mocks and fakes first, then by the tool; hold the options of a run."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeAlias, TypedDict

from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.ces.host.results import Answer, Reply, RunFailure
from gcp_adk_store.ces.host.settings import USER, RuntimeSettings, SessionKey, SessionKeyLike
from gcp_adk_store.ces.http.fetching import HttpAccess
from gcp_adk_store.ces.sandbox.interface import SandboxRunError
from gcp_adk_store.ces.tools.declarations import (
    CodeFile,
    FakeTools,
    MockConfig,
    MockTool,
    PythonTool,
    Tool,
    declaration_of,
)
from gcp_adk_store.ces.tools.openapi import OpenApiTool
from gcp_adk_store.ces.tools.parameters import CredentialMissingError
from gcp_adk_store.ces.tools.session_fields import ArgumentsError, SessionValues
from gcp_adk_store.errors import InvalidInputError, OverloadedError
from gcp_adk_store.kernel.operation import kinds_of_members

CALL_ID: Final = "call-"
"""What ids of calls begin with that this package makes."""
_BAD_REQUEST: Final = 400
_UNAUTHORIZED: Final = 401
_FAILED: Final = 500
_SYNCHRONOUS_S: Final = 30.0
_ASYNCHRONOUS_S: Final = 60.0
"""What tools may take that do not say how long."""
_LONGEST_S: Final = 300.0
"""The limit for each tool, also if its app asks for more: the host decides how long it works for an app."""


class RunOptions(TypedDict, total=False):
    """Options of a run."""

    agent_name: str | None
    """By default that of the settings."""
    invocation_id: str | None
    """By default a new one."""
    function_call_id: str | None
    """Of a tool, or of callbacks of tools; by default a new one."""
    event_id: str | None
    """Of the event that the run appends; by default a new one. If the events that code sees include it
    already, the run raises a SessionConflictError before its code begins. So a repeat is safe."""
    user_content: Any
    """The last message of the user, if the session does not have it yet: ADK's Content, or JSON."""
    context: Mapping[str, Any] | None
    """Further fields of ``context``, such as ``language_code``."""
    mocks: MockConfig | None
    """Answers to the tool calls of the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The options of one run, complete."""

    what: str
    """The public operation and what it is about, for messages: names, never content."""
    key: SessionKey
    agent_name: str
    invocation_id: str
    function_call_id: str
    event_id: str
    may_be_stored: bool
    """Whether the caller names the event, which an earlier run may have stored then."""
    user_content: Any
    context: Mapping[str, Any]
    """Once the session is open, all that code sees of it, but for the variables."""
    mocks: MockConfig | None

    @property
    def operation(self) -> str:
        """The public operation, such as ``run_tool``."""
        return self.what.partition(" ")[0]

    @property
    def asker(self) -> str:
        """The user, for what is shared fairly among them."""
        return str(self.key).rpartition("/")[0]

    def context_with(self, state: Mapping[str, Any], *, function_call_id: str) -> dict[str, Any]:
        """Return the context of one run."""
        return {**self.context, "state": dict(state), "functionCallId": function_call_id}

    @classmethod
    def of(cls, what: str, key: SessionKeyLike, settings: RuntimeSettings, given: RunOptions) -> Self:
        """Return the invocation with the options *given*, and defaults for missing ones.

        Raises:
            InvalidInputError: *key* is not valid, an option is of another kind, or the agent has the name
                ``user``.
            TypeError: an option is unknown.
        """
        kinds = kinds_of_members(RunOptions)
        if unknown := given.keys() - kinds.keys():
            raise TypeError(f"unknown options of a run: {', '.join(sorted(unknown))}")
        for option, value in given.items():
            kinds[option].require(value)
        if given.get("agent_name") == USER:
            raise InvalidInputError(f"agent_name cannot be {USER!r}")
        return cls(
            what=what,
            key=SessionKey.of(key),
            agent_name=given.get("agent_name") or settings.agent_name,
            invocation_id=given.get("invocation_id") or f"e-{platform_uuid.new_uuid()}",
            function_call_id=given.get("function_call_id") or new_call_id(),
            event_id=given.get("event_id") or Event.new_id(),
            may_be_stored=bool(given.get("event_id")),
            user_content=given.get("user_content"),
            context=given.get("context") or {},
            mocks=given.get("mocks"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool, by code or by a model."""

    name: str
    args: dict[str, Any]
    state: Mapping[str, Any]
    """The variables that the tool sees."""
    by_code: bool
    """Whether code calls it: then a mock has to fit, where `MockConfig.unmatched` wants that."""
    invocation: Invocation
    """The run that it belongs to."""
    function_call_id: str

    def context(self) -> dict[str, Any]:
        """Return the context of the run that answers it."""
        return self.invocation.context_with(self.state, function_call_id=self.function_call_id)


RunRequest: TypeAlias = Callable[..., Awaitable[Answer]]
"""Runs a request within the run that asks for it: gets both, and perhaps ``timeout_s``."""


def new_call_id() -> str:
    """Return an id for a call of a function."""
    return f"{CALL_ID}{platform_uuid.new_uuid()}"


class Toolbox:
    """Every tool that code may call."""

    def __init__(self, callees: Mapping[str, Tool], *, http: HttpAccess, mocks: MockConfig | None) -> None:
        self.callees = callees
        self._descriptions: dict[str, str] = {}
        self._http = http
        self._mocks = mocks

    def names(self, mocks: MockConfig | None = None) -> list[str]:
        """Return every name that ``tools.X`` may have, sorted, also those of *mocks* of the run alone."""
        mocked = (call.tool for each in (mocks, self._mocks) if each is not None for call in each.calls)
        return sorted({*self.callees, *mocked})

    async def reply(self, call: ToolCall, run: RunRequest) -> Reply:
        """Return the answer to *call*; *run* runs the code of Python tools and fakes.

        Raises:
            SandboxUnavailableError: the sandbox cannot run here.
            TypeError, ValueError: the answer of a mock is not JSON. Any exception of the function of a mock.
        """
        return await self.stand_in(call, run) or await self.of_tool(call, run)

    async def stand_in(self, call: ToolCall, run: RunRequest) -> Reply | None:
        """Return the answer of a mock or a fake to *call*, or None; raises as :meth:`reply`."""
        for mocks in (call.invocation.mocks, self._mocks):
            if mocks is None:
                continue
            if (mocked := mocks.find(call.name, call.args)) is not None:
                return Reply.of_json(mocked.response, mocked=True)
            if mocks.unmatched == "FAIL" and call.by_code:
                return Reply.ends("UnmatchedToolCallError", f"no mock fits this call of {call.name}")
        callee = self.callees.get(call.name)
        fake = None if callee is None else callee.fake
        function = None if fake is None else fake.function_for(call.name)
        return None if fake is None or function is None else await self._faked(fake, function, call, run)

    def description_of(self, name: str) -> str:
        """Return the description of the tool *name* that models see; empty for an unknown tool."""
        if name not in self._descriptions and name in self.callees:
            self._descriptions[name] = declaration_of(name, self.callees[name])["description"]
        return self._descriptions.get(name, "")

    async def _faked(self, fakes: FakeTools, function: str, call: ToolCall, run: RunRequest) -> Reply | None:
        request = {
            "kind": "callback",
            "callback": "before_tool",
            "code": [{"source": fakes.source, "filename": fakes.filename, "name": function}],
            "tool": {"name": call.name, "description": self.description_of(call.name)},
            "args": call.args,
            "context": call.context(),
        }
        ran = await run(request, call.invocation)
        if ran.error is not None:
            return Reply.ends("FakeToolError", f"{fakes.filename}: {ran.error}")
        if ran.overridden_by is None:
            return None
        return Reply(
            text=Reply.of_json(ran.result).text,
            delta=ran.delta,
            mocked=True,
            stdout=ran.stdout,
            said=ran.warnings,
        )

    async def of_tool(self, call: ToolCall, run: RunRequest) -> Reply:
        """Return the answer of the tool itself to *call*; raises as :meth:`reply`."""
        match self.callees.get(call.name):
            case PythonTool() as tool:
                return await _of_python(tool, call, run)
            case OpenApiTool() as tool:
                return await self._of_operation(tool, call)
            case MockTool() as tool:
                answer = tool.response(call.args) if callable(tool.response) else tool.response
                reply = Reply.of_json(await answer if inspect.isawaitable(answer) else answer, mocked=True)
                return replace(reply, status_code=tool.status_code, reason=tool.reason)
            case None:
                return Reply.ends("UnknownToolError", f"unknown tool {call.name[:100]!r}")

    async def _of_operation(self, tool: OpenApiTool, call: ToolCall) -> Reply:
        try:
            session = SessionValues(context=call.invocation.context, variables=call.state)
            outgoing = tool.request(call.name, call.args, session)
        except ArgumentsError as exc:
            status = _UNAUTHORIZED if isinstance(exc, CredentialMissingError) else _BAD_REQUEST
            return Reply(status_code=status, reason=str(exc), error=failure_of(exc))
        return Reply.of_fetched(await self._http.fetch(outgoing, asker=call.invocation.asker))


async def run_python(tool: PythonTool, call: ToolCall, run: RunRequest) -> Answer:
    """Run the code of *tool* for *call*, as long as on the platform, and no longer than a host waits."""
    usual = _ASYNCHRONOUS_S if tool.execution == "ASYNCHRONOUS" else _SYNCHRONOUS_S
    code = CodeFile.of(tool.code).wire(function=tool.name, filename=f"{tool.name}.py")
    request = {"kind": "tool", "code": [code], "args": call.args, "context": call.context()}
    return await run(request, call.invocation, timeout_s=min(tool.timeout_s or usual, _LONGEST_S))


async def _of_python(tool: PythonTool, call: ToolCall, run: RunRequest) -> Reply:
    try:
        ran = await run_python(tool, call, run)
    except SandboxRunError as exc:
        return Reply.failed(_FAILED, failure_of(exc), stdout=exc.output)
    except (InvalidInputError, OverloadedError) as exc:  # too large for a sandbox; or no sandbox was free
        return Reply.failed(_FAILED, failure_of(exc))
    if ran.error is not None:
        return Reply.failed(_FAILED, ran.error, stdout=ran.stdout)
    return Reply(
        text=Reply.of_json(ran.response).text,
        delta=ran.delta,
        stdout=ran.stdout,
        said=ran.warnings,
    )


def failure_of(error: Exception) -> RunFailure:
    """Return what ended a run from outside as its failure."""
    return RunFailure(type=type(error).__name__, message=str(error))
