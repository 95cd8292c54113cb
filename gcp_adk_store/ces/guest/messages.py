"""Hold what users, agents and models say, and what happened in a session."""

import base64
import json as json_text
import math
from typing import Annotated, Any, Final, Self

import pydantic

from .models import MessageModel, Model, decode_base64, is_from_host

JSON: Final = "application/json"
AUDIO: Final = "application/json+audio"
CUSTOMIZED_RESPONSE: Final = "application/json+agentResponse"

TRANSFER: Final = "transfer_to_agent"
END_SESSION: Final = "end_session"


class Blob(MessageModel):
    """Bytes of one media type."""

    display_name: str | None = None
    data: bytes | None = None
    """Base64 text."""
    mime_type: str | None = None
    transcript_field: str | None = pydantic.Field(default=None, alias="transcript")

    @property
    def raw_data(self) -> bytes:
        """The bytes themselves.

        Raises:
            TypeError: the blob has no data.
        """
        return decode_base64(self.data)

    @raw_data.setter
    def raw_data(self, value: bytes) -> None:
        self.data = base64.b64encode(value)

    def transcript(self) -> str | None:
        """Return what was said, of audio whose transcript is known."""
        return self.transcript_field

    @classmethod
    def from_json(cls, data: str) -> Self:
        """Return the JSON text *data* as a blob."""
        return cls._of_text(data, JSON)

    @classmethod
    def _of_text(cls, text: str, mime_type: str) -> Self:
        return cls(data=base64.b64encode(text.encode()), mime_type=mime_type)


def _encoded_text(data: bytes) -> bytes:
    """Return base64 of text, which *data* is or encodes."""
    try:
        decode_base64(data).decode()
    except UnicodeDecodeError:
        return base64.b64encode(data)
    return data


class FunctionCall(MessageModel):
    """A call that a model, or a callback in its place, asks for."""

    id: str | None = None
    args: dict[str, Any] | None = None
    name: str | None = None


class FunctionResponse(MessageModel):
    """What came of a call: the key ``output`` or ``error``, or all of it is the output."""

    will_continue: bool | None = None
    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None


