"""Play one turn of a conversation: callbacks, models, tools and transfers, in the platform's order."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig
from google.adk.events import Event, EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from gcp_adk_store.ces.apps.agents import AgentSpec
from gcp_adk_store.ces.conversation import decisions, models
from gcp_adk_store.ces.conversation.decisions import TurnFailedError, calls_of
from gcp_adk_store.ces.conversation.program import HeldSession, Program
from gcp_adk_store.ces.guest.messages import END_SESSION, TRANSFER
from gcp_adk_store.ces.host.invocation import failure_of, new_call_id
from gcp_adk_store.ces.host.results import CallbackRun, ToolRun
from gcp_adk_store.ces.host.runtime import PythonRuntime
from gcp_adk_store.ces.host.session_context import to_object, visible
from gcp_adk_store.ces.host.settings import USER
from gcp_adk_store.ces.sandbox.interface import SandboxRunError
from gcp_adk_store.ces.tools.declarations import CodeFile, MockConfig
from gcp_adk_store.errors import InvalidInputError

MOST_TRANSFERS: Final = 10
MOST_MODEL_CALLS: Final = 25
"""Of a turn: what does not end by itself ends with an error."""
_UNREACHED: Final = {
    "error": "the session goes on: a call before this one failed, or handed over to an agent"
}
"""What an end of the session gets that is not reached."""


class TurnConfig(RunConfig):
    """What a message of a conversation has for its turn alone."""

    mocks: MockConfig | None = None
    """Answers to calls of tools."""


def _answer(call: types.FunctionCall, response: dict[str, Any]) -> types.Part:
    made = types.FunctionResponse(id=call.id, name=call.name, response=response)
    return types.Part(function_response=made)


@dataclass(slots=True, eq=False)
class Turn:
    """One turn: from what the user said to the answer."""

    program: Program
    runtime: PythonRuntime
    model: BaseLlm
    ctx: InvocationContext
    held: HeldSession
    agent: AgentSpec
    """Who acts."""
    _next: AgentSpec | None = field(default=None, init=False)
    """To whom the agent handed over."""
    _is_recorded: bool = field(default=True, init=False)
    """Whether an event says so."""
    _is_over: bool = field(default=False, init=False)
    """Whether the session has ended."""
    _model_calls: int = field(default=0, init=False)
    _asked: models.Asked = field(default_factory=models.Asked, init=False)
    """What the model calls in the response that is carried out; code may call anything."""

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the turn; each is appended before the next is made.

        An error of a model, a service or the sandbox is raised after the events of what was done before it,
        such as the responses of tools and the variables that they changed.
        """
        declared, state = self.program.app.variables, self.held.state
        self.held.delta |= {name: value for name, value in declared.items() if name not in state}
        raised: Exception | None = None
        try:
            async for event in self._play():
                if (earlier := self._hold(event)) is not None:
                    yield earlier
        except TurnFailedError as exc:
            failed = self._event(None, error_code=exc.code, error_message=str(exc))
            if (earlier := self._hold(failed)) is not None:
                yield earlier
        except Exception as exc:  # noqa: BLE001  # any model or service may fail
            raised = exc
        if (earlier := self._hold(None)) is not None:
            yield earlier
        if self.held.delta or self.held.logs:
            yield self.held.carried_by(self._event(None))
        while self.held.late:
            yield self.held.late[0]
            del self.held.late[0]  # it is stored
        if raised is not None:
            raise raised

    async def _play(self) -> AsyncIterator[Event | None]:
        """Yield what happens, and None where all before it is to be stored.

        The last event is held back until the next, as callbacks may still replace an answer.
        """
        for _ in range(MOST_TRANSFERS + 1):
            try:
                async for event in self._agent_or_guardrail_answers():
                    yield event
            except (decisions.ModelFailedError, *models.SERVICE_ERRORS) as exc:
                yield self._fallen_back(exc)
            if self._next is None or self._is_over:
                return
            if not self._is_recorded:
                yield self._event(None, transfer=self._next)
            self.agent, self._next = self._next, None
        raise TurnFailedError("TURN_TOO_LONG", f"more than {MOST_TRANSFERS} transfers in one turn")

    async def _agent_or_guardrail_answers(self) -> AsyncIterator[Event | None]:
        try:
            async for event in self._agent_answers():
                yield event
        except decisions.GuardrailTriggeredError as exc:
            async for event in self._guarded(exc):
                yield event

    async def _agent_answers(self) -> AsyncIterator[Event | None]:
        """Yield what the agent says and does, until it is done, hands over or ends the session."""
        before = await self._callbacks("before_agent")
        if before is not None and before.override is not None:
            async for event in self._say(models.content_of(before.override)):
                yield event
        elif self._next is None:
            async for event in self._ask_models():
                yield event
        try:
            after = await self._callbacks("after_agent")
        except Exception:
            self._withhold()  # what the callback would have said in its place is not known
            raise
        if after is not None and after.override is not None:
            content = models.content_of(after.override)
            self._withhold()  # the callback's content is in its place
            async for event in self._say(content):
                yield event

    def _fallen_back(self, exc: Exception) -> Event:
        """Return what the app says in place of the model that failed; raise if it says nothing."""
        content = decisions.fallback_of(self.program.app.errors, self.held.events)
        if content is None:
            raise exc
        self._next, self._is_over = None, bool(calls_of(content))
        code = str(exc.code) if isinstance(exc, decisions.ModelFailedError) else "MODEL_FAILED"
        return self._event(content, error_code=code, error_message=str(exc)[: models.MOST_SAID])

    async def _guard(self, kind: str, **subjects: Any) -> None:
        """Ask the agent's guardrails, in order; raise a GuardrailTriggeredError if one triggers."""
        for guardrail in self.program.app.guardrails_of(self.agent):
            code = self.program.callbacks.get((guardrail.folder, f"{kind}_guardrail"))
            if code is None:
                continue
            what = f"{kind} of the guardrail {guardrail.name}"
            ran = await self._ran(f"{kind}_guardrail", code, what, subjects)
            if ran.override is not None:
                raise decisions.GuardrailTriggeredError(guardrail, str(ran.override.get("reason", "")))

    async def _guarded(self, triggered: decisions.GuardrailTriggeredError) -> AsyncIterator[Event | None]:
        """Yield what the guardrail does in place of the agent's answer."""
        guardrail = triggered.guardrail
        self._next, self._asked = None, models.Asked()
        if guardrail.responses:
            parts = [types.Part(text=guardrail.responses[0])]
            async for event in self._say(types.Content(role=decisions.MODEL, parts=parts)):
                yield event
        elif target := self.program.app.agent(guardrail.transfer_to):
            self._next = target
            yield self._event(None, transfer=target)
        elif guardrail.prompt is not None:
            request = self._request_of(guardrail.prompt, [])
            said = await models.whole_response(self.model, request)
            self._asked = models.Asked.of(said, request)
            async for event in self._say(models.content_of(models.response_json(said).get("content")), said):
                yield event
        else:
            raise triggered

    async def _ask_models(self) -> AsyncIterator[Event | None]:
        while self._goes_on():
            for rule, target in decisions.rules_from(self.agent, self.program.app):
                if not rule.forbids and await self._holds(rule):
                    self._next = target
                    yield self._event(None, transfer=target)
                    return
            request, response = await self._before_model()
            if response is not None and response.get("partial"):
                async for event in self._say(models.content_of(response.get("content"))):
                    yield event
                response = None
            if not self._goes_on():
                return
            usage: LlmResponse | None = None
            if response is None:
                response, usage = await self._modelled(request)
            content = models.content_of(response.get("content"))
            async for event in self._say(content, usage):
                yield event
            self._asked = models.Asked()
            if not calls_of(content):
                return

    def _goes_on(self) -> bool:
        """Whether the agent is neither done nor stopped."""
        return self._next is None and not self._is_over and not self.ctx.end_invocation

    async def _before_model(self) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
        """Return the request as callbacks left it, and what overrides the model."""
        self._model_calls += 1
        if self._model_calls > MOST_MODEL_CALLS:
            raise TurnFailedError("TURN_TOO_LONG", f"more than {MOST_MODEL_CALLS} model calls in one turn")
        request = await self._request()
        before = await self._callbacks("before_model", llm_request=request)
        if before is None:
            return request, None
        return dict(before.llm_request or {}), before.override

    async def _modelled(self, request: Mapping[str, Any]) -> tuple[Mapping[str, Any], LlmResponse]:
        """Return what the model says, as callbacks left it, and as it came."""
        said = await models.whole_response(self.model, request)
        for call in calls_of(said.content):
            call.id = call.id or new_call_id()
        self._asked = models.Asked.of(said, request)
        response: Mapping[str, Any] = models.response_json(said)
        after = await self._callbacks("after_model", llm_response=response)
        if after is not None:
            # What a callback emptied is empty, and not what it was.
            response = (after.llm_response if after.override is None else after.override) or {}
        return response, said

    async def _say(
        self, content: types.Content | None, usage: LlmResponse | None = None
    ) -> AsyncIterator[Event | None]:
        """Yield *content* as an event, and those of the calls in it."""
        if content is None or not content.parts:
            return
        content.role = decisions.MODEL
        calls = calls_of(content)
        for call in calls:
            call.id = call.id or new_call_id()
        event = self._event(content)
        if usage is not None:
            event.usage_metadata, event.model_version = usage.usage_metadata, usage.model_version
            event.finish_reason, event.grounding_metadata = usage.finish_reason, usage.grounding_metadata
        asynchronous = self.program.asynchronous - self._asked.refused
        late = {call.id for call in calls if call.id and call.name in asynchronous}
        event.long_running_tool_ids = late or None
        yield event
        if calls:
            yield None  # a call is stored before it is made
            async for each in self._carried_out(calls):
                yield each

    async def _carried_out(self, calls: list[types.FunctionCall]) -> AsyncIterator[Event | None]:
        """Carry *calls* out, and yield their responses: they are stored before a model thinks about them.

        None is carried out after a transfer or a failure, and an end that is not reached ends no session.
        """
        responses: list[types.Part] = []
        raised: Exception | None = None
        goes_on = True
        for call in calls:
            if not goes_on:
                responses += [_answer(call, _UNREACHED)] if call.name == END_SESSION else []
            elif call.name == END_SESSION and END_SESSION not in self._asked.refused:
                self._is_over = True
                break
            else:
                try:
                    responses.append(_answer(call, await self._called(call)))
                except Exception as exc:  # noqa: BLE001  # of a callback, a tool or the sandbox
                    raised = exc
                goes_on = raised is None and self._next is None
        if responses:
            yield self._event(types.Content(role=USER, parts=responses), transfer=self._next)
            yield None
        if raised is not None:
            raise raised

    async def _called(self, call: types.FunctionCall) -> dict[str, Any]:
        """Carry *call* out, and return its response."""
        args = dict(call.args or {})
        if call.name in self._asked.refused:
            return {"error": f"{str(call.name)[:100]!r} was not offered in this request, and did not run"}
        if call.name == TRANSFER:
            return await self._transferred(str(args.get("agent_name", "")))
        return await self._tool_response(str(call.name), args, str(call.id))

    async def _transferred(self, name: str) -> dict[str, Any]:
        target = self.program.app.agent(name)
        if target is None:
            known = ", ".join(agent.name for agent in self.program.app.agents)
            return {"error": f"unknown agent {name[:100]!r}; known: {known}"}
        asked = map(self.program.app.agent, self._asked.targets)
        if target in asked and target not in await self._targets():
            return {"error": f"{self.agent.name} may not transfer to {target.name} now"}
        self._next = target
        return {"result": None}

    async def _targets(self) -> list[AgentSpec]:
        """Return the agents that the model may transfer to; code may transfer to any."""
        app = self.program.app
        forbidden = [
            target
            for rule, target in decisions.rules_from(self.agent, app)
            if rule.forbids and await self._holds(rule)
        ]
        return [each for each in decisions.targets(self.agent, app) if each not in forbidden]

    async def _tool_response(self, name: str, args: dict[str, Any], call_id: str) -> dict[str, Any]:
        about = {"tool": name, "function_call_id": call_id}
        before = await self._callbacks("before_tool", args=args, **about)
        response: Mapping[str, Any] | None = None
        if before is not None:
            args, response = dict(before.args or {}), before.override
        if response is None:
            response = await self._tool_ran(name, args, call_id)
        after = await self._callbacks("after_tool", args=args, tool_response=response, **about)
        if after is not None:
            response = (after.tool_response if after.override is None else after.override) or {}
        return dict(response)

    async def _tool_ran(self, name: str, args: dict[str, Any], call_id: str) -> Mapping[str, Any]:
        try:
            options = {**self._options(), "function_call_id": call_id}
            ran: ToolRun = await self.runtime.call_tool(name, args, self.held.key, **options)
        except (SandboxRunError, InvalidInputError) as exc:  # also a name that no tool has
            return failure_of(exc).response
        decisions.require_fitting(ran)
        return ran.response if ran.response is not None else {"result": None}

    async def _callbacks(self, kind: str, **subjects: Any) -> CallbackRun | None:
        """Run the agent's callbacks of *kind*, if its guardrails let it; None if it has none."""
        await self._guard(kind, **subjects)
        code = self.program.callbacks.get((self.agent.folder, kind))
        if not code:
            return None
        ran = await self._ran(kind, code, f"{kind} of {self.agent.name}", subjects)
        wanted = (ran.actions or {}).get("transferToAgent")
        if wanted and (target := self.program.app.agent(str(wanted))):
            self._next, self._is_recorded = target, False
        return ran

    async def _ran(
        self, kind: str, code: tuple[CodeFile, ...], what: str, subjects: Mapping[str, Any]
    ) -> CallbackRun:
        """Run callbacks, called *what*, about *subjects*; raise a TurnFailedError if their code fails."""
        try:
            ran = await self.runtime.run_callback(kind, code, self.held.key, **subjects, **self._options())
        except SandboxRunError as exc:
            raise TurnFailedError("CALLBACK_FAILED", f"{what}: {exc}") from exc
        decisions.require_fitting(ran)
        if ran.error is not None:
            raise TurnFailedError("CALLBACK_FAILED", f"{what}: {ran.error}")
        return ran

    def _options(self) -> dict[str, Any]:
        index = decisions.turn_index(self.held.events, self.ctx.invocation_id)
        return {
            "agent_name": self.agent.name,
            "invocation_id": self.ctx.invocation_id,
            "user_content": self.ctx.user_content,
            "context": {"turnIndex": index, "appId": self.held.session.app_name},
            "mocks": getattr(self.ctx.run_config, "mocks", None),
        }

    async def _holds(self, rule: Any) -> bool:
        condition, key = self.program.conditions[rule], self.held.key
        if isinstance(condition, decisions.Condition):
            return condition.holds(self.held.state)
        ran = await self.runtime.run_tool(condition, str(condition.name), {}, key, **self._options())
        if ran.error is not None:
            raise TurnFailedError("CALLBACK_FAILED", f"a transfer rule of {self.agent.name}: {ran.error}")
        return bool(ran.result)

    async def _request(self) -> dict[str, Any]:
        app, agent, known = self.program.app, self.agent, self.program.declarations
        listed = app.tools_of(agent)
        declarations = [known[name] for name in listed if name in known]
        if among := await self._targets():
            declarations.append(models.transfer_declaration(among))
        if END_SESSION in listed:
            declarations.append(models.end_declaration())
        text = "\n\n".join(filter(None, (app.global_instruction, agent.instruction)))
        instruction = models.instruction_of(text, visible(self.held.state, shared=()))
        return self._request_of(instruction, declarations)

    def _request_of(self, instruction: str, declarations: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a request of the agent to a model, as ``before_model_callback`` sees it."""
        config: dict[str, Any] = {}
        if instruction:
            config["systemInstruction"] = {"role": USER, "parts": [{"text": instruction}]}
        if declarations:
            config["tools"] = [{"functionDeclarations": declarations}]
        if self.agent.temperature is not None:
            config["temperature"] = self.agent.temperature
        model = self.agent.model or self.program.app.model or self.model.model
        contents = models.contents_of(self.held.events, self.ctx.invocation_id)
        return {"model": model, "contents": contents, "config": to_object(config, "config", lenient=True)}

    def _event(
        self, content: types.Content | None, *, transfer: AgentSpec | None = None, **more: Any
    ) -> Event:
        actions = EventActions(transfer_to_agent=None if transfer is None else transfer.name)
        self._is_recorded |= transfer is not None
        return Event(
            author=self.agent.name,
            invocation_id=self.ctx.invocation_id,
            branch=self.ctx.branch,
            content=content,
            actions=actions,
            **more,
        )

    def _withhold(self) -> None:
        """Leave out the answer that is held back, if the agent said it, and not the one before it."""
        if decisions.is_said(self.held.answer, self.agent.name):
            self.held.answer = None

    def _hold(self, event: Event | None) -> Event | None:
        """Hold *event* back, if there is one, and return the one before it, which is to be stored."""
        before, self.held.answer = self.held.answer, event
        return None if before is None else self.held.carried_by(before)
