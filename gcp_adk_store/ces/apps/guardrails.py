"""Read guardrails: what may stop a turn, and what is done then."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gcp_adk_store.ces.apps.agents import AgentSpec, last_of
from gcp_adk_store.ces.guest.contract import GUARDRAILS, Callback

_MEMBERS: Final = {
    "before_agent_guardrail": "beforeAgentCallback",
    "after_agent_guardrail": "afterAgentCallback",
    "before_model_guardrail": "beforeModelCallback",
    "after_model_guardrail": "afterModelCallback",
}
"""Where the configuration has the code of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailSpec:
    """A guardrail, as its configuration has it."""

    name: str
    """The display name."""
    folder: str
    enabled: bool = True
    responses: tuple[str, ...] = ()
    """Texts to answer with; empty for another action."""
    transfer_to: str = ""
    """The agent to hand over to, as the configuration names it; empty for another action."""
    prompt: str | None = None
    """What a model is told for an answer; None for another action."""

    @property
    def names(self) -> frozenset[str]:
        """What configurations may call it."""
        return frozenset({self.name, self.folder})


def guardrail_of(folder: str, config: Mapping[str, Any]) -> GuardrailSpec:
    """Return the guardrail in *folder*; what is malformed in *config* is left out."""
    action = _mapping(config.get("action"))
    listed = _mapping(action.get("respondImmediately")).get("responses")
    transfer = _mapping(action.get("transferAgent")).get("agent")
    answer = action.get("generativeAnswer")
    return GuardrailSpec(
        name=str(config.get("displayName") or folder),
        folder=folder,
        enabled=config.get("enabled", True) is not False,
        responses=tuple(
            str(each["text"])
            for each in (listed if isinstance(listed, list) else ())
            if isinstance(each, Mapping) and each.get("text") and not each.get("disabled")
        ),
        transfer_to=last_of(transfer) if isinstance(transfer, str) else "",
        prompt=str(_mapping(answer).get("prompt") or "") if isinstance(answer, Mapping) else None,
    )


def code_of(config: Mapping[str, Any]) -> Iterator[tuple[Callback | None, Any, bool]]:
    """Yield the kind, the ``pythonCode`` and whether it is disabled, of each callback of a guardrail.

    The kind is None for what is no callback: it would not guard.
    """
    declared = config.get("codeCallback") or {}
    if not isinstance(declared, Mapping):
        declared = {"": declared}
    for kind in GUARDRAILS:
        if (told := declared.get(_MEMBERS[kind])) is not None:
            callback = _mapping(told)
            yield kind, callback.get("pythonCode"), callback.get("disabled") is True
    for _ in declared.keys() - {*_MEMBERS.values()}:
        yield None, None, False


def in_force(
    guardrails: tuple[GuardrailSpec, ...], of_app: tuple[str, ...], agent: AgentSpec
) -> list[GuardrailSpec]:
    """Return the guardrails of *agent*: the app's, then its own, without those that are not enabled.

    Args:
        guardrails: All of the app.
        of_app: Those that guard every agent, as the configuration names them.
        agent: The agent.
    """
    found = {
        each.folder: each
        for name in (*of_app, *agent.guardrails)
        for each in guardrails
        if each.enabled and last_of(name) in each.names
    }
    return list(found.values())


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
