"""Make requests of models from a conversation; scripted replies."""

import importlib.util
import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import httpx
import pydantic
import yaml
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.auth.exceptions import GoogleAuthError
from google.genai import types
from google.genai.errors import APIError
from typing_extensions import override

from gcp_adk_store.ces.apps.agents import MENTION, AgentSpec
from gcp_adk_store.ces.apps.files import UNREADABLE_YAML
from gcp_adk_store.ces.conversation.decisions import ModelFailedError, calls_of
from gcp_adk_store.ces.guest.messages import END_SESSION, TRANSFER
from gcp_adk_store.ces.guest.models import NotJsonError, plain, sendable
from gcp_adk_store.ces.host.invocation import CALL_ID
from gcp_adk_store.ces.host.session_context import to_object
from gcp_adk_store.ces.host.settings import USER
from gcp_adk_store.ces.tools.declarations import declared
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.operation import require_arguments

# Google's client uses aiohttp if that is installed, otherwise httpx.
_AIOHTTP: Final = importlib.import_module("aiohttp") if importlib.util.find_spec("aiohttp") else None
_OF_CLIENT: Final = httpx.HTTPError if _AIOHTTP is None else _AIOHTTP.ClientError
SERVICE_ERRORS: Final = (APIError, httpx.HTTPError, GoogleAuthError, _OF_CLIENT)
"""What a model of ADK raises if its service, the way to it or the credentials fail."""
MOST_SAID: Final = 500
"""The most characters that an error says of the failure of a model."""
_VARIABLE: Final = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}|\{\s*([A-Za-z_]\w*)\s*\}")


def instruction_of(text: str, variables: Mapping[str, Any]) -> str:
    """Return *text* with the names of mentioned tools and agents, and the values of variables.

    What is in braces and no variable stays as it is.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in variables:
            return found[0]
        given = variables[name]
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)

    return sendable(_VARIABLE.sub(value, MENTION.sub(r"\2", text)))


def contents_of(events: Sequence[Event], invocation_id: str) -> list[dict[str, Any]]:
    """Return *events* as the model sees them, as JSON.

    Inline data stays only in what the user says in this turn: payloads of agents are the client's, and media
    of earlier turns are gone. A call that was never answered is left out, such as that of ``end_session``.
    """
    answered = {response.id for event in events for response in event.get_function_responses()}
    contents = []
    for event in events:
        if event.partial or event.content is None:
            continue
        keeps_media = event.author == USER and event.invocation_id == invocation_id
        parts = [
            part
            for part in event.content.parts or []
            if (part.inline_data is None or keeps_media)
            and (part.function_call is None or part.function_call.id in answered)
        ]
        if parts:
            kept = types.Content(role=event.content.role or "model", parts=parts)
            contents.append(to_object(kept, f"event {event.id}", lenient=True))
    return contents


def transfer_declaration(among: Sequence[AgentSpec]) -> dict[str, Any]:
    """Return the declaration of ``transfer_to_agent`` to one of *among*."""
    listed = "\n".join(f"- {each.name}: {each.description}".rstrip(": ") for each in among)
    name = {"type": "string", "enum": [each.name for each in among]}
    says = f"Hand the conversation over to another agent, which answers from now on:\n{listed}"
    return declared(TRANSFER, says, {"agent_name": name}, ["agent_name"])


def end_declaration() -> dict[str, Any]:
    """Return the declaration of ``end_session``."""
    properties = {"reason": {"type": "string"}, "session_escalated": {"type": "boolean"}}
    return declared(END_SESSION, "End the session.", properties, [])


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model calls in one response, before callbacks change it."""

    refused: frozenset[str] = frozenset()
    """Names that its request did not offer."""
    targets: frozenset[str] = frozenset()
    """Names of agents that it transfers to."""

    @classmethod
    def of(cls, said: LlmResponse, request: Mapping[str, Any]) -> Self:
        """Return what *said*, the response to *request*, calls."""
        calls = [(str(each.name), each.args or {}) for each in calls_of(said.content)]
        functions = (each for tool in _tools(request) for each in tool["functionDeclarations"])
        offered = {str(each.get("name")) for each in functions}
        return cls(
            frozenset(name for name, _ in calls if name not in offered),
            frozenset(str(args.get("agent_name")) for name, args in calls if name == TRANSFER),
        )


