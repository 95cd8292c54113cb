"""Give a scenario services to play on, a model that follows a script, and what a caller sees of both."""

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App
from google.adk.artifacts import BaseArtifactService
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.genai import types
from pydantic import Field

APP: Final = "contract"
USER: Final = "ada"
SESSION: Final = "s1"

_MINTED: Final = re.compile(r"(?:\b[a-z]{1,4}-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Ids that ADK draws: of events, invocations and calls of tools."""
_TIMES: Final = re.compile(r'("\w*(?:timestamp|Timestamp|time|Time)": )\d+\.\d+')


def say(text: str) -> types.Part:
    """Return words."""
    return types.Part(text=text)


def call(tool: str, **arguments: Any) -> types.Part:
    """Return a model's call of a tool."""
    return types.Part(function_call=types.FunctionCall(name=tool, args=arguments))


class Script(BaseLlm):
    """A model that answers from a script; what it was asked is kept."""

    model: str = "script"
    script: list[list[types.Part] | LlmResponse]
    """The answers, in order: parts, or a whole response."""
    asked: list[Any] = Field(default_factory=list)
    """The system instruction and the contents of each request."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next answer; streamed, each of its words first."""
        contents = [content.model_dump(mode="json", exclude_none=True) for content in llm_request.contents]
        self.asked.append([str(llm_request.config.system_instruction), contents])
        answer = self.script.pop(0)
        if isinstance(answer, LlmResponse):
            yield answer
            return
        if stream:
            for word in [word for part in answer if part.text for word in part.text.split()]:
                yield LlmResponse(content=types.Content(role="model", parts=[say(word)]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=list(answer)))


def agent(*script: Sequence[types.Part], name: str = "agent", **options: Any) -> LlmAgent:
    """Return an agent whose model follows a script."""
    return LlmAgent(name=name, model=Script(script=[list(parts) for parts in script]), **options)


def asked(of: BaseAgent) -> list[Any]:
    """Return what the model of an agent was asked."""
    assert isinstance(of, LlmAgent)
    assert isinstance(of.model, Script)
    return of.model.asked


def words(text: str) -> types.Content:
    """Return a user's message."""
    return types.Content(role="user", parts=[say(text)])


@dataclass
class Stage:
    """Two services, and everything that a caller of ADK saw of them."""

    sessions: BaseSessionService
    artifacts: BaseArtifactService
    session_uri: str
    artifact_uri: str
    seen: list[Any] = field(default_factory=list)

    def see(self, *what: Any) -> None:
        """Keep what a caller saw, to be compared."""
        self.seen.extend(what)

    async def create(self, session_id: str = SESSION, *, user: str = USER, **options: Any) -> Session:
        """Make a session."""
        return await self.sessions.create_session(
            app_name=APP, user_id=user, session_id=session_id, **options
        )

    def runner(self, root: BaseAgent, **of_app: Any) -> Runner:
        """Return ADK's runner on the services."""
        return Runner(
            app=App(name=APP, root_agent=root, **of_app),
            session_service=self.sessions,
            artifact_service=self.artifacts,
        )

    async def turn(
        self,
        running: Runner,
        message: str | types.Content | None,
        *,
        session_id: str = SESSION,
        user: str = USER,
        **options: Any,
    ) -> list[Event]:
        """Take a turn, and see its events; a failure is seen by its class and message."""
        content = words(message) if isinstance(message, str) else message
        events: list[Event] = []
        try:
            async for event in running.run_async(
                user_id=user, session_id=session_id, new_message=content, **options
            ):
                events.append(event)
                # As it was when it came: services may complete it.
                self.see(event.model_dump(mode="json", exclude_none=True))
        except Exception as exc:  # noqa: BLE001  # whatever a caller meets is compared
            self.see(type(exc).__name__, str(exc))
        return events

    async def session(self, session_id: str = SESSION, *, user: str = USER) -> Session:
        """Return the stored session, and see all of it."""
        found = await self.sessions.get_session(app_name=APP, user_id=user, session_id=session_id)
        assert found is not None
        self.see(found.model_dump(mode="json", exclude_none=True))
        return found

    async def files(
        self, session_id: str = SESSION, *, user: str = USER
    ) -> dict[str, list[types.Part | None]]:
        """Return every version of every artifact, and see them."""
        who = {"app_name": APP, "user_id": user, "session_id": session_id}
        found: dict[str, list[types.Part | None]] = {}
        for name in await self.artifacts.list_artifact_keys(**who):
            versions = await self.artifacts.list_versions(**who, filename=name)
            found[name] = [
                await self.artifacts.load_artifact(**who, filename=name, version=version)
                for version in versions
            ]
        dumped = {
            name: [part and part.model_dump(mode="json", exclude_none=True) for part in parts]
            for name, parts in found.items()
        }
        self.see(dumped)
        return found


def comparable(seen: list[Any]) -> list[str]:
    """Return what was seen as lines of JSON, minted ids by their order, times left out."""
    names: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"<id {len(names)}>")

    lines = [json.dumps(each, sort_keys=True, ensure_ascii=False) for each in seen]
    return [_TIMES.sub(r"\1<time>", _MINTED.sub(named, line)) for line in lines]


Scenario = Callable[[Stage], Awaitable[None]]
"""Plays on a stage, and asserts what makes it that scenario."""
