"""Ask the guardrails of an agent whether a turn may go on."""

from collections.abc import Mapping
from typing import Any

from gcp_adk_store.ces.apps.agents import AgentSpec
from gcp_adk_store.ces.apps.guardrails import GuardrailSpec
from gcp_adk_store.ces.conversation.failures import CALLBACK_FAILED, TurnFailedError, require_success
from gcp_adk_store.ces.conversation.program import Program
from gcp_adk_store.ces.host.keys import SessionKey
from gcp_adk_store.ces.host.runtime import PythonRuntime
from gcp_adk_store.ces.sandbox.errors import SandboxError, SandboxUnavailableError


class GuardrailTriggeredError(Exception):
    """A guardrail stops the turn.

    Attributes:
        guardrail: Which one.
        reason: What its code says.
    """

    def __init__(self, guardrail: GuardrailSpec, reason: str) -> None:
        super().__init__(f"{guardrail.name}: {reason}")
        self.guardrail, self.reason = guardrail, reason


async def guard(
    program: Program,
    runtime: PythonRuntime,
    agent: AgentSpec,
    kind: str,
    key: SessionKey,
    *,
    subjects: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    """Run the callbacks of *kind* of the guardrails of *agent*, in order, until one triggers.

    Args:
        program: The app.
        runtime: Where code runs.
        agent: Who acts.
        kind: ``before_agent`` and so on.
        key: The session.
        subjects: What the callbacks are about.
        options: Of each run.

    Raises:
        GuardrailTriggeredError: one has triggered.
        TurnFailedError: the code of one failed.
        SandboxUnavailableError: no code can be run here.
    """
    for guardrail in program.guardrails.get(agent.folder, ()):
        code = program.guardrail_code.get((guardrail.folder, f"{kind}_guardrail"))
        if code is None:
            continue
        what = f"{kind} of the guardrail {guardrail.name}"
        try:
            ran = await runtime.run_callback(f"{kind}_guardrail", code, key, **subjects, **options)
        except SandboxUnavailableError:
            raise
        except SandboxError as exc:
            raise TurnFailedError(CALLBACK_FAILED, f"{what}: {exc}") from exc
        require_success(ran, what)
        if ran.override is not None:
            raise GuardrailTriggeredError(guardrail, str(ran.override.get("reason", "")))