def _tools(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tools of *request*, without the functions that it excludes."""
    config = request.get("config") or {}
    hidden = set(config.get("excludedTools") or ())
    for tool in config.get("tools") or ():
        shown = [each for each in tool.get("functionDeclarations") or () if each.get("name") not in hidden]
        if shown:
            yield {**tool, "functionDeclarations": shown}


def to_adk(request: Mapping[str, Any]) -> LlmRequest:
    """Return *request* as ADK's models take it, without the tools that it excludes.

    A response whose call is not just before it, as a background tool's, becomes text: models refuse it else.
    """
    given = request.get("config") or {}
    config = {name: each for name, each in given.items() if name not in {"tools", "excludedTools"}}
    if tools := [*_tools(request)]:
        config["tools"] = tools
    wire = {"contents": _paired(request.get("contents") or []), "config": config}
    made = LlmRequest.model_validate_json(json.dumps(wire))
    made.model = request.get("model") or None
    return made


def _paired(contents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    paired: list[dict[str, Any]] = []
    called: set[Any] = set()
    for content in contents:
        parts = [_part(part, called) for part in content.get("parts") or ()]
        paired.append({**content, "parts": parts})
        called = {call.get("id") for part in content.get("parts") or () if (call := part.get("functionCall"))}
    return paired


def _part(part: Mapping[str, Any], called: set[Any]) -> dict[str, Any]:
    """Return *part* without an id that this package gave it, or as text if its call is not in *called*."""
    response = part.get("functionResponse")
    if response is not None and response.get("id") not in called:
        content = json.dumps(response.get("response"), ensure_ascii=False)
        return {"text": f"<tool_response name={json.dumps(response.get('name'))}>{content}</tool_response>"}
    for name in ("functionCall", "functionResponse"):
        given = part.get(name)
        if given is not None and str(given.get("id", "")).startswith(CALL_ID):
            return {**part, name: {key: value for key, value in given.items() if key != "id"}}
    return dict(part)


def content_of(wire: Mapping[str, Any] | None) -> types.Content | None:
    """Return the content that *wire* is; None for none."""
    return None if wire is None else types.Content.model_validate_json(json.dumps(wire))


Reply = str | Mapping[str, Any]
"""A text; or ``text`` and ``calls``, a list of ``name`` and ``args``; or an LlmResponse with ``content``."""


class ScriptError(InvalidInputError):
    """A script has no reply to this request; the turn ends with this error."""


def as_model(model: str | BaseLlm) -> BaseLlm:
    """Return *model*, made by ADK where it is a name.

    Raises:
        InvalidInputError: ADK knows no model of that name.
    """
    if isinstance(model, BaseLlm):
        return model
    try:
        return LLMRegistry.new_llm(model)
    except ValueError as exc:
        raise InvalidInputError(f"ADK has no model {model[:100]!r}: {str(exc)[:300]}") from exc


def read_script(path: Path) -> list[Any] | dict[str, Any]:
    """Return the replies in the file *path*, JSON or YAML: a list, or such lists by name.

    Raises:
        InvalidInputError: it cannot be read, or is neither.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        # YAML makes two lone surrogates of an escaped emoji, and a text of 1e5.
        read = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, yaml.YAMLError, *UNREADABLE_YAML) as exc:
        raise InvalidInputError(f"{path} cannot be read as a script: {exc}") from exc
    if isinstance(read, list):
        return read
    if isinstance(read, dict) and all(isinstance(each, list) for each in read.values()):
        return {str(name): each for name, each in read.items()}
    raise InvalidInputError(f"{path}: a script must be a list of replies, or an object of such lists")


