"""Find events of a session by what they are, and by text where content is shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from google.adk.events import Event

from gcp_adk_store.inspector.masking import json_text

SEARCHED: Final = 1_000
"""Events that one page looks at."""
HITS: Final = 50
"""Events that one page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an event must have; an empty text asks for nothing."""

    text: str = ""
    """Within texts, arguments, results and messages of errors, without regard to case."""
    tool: str = ""
    """The name of a tool that it calls, or has the result of."""
    author: str = ""
    errors: bool = False
    """Whether it must be an error, or have the result of a tool with the key ``error``."""

    def __bool__(self) -> bool:
        return bool(self.text or self.tool or self.author or self.errors)

    def fits(self, event: Event) -> bool:
        """Return whether *event* has all of it."""
        return (
            self.author in ("", event.author)
            and (not self.tool or self.tool in _tools(event))
            and (not self.errors or _failed(event))
            and (not self.text or any(self.text.casefold() in each.casefold() for each in _texts(event)))
        )


def _tools(event: Event) -> set[str | None]:
    called = {each.name for each in event.get_function_calls()}
    return called | {each.name for each in event.get_function_responses()}


def _failed(event: Event) -> bool:
    if event.error_code or event.error_message:
        return True
    return any("error" in (each.response or {}) for each in event.get_function_responses())


def _texts(event: Event) -> Iterator[str]:
    yield event.error_message or ""
    for part in (event.content and event.content.parts) or ():
        yield part.text or ""
        if part.function_call is not None:
            yield json_text(part.function_call.args)
        if part.function_response is not None:
            yield json_text(part.function_response.response)
