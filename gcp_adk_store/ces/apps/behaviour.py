"""Read how an app behaves in errors, with fakes and in time, and what of that runs on the platform alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gcp_adk_store.ces.apps.files import member

_SECONDS: Final = "s"
"""The end of a duration in JSON, such as ``12.5s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandling:
    """What an agent answers if its model fails: ``errorHandlingSettings``."""

    says: str = ""
    """The fallback message in the app's own language; empty if it has none."""
    most_fallbacks: int = 0
    """How often in a row it says that before it ends the session; 0 for always."""
    ends: bool = False
    """Whether it ends the session instead."""
    escalates: bool = False
    """Whether the end asks for a human."""


def error_handling_of(config: Mapping[str, Any]) -> ErrorHandling:
    """Return what the configuration of an app says; what is malformed is left out."""
    settings = config.get("errorHandlingSettings")
    strategy = member(settings, "errorHandlingStrategy")
    told = member(settings, "fallbackResponseConfig", "customFallbackMessages")
    texts = {str(language): str(text) for language, text in told.items()} if isinstance(told, dict) else {}
    language = str(member(config, "languageSettings", "defaultLanguageCode"))
    says = texts.get(language) or next(iter(texts.values()), "")
    most = member(settings, "fallbackResponseConfig", "maxFallbackAttempts")
    return ErrorHandling(
        says=says if strategy == "FALLBACK_RESPONSE" else "",
        most_fallbacks=most if isinstance(most, int) and not isinstance(most, bool) else 0,
        ends=strategy == "END_SESSION",
        escalates=member(settings, "endSessionConfig", "escalateSession") is True,
    )


def seconds_of(duration: Any) -> float | None:
    """Return the seconds of a duration in JSON, such as ``12.5s``; None for anything else."""
    text = str(duration)
    try:
        seconds = float(text.removesuffix(_SECONDS))
    except ValueError:
        return None
    return seconds if text.endswith(_SECONDS) and 0 < seconds < float("inf") else None


def fake_of(config: Mapping[str, Any]) -> str | None:
    """Return the path of the fake of a tool or a toolset; None if it has none, or does not use it."""
    fake = config.get("toolFakeConfig")
    code = member(fake, "codeBlock", "pythonCode")
    return code if isinstance(code, str) and member(fake, "enableFakeMode") is True else None


def uses_fakes(config: Mapping[str, Any]) -> bool:
    """Return whether golden conversations of the app call fakes instead of tools."""
    return bool(member(config, "evaluationSettings", "goldenEvaluationToolCallBehaviour") == "FAKE")


def unlike_of_app(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the configuration of an app asks for, and what happens here instead."""
    settings = config.get("errorHandlingSettings")
    if (
        member(settings, "errorHandlingStrategy") == "FALLBACK_RESPONSE"
        and not error_handling_of(config).says
    ):
        yield (
            "the app has no customFallbackMessages, and only the platform has its own: if the model fails, "
            "the turn fails here"
        )


def unlike_of_toolset(config: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the same of a toolset."""
    if member(config, "mcpToolset", "customHeaders"):
        yield f"the customHeaders of {name} are not sent: tools of an MCP server run on the platform alone"
    if seconds_of(config.get("timeout")) is not None:
        yield f"the timeout of {name} does not count: its requests have HttpPolicy.timeout_s, 10 s by default"


def unlike_of_callback(config: Mapping[str, Any], what: str) -> Iterator[str]:
    """Yield the same of a callback, which is called *what*."""
    if config.get("proactiveExecutionEnabled") is True and config.get("disabled") is not True:
        yield f"{what} runs once for each response here: models are not streamed, and have no parts before it"