class Part(MessageModel):
    """One piece of a message.

    Raises:
        pydantic.ValidationError: the code sets several fields; what the host sent may have several.
    """

    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    text: str | None = None
    inline_data: Blob | None = None

    @pydantic.model_validator(mode="after")
    def _has_one_field(self, info: pydantic.ValidationInfo) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) > 1 and not is_from_host(info):
            raise ValueError(f"a part has one field, and this one has {' and '.join(given)}")
        return self

    def text_or_transcript(self) -> str | None:
        """Return what is written or was said, if anything."""
        if self.text is not None:
            return self.text
        return self.inline_data.transcript() if self.inline_data else None

    def has_function_call(self, name: str) -> bool:
        """Return whether it calls the function *name*."""
        return self.function_call is not None and self.function_call.name == name

    def has_function_response(self, name: str) -> bool:
        """Return whether it holds what came of calling *name*."""
        return self.function_response is not None and self.function_response.name == name

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return a part that says *text*."""
        return cls(text=text)

    @classmethod
    def from_function_call(cls, name: str, args: dict[str, Any]) -> Self:
        """Return a part that calls *name*."""
        return cls(function_call=FunctionCall(name=name, args=args))

    @classmethod
    def from_function_response(cls, name: str, response: dict[str, Any]) -> Self:
        """Return a part that answers a call of *name*."""
        return cls(function_response=FunctionResponse(name=name, response=response))

    @classmethod
    def from_inline_data(cls, data: bytes, mime_type: str) -> Self:
        """Return a part of *data*: base64, which is kept as it is, or the bytes themselves.

        Text that would be base64 of bytes that are not text, such as ``true``, stays as it is.
        """
        if mime_type.startswith("text/") or mime_type == JSON:
            data = _encoded_text(data)
        return cls(inline_data=Blob(data=data, mime_type=mime_type))

    @classmethod
    def from_json(cls, data: str) -> Self:
        """Return a part of the JSON text *data*, a payload for the client."""
        return cls(inline_data=Blob.from_json(data))

    @classmethod
    def from_audio(
        cls,
        audio_uri: str,
        cancellable: bool = False,  # noqa: FBT001, FBT002  # the platform's signature
        interruptable: bool = True,  # noqa: FBT001, FBT002  # likewise
    ) -> Self:
        """Return a part that plays the recording at *audio_uri*."""
        played = {"audioUri": audio_uri, "cancellable": cancellable, "interruptable": interruptable}
        return cls(inline_data=Blob._of_text(json_text.dumps(played), AUDIO))  # noqa: SLF001  # of this module

    @classmethod
    def from_agent_transfer(cls, agent: str) -> Self:
        """Return a part that hands over to the agent named *agent*."""
        return cls.from_function_call(TRANSFER, {"agent_name": agent})

    @classmethod
    def from_end_session(cls, *, reason: str, escalated: bool = False) -> Self:
        """Return a part that ends the session."""
        return cls.from_function_call(END_SESSION, {"reason": reason, "session_escalated": escalated})

    @classmethod
    def from_customized_response(
        cls,
        *,
        content: str,
        disable_barge_in: bool = False,
        enable_dtmf: bool = False,
        dtmf_finish_digit: str = "#",
        dtmf_endpointing_timeout: int = 3,
    ) -> Self:
        """Return a part that says *content* with a behaviour of its own on the telephone."""
        said = {
            "content": content,
            "disableBargeIn": disable_barge_in,
            "enableDtmf": enable_dtmf,
            "dtmfFinishDigit": dtmf_finish_digit,
            "dtmfEndpointingTimeout": dtmf_endpointing_timeout,
        }
        return cls(inline_data=Blob._of_text(json_text.dumps(said), CUSTOMIZED_RESPONSE))  # noqa: SLF001  # as above


class Content(MessageModel):
    """A message."""

    parts: list[Part] | None = None
    role: str | None = None
    """``user``, or ``model`` of an agent."""

    def is_user(self) -> bool:
        """Return whether a user says it."""
        return self.role == "user"

    def is_model(self) -> bool:
        """Return whether a model, or an agent by its other name, says it."""
        return self.role in {"model", "agent"}


def _content_of(value: object) -> object:
    return {"parts": [{"text": value}]} if isinstance(value, str) else value


class Tool(Model):
    """A tool, as tool callbacks see it."""

    name: str
    """The display name."""
    description: str = ""


class FunctionDeclaration(MessageModel):
    """A function that a model may call."""

    name: str | None = None


class ToolDeclaration(MessageModel):
    """Functions that a model may call."""

    function_declarations: list[FunctionDeclaration] | None = None


class GenerateContentConfig(MessageModel):
    """How a model is to answer."""

    system_instruction: Annotated[Content | None, pydantic.BeforeValidator(_content_of)] = None
    tools: list[ToolDeclaration] | None = None
    excluded_tools: list[str] | None = None
    """Names that the model does not see, even if ``tools`` has them."""

    def hide_tool(self, tool_name: str) -> None:
        """Add *tool_name* to the excluded tools."""
        self.excluded_tools = self.excluded_tools or []
        self.excluded_tools.append(tool_name)


class LlmRequest(MessageModel):
    """A question to a model."""

    model: str | None = None
    contents: list[Content] = pydantic.Field(default_factory=list)
    config: GenerateContentConfig | None = None


class LlmResponse(MessageModel):
    """The answer of a model."""

    content: Content | None = None
    partial: bool | None = None
    """Whether the agent goes on after it was said."""
    turn_complete: bool | None = None

    @classmethod
    def from_parts(cls, parts: list[Part]) -> Self:
        """Return an answer of the model that consists of *parts*."""
        return cls(content=Content(parts=parts, role="model"))


def _whole_seconds(value: object) -> object:
    return math.floor(value) if isinstance(value, float) and math.isfinite(value) else value


def _without_nulls(given: object) -> object:
    return (
        {key: each for key, each in given.items() if each is not None} if isinstance(given, dict) else given
    )


class EventActions(MessageModel):
    """What an event does beside saying something."""

    _drop_nulls = pydantic.model_validator(mode="before")(_without_nulls)

    skip_summarization: bool = False
    state_delta: dict[str, Any] = pydantic.Field(default_factory=dict)
    artifact_delta: dict[str, Any] = pydantic.Field(default_factory=dict)
    transfer_to_agent: str = ""
    escalate: bool = False
    requested_auth_configs: dict[str, dict[str, Any]] = pydantic.Field(default_factory=dict)
    end_invocation: bool = False


class Event(Model):
    """One event of a session."""

    _drop_nulls = pydantic.model_validator(mode="before")(_without_nulls)

    id: str
    invocation_id: str
    author: str
    """``user``, or the name of an agent."""
    timestamp: Annotated[int, pydantic.BeforeValidator(_whole_seconds)]
    """In seconds; of fractions the whole ones."""
    content: Content | None = None
    actions: EventActions = pydantic.Field(default_factory=EventActions)
    long_running_tool_ids: set[str] = pydantic.Field(default_factory=set)
    partial: bool = False
    turn_complete: bool = False
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool = False
    branch: str | None = None
    grounding_metadata: Any = None

    def is_user(self) -> bool:
        """Return whether it is the user's."""
        return self.author == "user"

    def is_agent(self, agent_name: str | None = None) -> bool:
        """Return whether it is an agent's, or that of *agent_name*."""
        return not self.is_user() and agent_name in {None, self.author}

    def has_error(self) -> bool:
        """Return whether it reports an error."""
        return bool(self.error_code)

    def parts(self) -> list[Part]:
        """Return the parts of its content, if there are any."""
        return (self.content.parts or []) if self.content else []
