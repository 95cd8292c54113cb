"""Decide, in the callback of a guardrail, whether a turn may go on."""

from typing import Any, Final

import pydantic

from .models import Model

OK: Final = "OK"
TRIGGER: Final = "TRIGGER"


class GuardrailResult(Model):
    """What the callback of a guardrail returns."""

    decision: str = OK
    """``OK``, or ``TRIGGER``, which stops the turn."""
    reason: str = ""


GuardrailResult.__module__ = "ces_internal"


def create_guardrail_result(decision: str = OK, reason: str = "") -> GuardrailResult:
    """Return a result."""
    return GuardrailResult(decision=decision, reason=reason)


GLOBALS: Final[dict[str, Any]] = {
    "GuardrailResult": GuardrailResult,
    "create_guardrail_result": create_guardrail_result,
}
"""What the code of guardrails finds beside the names of all code."""


class GuardrailResultError(TypeError):
    """The callback of a guardrail returned no decision."""


def decided(returned: Any) -> GuardrailResult:
    """Return the decision of a callback: an object or a dict with ``decision`` and ``reason``.

    Raises:
        GuardrailResultError: it is not one of these.
    """
    names = ("decision", "reason")
    told = returned if isinstance(returned, dict) else {name: getattr(returned, name, None) for name in names}
    try:
        result = GuardrailResult.model_validate(
            {"decision": told.get("decision"), "reason": told.get("reason") or ""}
        )
    except pydantic.ValidationError:
        result = GuardrailResult(decision="")
    if result.decision not in {OK, TRIGGER}:
        raise GuardrailResultError(
            f"a guardrail returned {type(returned).__name__} without the decision {OK} or {TRIGGER}: return "
            "a GuardrailResult, or a dict with decision and reason"
        )
    return result
