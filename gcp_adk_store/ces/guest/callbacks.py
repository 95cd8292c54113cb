"""Hand callbacks, those of guardrails too, what they are about, and report what they made of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from .contract import GUARDRAILS, IN_REQUEST, Callback, parameters_of
from .messages import Content, LlmRequest, LlmResponse, Tool
from .models import CallbackResultError, MessageModel, RequestError, from_wire, plain, same_json, to_wire

OK: Final = "OK"
TRIGGER: Final = "TRIGGER"


@dataclass(slots=True)
class GuardrailResult:
    """What the callback of a guardrail returns."""

    decision: str = OK
    """``OK``, or ``TRIGGER``, which stops the turn."""
    reason: str = ""


GuardrailResult.__module__ = "ces_internal"


GUARDRAIL_GLOBALS: Final[dict[str, Any]] = {
    "GuardrailResult": GuardrailResult,
    "create_guardrail_result": GuardrailResult,
}
"""What the code of guardrails finds beside the names of all code."""


OVERRIDES: Final[dict[str, type[MessageModel] | type[dict[str, Any]]]] = {
    "before_agent": Content,
    "after_agent": Content,
    "before_model": LlmResponse,
    "after_model": LlmResponse,
    "before_tool": dict,
    "after_tool": dict,
}
"""What may be returned."""

_MODELS: Final[dict[str, type[Tool | MessageModel]]] = {
    "tool": Tool,
    "llm_request": LlmRequest,
    "llm_response": LlmResponse,
}


class ToolResponse(dict[str, Any]):
    """A response that reports a look for what is in its ``result``."""

    def __init__(self, response: dict[str, Any], warn: Callable[[str], None]) -> None:
        super().__init__(response)
        self._warn = warn

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what is there, or *default*."""
        return super().get(key, default) if key in self else default

    def __contains__(self, key: object) -> bool:
        found, result = super().__contains__(key), super().get("result")
        if not found and isinstance(result, dict) and key in result:
            why = "some of the platform's paths hand over what is in it"
            self._warn(f"tool_response has {key!r} in its 'result': {why}")
        return found

    def __missing__(self, key: str) -> Any:
        _ = key in self
        raise KeyError(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """What the callbacks of one kind get, one after the other the same objects."""

    callback: Callback
    values: dict[str, Any]
    """By the name of the parameter."""
    before: dict[str, Any]
    """Those that may be changed in place, as JSON."""

    @classmethod
    def of(cls, callback: Callback, request: Mapping[str, Any], warn: Callable[[str], None]) -> Self:
        """Return what *request* has for *callback*.

        Raises:
            RequestError: something is missing.
            pydantic.ValidationError: something is not what it should be.
        """
        values: dict[str, Any] = {}
        for name in parameters_of(callback):
            if name == "callback_context":
                continue
            given = request.get(IN_REQUEST.get(name, name))
            if not isinstance(given, dict):
                raise RequestError(f"{callback} needs {IN_REQUEST.get(name, name)}")
            value = plain(given, name)
            if name in _MODELS:
                value = from_wire(_MODELS[name], value)
            values[name] = ToolResponse(value, warn) if name == "tool_response" else value
        before = {name: _as_json(name, value) for name, value in values.items() if name != "tool"}
        return cls(callback=callback, values=values, before=before)

    @property
    def guards(self) -> bool:
        """Whether the callbacks are a guardrail's."""
        return self.callback in GUARDRAILS

    def function(self, namespace: Mapping[str, Any]) -> str:
        """Return the name of the function to call; that of a guardrail's may be as of an agent's callback."""
        name, other = f"{self.callback}_callback", f"{self.callback.removesuffix('_guardrail')}_callback"
        return other if self.guards and name not in namespace and other in namespace else name

    def override(self, returned: Any, warn: Callable[[str], None]) -> dict[str, Any] | None:
        """Return what a callback *returned* as JSON, if no other is called then: an override, or a trigger.

        Raises:
            CallbackResultError: it is of another type, or a guardrail's without a decision.
            NotJsonError: something in it cannot be JSON.
        """
        if self.guards and returned is None:
            warn(f"a {self.callback}_callback returned nothing, which counts as OK: return a GuardrailResult")
        if returned is None:
            return None
        if self.guards:
            return self._triggered(returned)
        expected = OVERRIDES[self.callback]
        if not isinstance(returned, expected):
            found, wanted = type(returned).__name__, expected.__name__
            raise CallbackResultError(f"{self.callback}_callback returned {found}, not {wanted} or None")
        return _as_json("result", returned)

    def _triggered(self, returned: Any) -> dict[str, Any] | None:
        """Return what a guardrail *returned* if it triggers: an object or a dict, of decision and reason."""
        decision, reason = (
            returned.get(name) if isinstance(returned, dict) else getattr(returned, name, None)
            for name in ("decision", "reason")
        )
        if not (isinstance(decision, str) and isinstance(reason, str | None) and decision in {OK, TRIGGER}):
            raise CallbackResultError(
                f"{self.callback}_callback returned {type(returned).__name__} without the decision {OK} or "
                f"{TRIGGER}: return a GuardrailResult, or a dict with decision and reason"
            )
        made = {"decision": decision, "reason": reason or ""}
        return _as_json("result", made) if decision == TRIGGER else None

    def changed(self) -> dict[str, Any]:
        """Return, by their names in an answer, those that were changed in place.

        Raises:
            CallbackResultError: a subject no longer has its type.
            NotJsonError: something in one cannot be JSON.
        """
        changed: dict[str, Any] = {}
        for name, before in self.before.items():
            after = _as_json(name, self.values[name])
            if not same_json(before, after):
                changed[IN_REQUEST.get(name, name)] = after
        return changed


def _as_json(name: str, value: MessageModel | dict[str, Any]) -> dict[str, Any]:
    return dict(plain(value, name)) if isinstance(value, dict) else to_wire(value, name)
