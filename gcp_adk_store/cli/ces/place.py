"""Open the session that code is run on, and make the runtime that runs it."""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gcp_adk_store.cli.ces.options import Chosen
from gcp_adk_store.cli.place import open_store
from gcp_adk_store.cli.screen import CannotLookError
from gcp_adk_store.errors import InvalidInputError

if TYPE_CHECKING:
    from google.adk.artifacts import BaseArtifactService
    from google.adk.sessions import BaseSessionService, Session

    from gcp_adk_store.ces import PythonRuntime, SessionKey

_IN_MEMORY: Final = "local/local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What code runs on."""

    sessions: "BaseSessionService"
    artifacts: "BaseArtifactService | None"
    key: "SessionKey"
    session: "Session"
    """As it is before the run."""
    where: str
    """The place of the session, for display."""
    kept: bool
    """Whether what changes is."""


@asynccontextmanager
async def opened(
    session: str | None,
    *,
    at: Mapping[str, str | None],
    create: bool,
    dry_run: bool,
    variables: Mapping[str, Any] | None,
) -> AsyncIterator[Place]:
    """Open the session that is named, one in memory, or with *dry_run* a copy in memory of the one named.

    *at* are the options of :func:`~gcp_adk_store.cli.place.place_options`, which name the store.

    Raises:
        CannotLookError: the session does not exist, or it exists although *create* is set.
    """
    if session is None:
        made = await _in_memory(variables or {})
        yield made
        return
    key = key_of(session)
    if dry_run and create:
        raise CannotLookError("--dry-run makes no session: leave out --create, or run without --session")
    if variables is not None and not create:
        raise CannotLookError("--variables are of a new session: add --create, or leave out --session")
    async with open_store(at) as opened_store:
        store, where = opened_store.store, opened_store.where
        found = await store.sessions.get_session(**key.names)
        if found is None and not create:
            raise CannotLookError(f"the session {session} does not exist in {where}; create it with --create")
        if found is not None and create:
            raise CannotLookError(f"the session {session} exists already; leave out --create")
        if found is None:
            found = await store.sessions.create_session(**key.names, state=dict(variables or {}))
        sessions: BaseSessionService = store.sessions
        if dry_run:
            sessions, found = await _copy_of(found)
        artifacts = store.artifacts if store.has_artifacts else None
        yield Place(
            sessions=sessions,
            artifacts=artifacts,
            key=key,
            session=found,
            where=f"{session} in {where}",
            kept=not dry_run,
        )


def key_of(session: str) -> "SessionKey":
    """Return the session that ``--session`` names.

    Raises:
        CannotLookError: it is malformed.
    """
    from gcp_adk_store.ces import SessionKey  # noqa: PLC0415  # of the extra

    try:
        key = SessionKey.of(session)
    except InvalidInputError as exc:
        raise CannotLookError(f"--session {session} must be APP/USER/ID; write a / in an id as %2F") from exc
    if key.session != key.session.strip():  # ADK would make one of another id
        raise CannotLookError(f"--session {session}: an id neither begins nor ends with a space")
    return key


async def _in_memory(variables: Mapping[str, Any]) -> Place:
    from google.adk.sessions import InMemorySessionService  # noqa: PLC0415  # half of ADK

    from gcp_adk_store.ces import SessionKey  # noqa: PLC0415  # of the extra

    key = SessionKey.of(f"{_IN_MEMORY}/{uuid.uuid4().hex}")
    memory = InMemorySessionService()
    made = await memory.create_session(**key.names, state=dict(variables))
    return Place(sessions=memory, artifacts=None, key=key, session=made, where="", kept=False)


async def _copy_of(found: "Session") -> "tuple[BaseSessionService, Session]":
    """Return *found* in a service of its own, which is forgotten."""
    from google.adk.sessions import InMemorySessionService  # noqa: PLC0415  # half of ADK

    memory = InMemorySessionService()
    whose: dict[str, Any] = {"app_name": found.app_name, "user_id": found.user_id}
    copy = await memory.create_session(**whose, session_id=found.id, state=dict(found.state))
    for event in found.events:
        await memory.append_event(copy, event.model_copy(deep=True))
    # Of what sessions share, events have what it was then.
    shared = {name: value for name, value in found.state.items() if name.startswith(("app:", "user:"))}
    await memory.create_session(**whose, state=shared)
    read = await memory.get_session(**whose, session_id=found.id)
    return memory, read or copy


def make_runtime(place: Place, chosen: Chosen, mocks: dict[str, Any] | None) -> "PythonRuntime":
    """Return the runtime that was asked for.

    Raises:
        InvalidInputError: a tool or a mock is not valid.
    """
    from gcp_adk_store.ces import PythonRuntime  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.apps.layout import load_tools  # noqa: PLC0415  # likewise

    app = None if chosen.tools is None else chosen.read_app(chosen.tools)
    return PythonRuntime(
        place.sessions,
        artifact_service=place.artifacts,
        tools=[] if app is None else load_tools(app),
        **chosen.runtime(mocks),
    )


async def say(place: Place, said: str, invocation_id: str) -> None:
    """Append what the user said to the session."""
    from google.adk.events import Event  # noqa: PLC0415  # half of ADK
    from google.genai import types  # noqa: PLC0415  # likewise

    content = types.Content(role="user", parts=[types.Part(text=said)])
    event = Event(author="user", invocation_id=invocation_id, content=content)
    await place.sessions.append_event(place.session, event)
