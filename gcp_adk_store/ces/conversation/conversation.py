"""Hold conversations with an exported app, on the sessions of a service; the app is one agent of ADK."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Protocol

import pydantic
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.artifacts import BaseArtifactService
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.genai import types
from typing_extensions import override

from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.conversation.decisions import ConversationTurn, active_agent, has_ended, in_force
from gcp_adk_store.ces.conversation.models import as_model
from gcp_adk_store.ces.conversation.program import Program, TurnSessions
from gcp_adk_store.ces.conversation.turn import Turn, TurnConfig
from gcp_adk_store.ces.host.results import NoteRun
from gcp_adk_store.ces.host.runtime import PythonRuntime
from gcp_adk_store.ces.host.session_context import visible
from gcp_adk_store.ces.host.settings import USER, RuntimeSettings, SessionKey, SessionKeyLike
from gcp_adk_store.ces.http.policy import HttpPolicy
from gcp_adk_store.ces.sandbox.interface import Sandbox
from gcp_adk_store.ces.tools.declarations import MockConfig, Tool
from gcp_adk_store.ces.tools.openapi import identifier
from gcp_adk_store.errors import InvalidInputError, SessionMissingError
from gcp_adk_store.kernel.operation import arguments_of
from gcp_adk_store.kernel.process import Closing

ENDED: Final = "an agent ended this session; begin another one"


class AppAgent(BaseAgent):
    """An exported app as an agent of ADK: ``Runner(agent=AppAgent(app), ...)`` runs it.

    The events are ADK's: each has the name of the app's agent as its author, the calls and responses of
    functions, and the changes of the state. Transfers are within this agent: it has no ``sub_agents``. The
    session's events show which of the app's agents answers next, so any process can continue a session.

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
        use_fakes: bool = False,
        allow_problems: bool = False,
        note_run: NoteRun | None = None,
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
            use_fakes: Let the fakes answer that the app enables for its tools, as the platform does in
                sessions with ``useToolFakes``.
            allow_problems: Run an app with ``problems``, without what it lacks: also what guards it.
            note_run: As :class:`~gcp_adk_store.ces.PythonRuntime`.

        Raises:
            InvalidInputError: the app has problems, no root agent, or one of the name ``user``; a file cannot
                be read, a condition of a transfer rule is not valid, no model is named, or ADK does not know
                it. Or an argument is of another kind.
        """
        _require(AppAgent.__init__, **locals())
        if app.problems and not allow_problems:
            first = app.problems[0]
            raise InvalidInputError(
                f"the app in {app.folder} does not run, because it has {len(app.problems)} problems; the "
                f"first is {first.path}:{first.line}: {first.says}. Correct them, or pass allow_problems=True"
            )
        active_agent((), app)
        if any(agent.name == USER for agent in app.agents):  # whose answers would be the user's
            raise InvalidInputError(f"an agent cannot have the name {USER!r}; rename the one in {app.folder}")
        named = model or app.own_model
        if not named:
            raise InvalidInputError("the app names no model; give one")
        super().__init__(name=_identifier(app), description=app.name)
        tools = tuple(tools)
        self._program = Program.of(app, tools, use_fakes=use_fakes)
        self._model = as_model(named)
        settings = settings or RuntimeSettings()
        self._sessions = TurnSessions(stored_log_characters=settings.stored_log_characters, note_run=note_run)
        self._runtime = PythonRuntime(
            self._sessions,
            artifact_service=artifact_service,
            tools=self._program.tools,
            http=http,
            sandbox=sandbox,
            settings=settings,
            mocks=mocks,
            note_run=self._sessions.note,
        )

    @property
    def app(self) -> AgentApp:
        """The app."""
        return self._program.app

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
        async with self._sessions.holding(ctx.session, ctx.session_service) as held:
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
    made = identifier(app.name or app.folder.resolve().name) or "app"
    made = f"app_{made}" if made[0].isdigit() or made == "user" else made
    while app.agent(made):
        made += "_app"
    return made


def _require(method: Callable[..., object], **given: object) -> None:
    """Raise an InvalidInputError if an argument of *method* is of another kind than it declares."""
    for kind, value in arguments_of(method, (), given):
        kind.require(value)
        odd = [name for name in value if not isinstance(name, str)] if isinstance(value, Mapping) else []
        if odd:
            raise InvalidInputError(f"each name of {kind.name} must be a string, not {type(odd[0]).__name__}")


class TakesTurns(Protocol):
    """Runs a runner as the only turn of a session, as ``store.turns`` does."""

    def run(self, *runner: Any, **message: Any) -> AsyncGenerator[Event, None]:
        """Take the runner, and what its ``run_async`` takes; yield the events of the run."""


class Conversation(Closing):
    """Conversations with an app, each a session of a service.

    Each message is one turn: ADK's Runner runs :class:`AppAgent` and appends the events as they come. Turns
    of one session must not overlap; with *turns*, they wait for each other, in all processes.
    """

    def __init__(
        self,
        app: AgentApp,
        session_service: BaseSessionService,
        *,
        model: str | BaseLlm | None = None,
        app_name: str | None = None,
        turns: TakesTurns | None = None,
        **options: Any,
    ) -> None:
        """Prepare conversations with *app*.

        Args:
            app: What :func:`~gcp_adk_store.ces.read_app` returns.
            session_service: The service of the sessions: this library's, or any of ADK's.
            model: As :class:`AppAgent`.
            app_name: ADK's name of the app; by default that of the agent.
            turns: ``store.turns`` of the store of *session_service*.
            options: Of :class:`AppAgent`: ``tools``, ``http``, ``sandbox``, ``allow_problems`` and so on.

        Raises:
            InvalidInputError: as :class:`AppAgent`.
        """
        _require(Conversation.__init__, session_service=session_service, app_name=app_name)
        self.agent = AppAgent(app, model=model, **options)
        """The app as an agent of ADK."""
        self.runner = Runner(
            app_name=app_name or self.agent.name,
            agent=self.agent,
            session_service=session_service,
            artifact_service=options.get("artifact_service"),
        )
        """ADK's runner of it."""
        self._sessions = session_service
        self._turns = turns

    async def begin(
        self,
        *,
        user_id: str = "local",
        session_id: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> SessionKey:
        """Create a session with the variables that the app declares, and return its key.

        Args:
            user_id: The session's user.
            session_id: By default a new one.
            variables: In place of the declared defaults, by name.

        Raises:
            InvalidInputError: an argument is of another kind, or a name in *variables* is not a string.
            SessionExistsError: a session has that id.
        """
        _require(Conversation.begin, user_id=user_id, session_id=session_id, variables=variables)
        state = {**self.agent.app.variables, **(variables or {})}
        made = await self._sessions.create_session(
            app_name=self.runner.app_name, user_id=user_id, session_id=session_id, state=state
        )
        return SessionKey.of_session(made)

    async def send(
        self,
        said: str | types.Content,
        key: SessionKeyLike,
        *,
        variables: Mapping[str, Any] | None = None,
        mocks: MockConfig | None = None,
    ) -> ConversationTurn:
        """Let the app answer what the user said, and return the turn.

        Args:
            said: A text, or content of the role ``user``; ``<event>session start</event>`` is a text too.
            key: The session, of this app.
            variables: Values that the message brings along; they are stored with it.
            mocks: Answers to calls of tools in this turn, before those of all turns.

        Raises:
            SessionMissingError: the session does not exist.
            InvalidInputError: an agent has ended the session, or an argument is of another kind; nothing was
                stored.
            StoreError: what the session service and the runtime may raise.
        """
        events = [event async for event in self.stream(said, key, variables=variables, mocks=mocks)]
        session = await self._session(SessionKey.of(key))
        in_session = in_force(session.events)
        return ConversationTurn(
            events=tuple(events),
            agent=self.agent.active(in_session),
            variables=visible(session.state, shared=()),
            ended=has_ended(in_session),
        )

    async def stream(
        self,
        said: str | types.Content,
        key: SessionKeyLike,
        *,
        variables: Mapping[str, Any] | None = None,
        mocks: MockConfig | None = None,
    ) -> AsyncIterator[Event]:
        """Yield the events of a turn as they are stored; as :meth:`send`."""
        _require(Conversation.stream, said=said, variables=variables, mocks=mocks)
        place = SessionKey.of(key)
        if place.app != self.runner.app_name:
            raise InvalidInputError(f"the session {place} is not of the app {self.runner.app_name}")
        if isinstance(said, types.Content) and not said.parts:
            raise InvalidInputError("said has no part; give a text, or a content with parts")
        content = types.Content(role=USER, parts=[types.Part(text=said)]) if isinstance(said, str) else said
        message: dict[str, Any] = {"user_id": place.user, "session_id": place.session, "new_message": content}
        message["state_delta"] = dict(variables) if variables else None
        message["run_config"] = TurnConfig(mocks=mocks)
        held = self.agent._sessions  # noqa: SLF001  # of this module
        async with held.reserving(place, self._sessions):
            session = await self._session(place)
            if has_ended(in_force(session.events)):
                raise InvalidInputError(ENDED)
            run = partial(self._turns.run, self.runner) if self._turns else self.runner.run_async
            async with aclosing(run(**message)) as events:
                async for event in events:
                    yield event

    async def variables(self, key: SessionKeyLike) -> Mapping[str, Any]:
        """Return the variables of a session as they are now; raises as :meth:`send`."""
        return visible((await self._session(SessionKey.of(key))).state, shared=())

    async def answering(self, key: SessionKeyLike) -> str:
        """Return the name of the agent that answers next; raises as :meth:`send`."""
        return self.agent.active(in_force((await self._session(SessionKey.of(key))).events))

    async def close(self) -> None:
        """Wait for asynchronous tools, and close the sandbox; the session service stays open."""
        await self.agent.close()

    async def _session(self, key: SessionKey) -> Session:
        session = await self._sessions.get_session(**key.names)
        if session is None:
            raise SessionMissingError(operation="send", key=str(key))
        return session
