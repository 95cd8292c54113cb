"""The request and the answer of a run: JSON objects.

Model objects travel in the shape of Google's APIs: camelCase names (snake_case is read too), what is absent
left out, bytes as standard base64. What this package does not know of a part, a request or a response comes
back as it was given.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, NotRequired, get_args

from annotated_types import Ge
from typing_extensions import TypedDict  # pydantic reads that of typing since Python 3.12 alone

Kind = Literal["tool", "callback"]
AgentCallback = Literal[
    "before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool"
]
GuardrailCallback = Literal[
    "before_agent_guardrail", "after_agent_guardrail", "before_model_guardrail", "after_model_guardrail"
]
Callback = AgentCallback | GuardrailCallback

AGENT_CALLBACKS: Final[tuple[AgentCallback, ...]] = get_args(AgentCallback)
GUARDRAILS: Final[tuple[GuardrailCallback, ...]] = get_args(GuardrailCallback)
"""Callbacks of guardrails, which decide whether a turn may go on."""
CALLBACKS: Final[tuple[str, ...]] = (*AGENT_CALLBACKS, *GUARDRAILS)

_PARAMETERS: Final = {
    "before_agent": ("callback_context",),
    "after_agent": ("callback_context",),
    "before_model": ("callback_context", "llm_request"),
    "after_model": ("callback_context", "llm_response"),
    "before_tool": ("tool", "input", "callback_context"),
    "after_tool": ("tool", "input", "callback_context", "tool_response"),
}
IN_REQUEST: Final = {"input": "args"}
"""What a request calls parameters of callbacks, where that differs."""


def parameters_of(callback: str) -> tuple[str, ...]:
    """Return the names that callbacks of a kind are called by; a guardrail's are those of an agent's."""
    return _PARAMETERS[callback.removesuffix("_guardrail")]


def subjects_of(callback: str) -> tuple[str, ...]:
    """Return what a request has for callbacks of a kind, beside their context."""
    names = (name for name in parameters_of(callback) if name != "callback_context")
    return tuple(IN_REQUEST.get(name, name) for name in names)


SUBJECTS: Final = tuple(dict.fromkeys(name for kind in AGENT_CALLBACKS for name in subjects_of(kind)))
"""All that callbacks of any kind are about."""

MAX_VARIABLE_BYTES: Final = 262_144
"""Above it the platform lets the whole turn fail, measured on a variable's JSON."""

IMPORTABLE: Final = (
    *("annotated_types", "ces_internal", "ces_public", "google.protobuf", "numpy", "pydantic"),
    *("pydantic_core", "typing_extensions", "typing_inspection"),
)


class Code(TypedDict):
    """One file of user code."""

    source: str
    filename: str
    """As tracebacks show it; need not exist."""
    name: NotRequired[str]
    """The function to call; left out of a callback it is ``before_model_callback`` and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What is chosen where the platform's behaviour is not known, or differs between its versions."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    strict_typing: bool = False
    """Whether ``Optional`` and the like must be imported, instead of being there with a warning."""
    capture: bool = True
    """Whether stdin, stdout and stderr are the run's; without it a debugger works in the same process."""
    importable: tuple[str, ...] | None = IMPORTABLE
    """What can be imported beside the standard library; None is everything that is installed."""
    max_variable_bytes: Annotated[int, Ge(0)] | None = MAX_VARIABLE_BYTES
    max_stdout_chars: Annotated[int, Ge(0)] = 262_144


class Request(TypedDict):
    """One run: a tool call, or the callbacks of one kind in their order."""

    kind: Kind
    callback: NotRequired[Callback]
    """Of a callback alone."""
    code: list[Code]
    """One of a tool; callbacks in order. Disabled ones are left out by the host."""
    args: NotRequired[dict[str, Any]]
    """The tool's arguments; the ``input`` of tool callbacks."""
    context: NotRequired[dict[str, Any]]
    """``state``, ``events``, ``userContent`` and the other fields of ToolContext; in ``withheldVariables``
    the names of variables that are not JSON, which the code can remove."""
    llm_request: NotRequired[dict[str, Any]]
    """Of before_model."""
    llm_response: NotRequired[dict[str, Any]]
    """Of after_model."""
    tool: NotRequired[dict[str, Any]]
    """``name`` and ``description``, of tool callbacks."""
    tool_response: NotRequired[dict[str, Any]]
    """Of after_tool."""
    tools: NotRequired[list[str]]
    """Every name that ``tools.X`` and ``async_tools.X`` may have."""
    settings: NotRequired[RunSettings]


class StateDelta(TypedDict):
    """How variables changed."""

    changed: dict[str, Any]
    """New values by name, of new variables too."""
    removed: list[str]


class RunError(TypedDict):
    """Why a run failed."""

    type: str
    """Name of the exception's class, such as ``KeyError``, also of this package: ``NotJsonError``."""
    message: str
    traceback: str
    """As Python prints it, with the frames of user code alone."""


class Answer(TypedDict):
    """The outcome of a run, which is always JSON."""

    result: Any
    """What the tool returned, or what the callback returned that overrides."""
    overridden_by: int | None
    """Index in ``code`` of the callback that returned something other than None, or of the guardrail that has
    triggered; those after it were not run. None if none of them did."""
    state_delta: StateDelta
    """What the code changed of the variables; after a failure nothing."""
    actions: dict[str, Any] | None
    """``context.actions``, where the code changed them; what follows of them is up to the host."""
    changed: dict[str, dict[str, Any]]
    """What callbacks changed in place of what they are about, by the names of the request."""
    warnings: list[str]
    """What works here and may not on the platform."""
    error: RunError | None


class HostCall(TypedDict):
    """What the code asks of the host.

    The host answers ``tool`` and ``http`` with a HostReply. With ``background`` it begins the call, answers
    ``{}`` at once and gives the reply to the ``collect`` of the same id: so calls run side by side over a
    channel that carries one question at a time. The guest never has two questions open.
    """

    call: Literal["tool", "http", "collect"]
    id: int
    """From 1, one a call within its run; that of ``collect`` is its call's."""
    background: NotRequired[bool]
    tool: NotRequired[str]
    args: NotRequired[dict[str, Any]]
    state: NotRequired[dict[str, Any]]
    """The variables as they are, for a tool that reads them."""
    method: NotRequired[str]
    """``GET`` and so on."""
    url: NotRequired[str]
    params: NotRequired[Any]
    headers: NotRequired[Any]
    data: NotRequired[Any]
    """Text, or form fields by name."""
    json: NotRequired[Any]


class HostReply(TypedDict, total=False):
    """What the host answers."""

    id: int
    status_code: int
    """0 for a request without an answer; then ``reason`` is ``Error fetching from URL``."""
    reason: str
    text: str
    state_delta: StateDelta
    """What the called tool changed; applied to the variables of the calling code."""
    error: dict[str, str]
    """``type`` and ``message``: ends the run, and no except clause of the code prevents it."""
