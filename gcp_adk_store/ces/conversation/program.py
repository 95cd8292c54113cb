"""Load what the turns of an app need, and hold the sessions of its turns."""

import ast
import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from weakref import WeakValueDictionary

import pydantic
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from typing_extensions import override

from gcp_adk_store.ces.apps.agents import TransferRule
from gcp_adk_store.ces.apps.layout import AgentApp, load_code, load_tools
from gcp_adk_store.ces.conversation.decisions import Condition, in_force
from gcp_adk_store.ces.guest.scanning import UNREADABLE, scan
from gcp_adk_store.ces.host.results import NoteRun, RunLog, with_logs
from gcp_adk_store.ces.host.session_runs import APPENDS
from gcp_adk_store.ces.host.settings import USER, SessionKey
from gcp_adk_store.ces.tools.declarations import CodeFile, PythonTool, Tool, by_name, declaration_of, without
from gcp_adk_store.errors import InvalidInputError

logger = logging.getLogger(__name__)

_ENTRY = "ces_condition"


@dataclass(slots=True, eq=False)
class HeldSession:
    """The session of one turn, as the Runner has it, and what was not handed to the Runner yet."""

    session: Session
    delta: dict[str, Any] = field(default_factory=dict)
    """What runs changed of the state."""
    answer: Event | None = None
    """The last event of an agent, which callbacks may still replace."""
    late: list[Event] = field(default_factory=list)
    """Responses of asynchronous tools that came during the turn."""
    log_left: int = 0
    """Characters of logs that events of the turn may still keep."""
    logs: list[RunLog] = field(default_factory=list)
    """Of runs since the last event that was handed over."""

    @property
    def key(self) -> SessionKey:
        """Which session."""
        return SessionKey.of_session(self.session)

    @property
    def state(self) -> dict[str, Any]:
        """The state with what runs changed."""
        return {**self.session.state, **self.delta}

    @property
    def events(self) -> list[Event]:
        """The events in force, with the one that is held back."""
        held = [] if self.answer is None else [self.answer]
        return [*in_force(self.session.events), *held]

    def note(self, log: RunLog) -> None:
        """Keep *log* for the next event."""
        kept = log.cut(self.log_left)
        if kept.size:
            self.log_left -= kept.size
            self.logs.append(kept)

    def carried_by(self, event: Event) -> Event:
        """Return *event* with what runs changed and printed since the one before it."""
        event.actions.state_delta |= self.delta
        with_logs(event, self.logs, sum(log.size for log in self.logs))
        self.delta, self.logs = {}, []
        return event


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Home:
    """Where a session is; turns and late responses of one session share it, and nothing else keeps it."""

    service: BaseSessionService
    held: HeldSession | None = None
    """The session of the turn that runs."""
    reserved: int = 0
    """How many messages are sent."""
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a turn begins, or when it is cancelled before that."""

    def wake(self) -> None:
        """Let responses that wait look again."""
        self.waiting.set()
        self.waiting = asyncio.Event()


class _SeenSession(Session):
    """A session as a run of a turn sees it; the run may end after the turn, and store its response then."""

    _home: _Home = pydantic.PrivateAttr()


async def _store(held: HeldSession, service: BaseSessionService) -> None:
    """Append the late responses that the turn of *held* did not."""
    key = held.key
    for event in held.late:
        try:
            for left in range(APPENDS - 1, -1, -1):
                session = await service.get_session(**key.names)
                if session is None or any(each.id == event.id for each in session.events):
                    break
                try:
                    await service.append_event(session, event)
                    break
                except StaleSessionError:
                    if not left:
                        raise
        except Exception:  # any service may fail; how the turn ended says more
            logger.exception("a late response was not stored in %s", key)


class TurnSessions(BaseSessionService):
    """A session service for a runtime: the sessions of turns, and in between those of the service itself."""

    def __init__(self, *, stored_log_characters: int = 0, note_run: NoteRun | None = None) -> None:
        """Keep that many characters of the logs of a turn in its events, and pass logs on to *note_run*."""
        self._stored_log_characters = stored_log_characters
        self._note_run = note_run
        self._homes: WeakValueDictionary[SessionKey, _Home] = WeakValueDictionary()

    def _home(self, key: SessionKey, service: BaseSessionService) -> _Home:
        home = self._homes.setdefault(key, _Home(service))
        home.service = service
        return home

    @asynccontextmanager
    async def holding(self, session: Session, service: BaseSessionService) -> AsyncIterator[HeldSession]:
        """Let runs on *session* see it as it is here, while the block runs.

        Late responses that the block took and did not store, such as one that is cancelled, are stored then.
        """
        home = self._home(SessionKey.of_session(session), service)
        held = home.held = HeldSession(session, log_left=self._stored_log_characters)
        home.wake()
        try:
            yield held
        finally:
            if home.held is held:
                home.held = None
            if held.late:
                # As in append_event: it belongs to no turn.
                store = _store(held, home.service)
                storing = asyncio.get_running_loop().create_task(store, context=contextvars.Context())
                await asyncio.wait([storing])  # also if the turn is cancelled once more

    def note(self, key: SessionKey, log: RunLog) -> None:
        """Keep the log of a run in a turn; the event of an asynchronous tool has its own."""
        home = self._homes.get(key)
        if home is not None and home.held is not None and not log.late:
            home.held.note(log)
        if self._note_run is not None:
            self._note_run(key, log)

    @asynccontextmanager
    async def reserving(self, key: SessionKey, service: BaseSessionService) -> AsyncIterator[None]:
        """Let responses that come late wait until a turn begins in the block, or the block ends."""
        home = self._home(key, service)
        home.reserved += 1
        try:
            yield
        finally:
            home.reserved -= 1
            home.wake()

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        key = SessionKey(app_name, user_id, session_id)
        home = self._homes.get(key)
        if home is None:
            return None
        held = home.held
        if held is None:
            return await home.service.get_session(**key.names, config=config)
        events = held.events
        if config is not None and config.num_recent_events is not None:
            events = events[-config.num_recent_events :] if config.num_recent_events else []
        seen = _SeenSession(
            id=session_id,
            app_name=app_name,
            user_id=user_id,
            state=held.state,
            events=events,
            last_update_time=held.session.last_update_time,
        )
        seen._home = home  # noqa: SLF001  # of this module
        return seen

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        home = self._homes[SessionKey.of_session(session)]
        # Runs of the turn that is to begin wait for the run that appends this.
        while (held := home.held) is None and home.reserved:
            await home.waiting.wait()
        if held is not None:
            if event.author == USER:
                held.late.append(event)
            else:
                held.delta |= event.actions.state_delta
            return event
        # Its task began in a turn, whose lease is over: the append belongs to no turn.
        append = home.service.append_event(session, event)
        return await asyncio.get_running_loop().create_task(append, context=contextvars.Context())

    @override
    async def create_session(self, **_: Any) -> Any:
        raise NotImplementedError("a turn makes, lists and deletes no sessions")

    list_sessions = delete_session = create_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An app, with its files read."""

    app: AgentApp
    tools: tuple[Tool, ...]
    declarations: Mapping[str, dict[str, Any]]
    """Of tools, by name, as models get them."""
    asynchronous: frozenset[str]
    """Names of the tools that answer with a placeholder first."""
    callbacks: Mapping[tuple[str, str], tuple[CodeFile, ...]]
    """By the folder of the agent or the guardrail, and the kind, without those that are disabled."""
    conditions: Mapping[TransferRule, Condition | CodeFile] = field(default_factory=dict)

    @classmethod
    def of(cls, app: AgentApp, tools: Iterable[Tool] = (), *, use_fakes: bool = False) -> Self:
        """Return the program of *app*; *tools* replace those of the same name, fakes answer for the others.

        Raises:
            InvalidInputError: a file cannot be read, or a condition is not valid.
        """
        given = by_name(tools)
        own = [*without(load_tools(app, use_fakes=use_fakes), given.keys())]
        callees = {**by_name(own), **given}
        callbacks: dict[tuple[str, str], tuple[CodeFile, ...]] = {}
        for each in app.callbacks:
            if not each.disabled:
                place = (each.owner, each.callback)
                callbacks[place] = (*callbacks.get(place, ()), load_code(each.path))
        rules = [rule for agent in app.agents for rule in agent.rules]
        return cls(
            app=app,
            tools=(*own, *tools),
            declarations={name: declaration_of(name, callee) for name, callee in callees.items()},
            asynchronous=frozenset(
                name
                for name, callee in callees.items()
                if isinstance(callee, PythonTool) and callee.execution == "ASYNCHRONOUS"
            ),
            callbacks=callbacks,
            conditions={
                rule: _condition_code(rule) if rule.filename else Condition.of(rule.condition)
                for rule in rules
            },
        )


def _condition_code(rule: TransferRule) -> CodeFile:
    """Return the code of *rule*, with a function that returns whether it holds.

    The code is an expression, or has a function, whose first parameter, if it has one, is the context; raise
    an InvalidInputError if it is neither.
    """
    try:
        tree = ast.parse(rule.condition)
    except UNREADABLE as exc:
        raise InvalidInputError(f"the code of a transfer rule cannot be read: {exc}") from exc
    functions = [node for node in scan(tree).functions if isinstance(node, ast.FunctionDef)]
    if functions:
        argument = "context" if functions[0].args.args else ""
        source = f"{rule.condition}\n\ndef {_ENTRY}():\n    return bool({functions[0].name}({argument}))\n"
    elif len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
        source = f"def {_ENTRY}():\n    return bool({ast.unparse(tree.body[0])})\n"
    else:
        says = "must be an expression, or define a function that returns whether it holds"
        raise InvalidInputError(f"the code of a transfer rule {says}")
    return CodeFile(source, rule.filename, _ENTRY)
