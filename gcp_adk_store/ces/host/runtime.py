"""Run tools and callbacks on sessions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from google.adk.artifacts import BaseArtifactService
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import BaseSessionService
from google.genai import types
from pydantic import TypeAdapter

from gcp_adk_store.ces.guest.contract import CALLBACKS, subjects_of
from gcp_adk_store.ces.guest.models import NotJsonError, plain, sendable
from gcp_adk_store.ces.host.admission import open_sandbox
from gcp_adk_store.ces.host.engine import Engine
from gcp_adk_store.ces.host.invocation import Invocation, RunOptions
from gcp_adk_store.ces.host.results import MAY_CHANGE, Answer, CallbackRun, NoteRun, Reply, ToolRun
from gcp_adk_store.ces.host.session_context import to_object
from gcp_adk_store.ces.host.session_runs import SessionRuns
from gcp_adk_store.ces.host.settings import RuntimeSettings, SessionKeyLike
from gcp_adk_store.ces.http.policy import HttpPolicy
from gcp_adk_store.ces.sandbox.interface import Sandbox
from gcp_adk_store.ces.tools.declarations import CodeFile, Execution, MockConfig, PythonTool, Tool, by_name
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import require_arguments
from gcp_adk_store.kernel.process import Closing


def callback_request(
    kind: str, code: str | CodeFile | Sequence[str | CodeFile], subjects: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request that calls the callbacks of *kind* in *code* about *subjects*.

    Raises:
        InvalidInputError: the kind is unknown, or the code or a subject that the kind needs is missing.
    """
    if not isinstance(kind, str):
        raise InvalidInputError(f"kind must be a string, not {type(kind).__name__}")
    callback = kind.removesuffix("_callback")
    if callback not in CALLBACKS:
        raise InvalidInputError(f"unknown callback {kind[:40]!r}; known: {', '.join(CALLBACKS)}")
    files = [*code] if isinstance(code, Sequence) and not isinstance(code, str) else [code]
    if not files:
        raise InvalidInputError("code is empty; give at least one file")
    missing = [name for name in subjects_of(callback) if subjects.get(name) is None]
    if missing:
        raise InvalidInputError(f"{callback}_callback needs {' and '.join(missing)}")
    numbers = [""] if len(files) == 1 else [f"_{number:02}" for number in range(1, len(files) + 1)]
    return {
        "kind": "callback",
        "callback": callback,
        "code": [
            CodeFile.of(file).wire(function=None, filename=f"{callback}_callback{number}.py")
            for file, number in zip(files, numbers, strict=True)
        ],
        **{name: to_object(_without_classes(subjects[name]), name) for name in subjects_of(callback)},
    }


def _without_classes(subject: Any) -> Any:
    """Return *subject*; a request of ADK that has its output schema as a class has it as JSON then."""
    if not isinstance(subject, LlmRequest):
        return subject
    schema: Any = subject.config.response_schema
    if schema is None or isinstance(schema, dict | types.Schema):
        return subject
    config = subject.config.model_copy(update={"response_schema": TypeAdapter(schema).json_schema()})
    return subject.model_copy(update={"config": config})


