"""Hold what goes to a model and what comes back."""

from typing import Annotated, Self

import pydantic

from .content import Content, Part
from .models import MessageModel
from .tools import ToolDeclaration


def _content_of(value: object) -> object:
    return {"parts": [{"text": value}]} if isinstance(value, str) else value


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