class ScriptedModel(BaseLlm):
    """Gives the replies that it was made with, in their order, and does not read the question.

    A turn that asks for one more ends with a :class:`ScriptError`.
    """

    model: str = "scripted"
    _replies: list[LlmResponse] = pydantic.PrivateAttr(default_factory=list)
    _next: int = pydantic.PrivateAttr(default=0)
    _requests: list[LlmRequest] = pydantic.PrivateAttr(default_factory=list)

    def __init__(self, replies: Iterable[Reply]) -> None:
        """Take the *replies*.

        Raises:
            InvalidInputError: *replies* is not a list, or one of them is not a reply.
        """
        super().__init__(model="scripted")
        self.script(replies)

    def script(self, replies: Iterable[Reply]) -> None:
        """Give these *replies* from now on; raises as the constructor."""
        if isinstance(replies, str | Mapping) or not isinstance(replies, Iterable):
            raise InvalidInputError(f"replies must be a list, not {type(replies).__name__}")
        self._replies = [_response(reply, number) for number, reply in enumerate(replies, start=1)]
        self._next = 0

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Return a model of the list of replies in the file *path*, JSON or YAML.

        Raises:
            InvalidInputError: it cannot be read, is not a list of replies, or *path* is not a path.
        """
        require_arguments(ScriptedModel.from_file, locals())
        read = read_script(path)
        if not isinstance(read, list):
            raise InvalidInputError(f"{path}: a script must be a list of replies")
        return cls(read)

    @property
    def requests(self) -> tuple[LlmRequest, ...]:
        """What it was asked, in order."""
        return tuple(self._requests)

    @override
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._requests.append(llm_request)
        if self._next >= len(self._replies):
            raise ScriptError(f"the script has {len(self._replies)} replies, and was asked for one more")
        self._next += 1
        yield self._replies[self._next - 1].model_copy(deep=True)


async def whole_response(model: BaseLlm, request: Mapping[str, Any]) -> LlmResponse:
    """Return the whole response of *model* to *request*, which is JSON.

    Raises:
        ModelFailedError: it gave none, or an error. What the model raises.
    """
    asked = to_adk(request)
    asked.model = model.model
    last: LlmResponse | None = None
    async for response in model.generate_content_async(asked, stream=False):
        last = response
    if last is None:
        raise ModelFailedError("MODEL_FAILED", f"the model {model.model} gave no response")
    if last.error_code and not (last.content and last.content.parts):
        raise ModelFailedError(str(last.error_code), last.error_message or "the model failed")
    return last


def response_json(said: LlmResponse) -> dict[str, Any]:
    """Return *said* as ``after_model_callback`` sees it.

    Raises:
        ModelFailedError: neither code nor a later request can have it, such as arguments that nest too deep.
    """
    what = "the response of the model"
    try:
        made: dict[str, Any] = plain(to_object(said, what, lenient=True), what)
    except (InvalidInputError, NotJsonError) as exc:
        raise ModelFailedError("MODEL_FAILED", str(exc)[:MOST_SAID]) from exc
    return made


def _response(reply: Any, number: int) -> LlmResponse:
    if isinstance(reply, str):
        reply = {"text": reply}
    try:
        if "content" in reply:
            return LlmResponse.model_validate_json(json.dumps(reply))
        if not reply or set(reply) - {"text", "calls"}:
            raise ValueError("it may have text and calls, or content")  # noqa: TRY301  # as of what it calls
        parts = [] if reply.get("text") is None else [types.Part(text=str(reply["text"]))]
        for call in reply.get("calls") or ():
            made = types.FunctionCall(name=str(call["name"]), args=dict(call.get("args") or {}))
            parts.append(types.Part(function_call=made))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise InvalidInputError(f"reply {number} of the script is not valid: {str(exc)[:300]}") from exc
    return LlmResponse(content=types.Content(role="model", parts=parts))
