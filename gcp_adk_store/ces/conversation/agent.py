"""Let ADK's Runner run an exported app: the whole app is one agent of ADK."""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final

import pydantic
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.artifacts import BaseArtifactService
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from typing_extensions import override

from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.conversation.decisions import active_agent, has_ended, in_force
from gcp_adk_store.ces.conversation.models import as_model
from gcp_adk_store.ces.conversation.program import Program
from gcp_adk_store.ces.conversation.turn import Turn
from gcp_adk_store.ces.conversation.turn_sessions import TurnSessions
from gcp_adk_store.ces.host.runtime import PythonRuntime
from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.http.policy import HttpPolicy
from gcp_adk_store.ces.sandbox.interface import Sandbox
from gcp_adk_store.ces.tools.declarations import Tool
from gcp_adk_store.ces.tools.mocks import FakeTools, MockConfig
from gcp_adk_store.errors import InvalidInputError

_NOT_IN_NAMES: Final = re.compile(r"\W+", re.ASCII)
ENDED: Final = "an agent ended this session; begin another one"


class AppAgent(BaseAgent):
    """An exported app as an agent of ADK: ``Runner(agent=AppAgent(app), ...)`` runs it.

    The events are ADK's: each has the name of the app's agent as its author, the calls and responses of
    functions, and the changes of the state. Transfers are within this agent: it has no ``sub_agents``. The
    session's events tell which of the app's agents answers next, so any process can continue a session.

    A run may raise what the model, the session service and :class:`~gcp_adk_store.ces.PythonRuntime` raise,
    and ``InvalidInputError`` if an agent has ended the session. What the app itself does wrong is the
    ``error_code`` of the turn's last event: ``CALLBACK_FAILED``, ``FAILED_PRECONDITION`` for a variable that
    is too large, ``TURN_TOO_LONG``, or the code of the model.
    """

    _program: Program = pydantic.PrivateAttr()
    _model: BaseLlm = pydantic.PrivateAttr()
    _sessions: TurnSessions = pydantic.PrivateAttr()
    _runtime: PythonRuntime = pydantic.PrivateAttr()

    def __init__(
        self,
        app: AgentApp,
        *,
        model: str | BaseLlm | None = None,
        tools: Iterable[Tool] = (),
        artifact_service: BaseArtifactService | None = None,
        http: HttpPolicy | None = None,
        sandbox: Sandbox | str | None = None,
        settings: RuntimeSettings | None = None,
        mocks: MockConfig | None = None,
        fakes: FakeTools | None = None,
        allow_problems: bool = False,
    ) -> None:
        """Read the code of *app*; the sandbox starts with the first code that runs.

        Args:
            app: What :func:`~gcp_adk_store.ces.read_app` returns.
            model: A model of ADK, or its name; by default the one that the app names.
            tools: In place of the app's tools of the same names, such as a ``MockTool``.
            artifact_service: As :class:`~gcp_adk_store.ces.PythonRuntime`, like the others.
            http: The hosts that requests may reach; by default none.
            sandbox: ``bubblewrap`` (the default), ``inprocess``, or one to borrow.
            settings: Of the runtime.
            mocks: Answers to calls of tools.
            fakes: Code that answers calls of tools.
            allow_problems: Run an app with ``problems``, without what it lacks: also what guards it.

        Raises:
            InvalidInputError: the app has problems or no root agent, a file cannot be read, a condition of a
                transfer rule is not valid, no model is named, or ADK does not know it.
        """
        if app.problems and not allow_problems:
            first = app.problems[0]
            raise InvalidInputError(
                f"the app in {app.folder} does not run, because it has {len(app.problems)} problems; the "
                f"first is {first.path}:{first.line}: {first.says}. Correct them, or pass allow_problems=True"
            )
        active_agent((), app)
        named = model or (app.root.model if app.root else "") or app.model
        if not named:
            raise InvalidInputError("the app names no model; give one")
        super().__init__(name=_identifier(app), description=app.name)
        tools = tuple(tools)
        self._program = Program.of(app, tools)
        self._model = as_model(named)
        self._sessions = TurnSessions()
        self._runtime = PythonRuntime(
            self._sessions,
            artifact_service=artifact_service,
            tools=self._program.tools,
            http=http,
            sandbox=sandbox,
            settings=settings,
            mocks=mocks,
            fakes=fakes,
        )

    @property
    def app(self) -> AgentApp:
        """The app."""
        return self._program.app

    @property
    def turn_sessions(self) -> TurnSessions:
        """The sessions of the turns that run."""
        return self._sessions

    def active(self, events: Sequence[Event]) -> str:
        """Return the name of the app's agent that answers next after *events*."""
        return active_agent(events, self._program.app).name

    @override
    def find_sub_agent(self, name: str) -> BaseAgent | None:
        """Return this agent for each agent of the app: an author that ADK looks for."""
        return self if self._program.app.agent(name) else super().find_sub_agent(name)

    @override
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        events = in_force(ctx.session.events)
        if has_ended(events):
            raise InvalidInputError(ENDED)
        agent = active_agent(events, self._program.app)
        with self._sessions.holding(ctx.session, ctx.session_service) as held:
            turn = Turn(
                program=self._program,
                runtime=self._runtime,
                model=self._model,
                ctx=ctx,
                held=held,
                agent=agent,
            )
            async for event in turn.events():
                yield event

    async def close(self) -> None:
        """Wait for asynchronous tools, and close the sandbox if it was not borrowed."""
        await self._runtime.close()


def _identifier(app: AgentApp) -> str:
    """Return a name that ADK takes, which differs from those of the app's agents."""
    made = _NOT_IN_NAMES.sub("_", app.name or app.folder.resolve().name).strip("_") or "app"
    made = f"app_{made}" if made[0].isdigit() or made == "user" else made
    while app.agent(made):
        made += "_app"
    return made