class PythonRuntime(Closing):
    """Runs Python tools and callbacks on the sessions of an ADK session service.

    Variables are the session's state. A run that succeeds appends one event with its changes, or no event if
    it changed nothing. A run that fails, in any way, changes nothing. An exception of the code is the
    result's ``error``. If the process ends, the run raises a ``SandboxError``, and the next run works.

    Runs of one session take turns within this object. Tools that code calls run within its run.

    Every run may raise what the session service raises, and:

    * ``SessionMissingError``: the session does not exist; the code did not run.
    * ``SessionConflictError``: another writer was first. The code has run, and nothing is stored.
      ``RuntimeSettings.reruns_on_conflict`` makes the code run again, and its host calls happen again.
      Or the session has the event of ``event_id`` already; then the code has not run, unless the event was
      stored during the run.
    * ``OverloadedError``: no sandbox was free within ``longest_wait_s``, or ``waiting_per_session`` runs of
      the session wait already; the code did not run.
    * ``SandboxUnavailableError``: the sandbox cannot run here; the code did not run.
    * ``SandboxTimeoutError``, ``SandboxMemoryError``, ``SandboxOutputError``, ``SandboxCrashError``,
      ``SandboxProtocolError``: how the code's process ended.
    * ``InvalidInputError``: a key, code or argument is not valid, or the run begins within another run of
      the same session. For variables that cannot be stored, it is the result's ``error``.
    """

    def __init__(
        self,
        session_service: BaseSessionService,
        *,
        artifact_service: BaseArtifactService | None = None,
        tools: Iterable[Tool] = (),
        http: HttpPolicy | None = None,
        sandbox: Sandbox | str | None = None,
        settings: RuntimeSettings | None = None,
        mocks: MockConfig | None = None,
        note_run: NoteRun | None = None,
    ) -> None:
        """Create a runtime; the sandbox starts with the first run.

        Args:
            session_service: The service of the sessions: this library's, or any of ADK's.
            artifact_service: The service of the files that ``context.user_content`` may refer to.
            tools: The tools of code and of models.
            http: The hosts that requests may reach; by default none.
            sandbox: ``bubblewrap`` (the default), ``inprocess``, which does not isolate the code, or a
                sandbox to borrow, which stays open on :meth:`close`. Runtimes that borrow the same
                sandbox share its places.
            settings: Choices where the platform's behaviour is not known, and limits.
            mocks: Answers to calls of tools, in every run.
            note_run: Called after each run that printed, warned of something or failed, with its session and
                its :class:`~gcp_adk_store.ces.RunLog`. Tools that code called come before the run itself.

        Raises:
            InvalidInputError: two tools have one name, the name of the sandbox is unknown, or an argument is
                of another kind.
        """
        require_arguments(PythonRuntime.__init__, locals())
        if not (sandbox is None or isinstance(sandbox, str) or hasattr(sandbox, "runs_at_once")):
            says = f"sandbox must be a sandbox, or the name of one, not {type(sandbox).__name__}"
            raise InvalidInputError(says)
        settings = settings or RuntimeSettings()
        callees = by_name(tools)
        self._sandbox, room = open_sandbox(sandbox, settings)
        self._owns_sandbox = self._sandbox is not sandbox
        self._settings = settings
        http = http or HttpPolicy()
        self._engine = Engine(self._sandbox, callees, http=http, mocks=mocks, settings=settings, room=room)
        self._sessions = SessionRuns(session_service, artifact_service, settings, note_run)

    async def run_tool(
        self,
        code: str | CodeFile,
        name: str,
        args: Mapping[str, Any],
        key: SessionKeyLike,
        *,
        execution: Execution = "SYNCHRONOUS",
        timeout_s: float | None = None,
        **options: Unpack[RunOptions],
    ) -> ToolRun:
        """Call the tool *name* that *code* defines; it need not be one of ``tools``.

        Args:
            code: The tool's file.
            name: The tool, and its function.
            args: The arguments, as JSON.
            key: The session.
            execution: ``ASYNCHRONOUS``: return a placeholder at once, and append the response later, as a
                function response by the user.
            timeout_s: As of a :class:`~gcp_adk_store.ces.PythonTool`.
            options: Of this run.
        """
        tool = PythonTool(name=name, code=code, execution=execution, timeout_s=timeout_s)
        invocation = Invocation.of(f"run_tool {name}", key, self._settings, options)
        return await self._run_tool(tool, args, invocation)

    async def call_tool(
        self, name: str, args: Mapping[str, Any], key: SessionKeyLike, **options: Unpack[RunOptions]
    ) -> ToolRun:
        """Call the tool *name* of ``tools``, of any kind, as a model does.

        Matching mocks, then fakes, answer first. Arguments as of :meth:`run_tool`. The response of an OpenAPI
        operation is the body of the answer, under ``result`` unless it is a JSON object. The response of an
        operation that failed has the key ``error``.

        Raises:
            InvalidInputError: the tool is unknown.
        """
        if not isinstance(name, str):
            raise InvalidInputError(f"name must be a string, not {type(name).__name__}")
        tool = self._engine.callees.get(name)
        if tool is None:
            known = ", ".join(sorted(self._engine.callees)) or "none"
            raise InvalidInputError(f"unknown tool {name!r:.100}; known: {known}")
        invocation = Invocation.of(f"call_tool {name}", key, self._settings, options)
        return await self._run_tool(tool, args, invocation, may_stand_in=True)

    async def run_callback(
        self,
        kind: str,
        code: str | CodeFile | Sequence[str | CodeFile],
        key: SessionKeyLike,
        *,
        llm_request: Any = None,
        llm_response: Any = None,
        tool: str | Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
        tool_response: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> CallbackRun:
        """Call the callbacks of *kind* in order; the first that returns something ends it.

        Arguments as of :meth:`run_tool`, and:

        Args:
            kind: ``before_agent``, ``after_agent``, ``before_model``, ``after_model``, ``before_tool`` or
                ``after_tool``, with or without ``_callback``. Callbacks of guardrails are
                ``before_agent_guardrail`` and so on; the override is the result of one that triggers.
            code: One file, or several; disabled ones are left out.
            key: The session.
            llm_request: Of ``before_model``, and of a guardrail's: ADK's, or JSON.
            llm_response: Of ``after_model``, and of a guardrail's.
            tool: Of callbacks of tools: its name, or ``name`` and ``description``.
            args: Of callbacks of tools, the ``input``.
            tool_response: Of ``after_tool``.
            options: Of this run.
        """
        if isinstance(tool, str):
            tool = {"name": tool, "description": self._engine.description_of(tool)}
        subjects = {
            "llm_request": llm_request,
            "llm_response": llm_response,
            "tool": tool,
            "args": args,
            "tool_response": tool_response,
        }
        request = callback_request(kind, code, subjects)
        invocation = Invocation.of(f"run_callback {request['callback']}", key, self._settings, options)

        answer, fields = await self._sessions.run(invocation, partial(self._engine.run, request))
        after: dict[str, Any] = {name: answer.changed.get(name, request.get(name)) for name in MAY_CHANGE}
        return CallbackRun(
            **fields,
            kind=request["callback"],
            override=None if answer.overridden_by is None else answer.result,
            overridden_by=answer.overridden_by,
            **after,
            changed=frozenset(answer.changed),
        )

    async def close(self) -> None:
        """Wait for asynchronous tools, and close the sandbox if this object created it."""
        await self._sessions.ended()
        if self._owns_sandbox:
            await self._sandbox.close()

    async def _run_tool(
        self, tool: Tool, args: Mapping[str, Any], invocation: Invocation, *, may_stand_in: bool = False
    ) -> ToolRun:
        given = to_object(args, "args")

        async def work(call: Invocation) -> Answer:
            stand_in = await self._engine.stand_in(call, given) if may_stand_in else None
            if stand_in is None and isinstance(tool, PythonTool):
                return await self._engine.python(tool, call, given)
            return _of_reply(stand_in or await self._engine.of_tool(call, given))

        if isinstance(tool, PythonTool) and tool.execution == "ASYNCHRONOUS":
            return await self._sessions.begin(invocation, work)
        return await self._sessions.run_tool(invocation, work)


def _of_reply(reply: Reply) -> Answer:
    """Return what became of a model's call, with the response that the model gets.

    It is text if it nests deeper than code and models can have it.
    """
    if reply.ending is not None:
        return Answer().failed(reply.ending)
    what = "the response"
    try:
        response = dict(plain(to_object(reply.for_model, what, lenient=True), what))
    except (InvalidInputError, NotJsonError):
        response = {"result": sendable(reply.text)}
    return replace(reply.answer, response=response)
