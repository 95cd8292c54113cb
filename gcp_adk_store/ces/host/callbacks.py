"""Make requests of callbacks, and tell what they left behind."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.adk.models.llm_request import LlmRequest
from google.genai import types
from pydantic import TypeAdapter

from gcp_adk_store.ces.guest.contract import CALLBACKS
from gcp_adk_store.ces.host.questions import Answer
from gcp_adk_store.ces.host.wire import to_object
from gcp_adk_store.ces.tools.declarations import CodeFile
from gcp_adk_store.errors import InvalidInputError

_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "before_agent": (),
    "after_agent": (),
    "before_model": ("llm_request",),
    "after_model": ("llm_response",),
    "before_tool": ("tool", "args"),
    "after_tool": ("tool", "args", "tool_response"),
    "before_agent_guardrail": (),
    "after_agent_guardrail": (),
    "before_model_guardrail": ("llm_request",),
    "after_model_guardrail": ("llm_response",),
}

_MAY_CHANGE: Final = ("llm_request", "llm_response", "args", "tool_response")


def callback_request(
    kind: str,
    code: str | CodeFile | Sequence[str | CodeFile],
    subjects: Mapping[str, Any],
    *,
    filename: str | None,
) -> dict[str, Any]:
    """Return the request that calls the callbacks of *kind* in *code* about *subjects*.

    Raises:
        InvalidInputError: the kind is unknown, or the code or a subject that the kind needs is missing.
    """
    callback = kind.removesuffix("_callback")
    if callback not in CALLBACKS:
        raise InvalidInputError(f"unknown callback {kind[:40]!r}; known: {', '.join(CALLBACKS)}")
    files = [code] if isinstance(code, str | CodeFile) else list(code)
    if not files:
        raise InvalidInputError("code is empty; give at least one file")
    missing = [name for name in _NEEDS[callback] if subjects.get(name) is None]
    if missing:
        raise InvalidInputError(f"{callback}_callback needs {' and '.join(missing)}")
    numbers = [""] if len(files) == 1 else [f"_{number:02}" for number in range(1, len(files) + 1)]
    return {
        "kind": "callback",
        "callback": callback,
        "code": [
            CodeFile.of(file, filename=filename).wire(
                function=None, filename=f"{callback}_callback{number}.py"
            )
            for file, number in zip(files, numbers, strict=True)
        ],
        **{name: to_object(_without_classes(subjects[name]), name) for name in _NEEDS[callback]},
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


def subjects_after(request: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Return the subjects after the callbacks, and the names of those that they ``changed``."""
    return {
        **{name: answer.changed.get(name, request.get(name)) for name in _MAY_CHANGE},
        "changed": frozenset(answer.changed),
    }
