"""Let code call tools, and name those that a model may call."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from .external import ExternalResponse
from .host_calls import HostCalls, Reply, UnknownToolError, response_of
from .models import MessageModel, Model
from .variables import Variables


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


class ToolCaller:
    """Make calls of tools as the run's settings want them."""

    def __init__(
        self,
        calls: HostCalls,
        variables: Variables,
        *,
        names: Collection[str],
        share_state: bool,
        lenient: bool,
        warn: Callable[[str], None],
    ) -> None:
        self.names = names
        self._calls = calls
        self._variables = variables
        self._share_state = share_state
        self._lenient = lenient
        self._warn = warn

    def find(self, owner: str, name: str) -> str:
        """Return *name*.

        Raises:
            AttributeError: it is a private one, which Python asks for by itself.
            UnknownToolError: the tool is unknown.
        """
        if name in self.names:
            return name
        if name.startswith("_"):
            raise AttributeError(f"{owner} has no attribute {name!r}")
        raise self._calls.end(UnknownToolError(unknown_tool(owner, name, self.names)))

    def call(
        self, owner: str, name: str, positional: tuple[Any, ...], keywords: dict[str, Any]
    ) -> ExternalResponse:
        """Call the tool *name*; return its answer.

        Raises:
            TypeError: the arguments are not one dict, or are not JSON; or the named variable is not JSON.
            HostCallError: the host refuses.
        """
        return self._seen(self._calls.ask(self._question(owner, name, positional, keywords)))

    def begin(
        self, owner: str, name: str, positional: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Callable[[], ExternalResponse]:
        """Begin a call of the tool *name*; return what waits for its answer, the same each time."""
        reply = self._calls.begin(self._question(owner, name, positional, keywords))
        seen: list[ExternalResponse] = []

        def answer() -> ExternalResponse:
            if not seen:
                seen.append(self._seen(reply()))
            return seen[0]

        return answer

    def _question(
        self, owner: str, name: str, positional: tuple[Any, ...], keywords: dict[str, Any]
    ) -> dict[str, Any]:
        if keywords:
            self._warn(f"{owner}.{name}(...) was called with keywords: the platform documents one dict")
        if len(positional) > 1 or (positional and not isinstance(positional[0], dict)):
            raise TypeError(f"{owner}.{name}() takes its arguments as one dict")
        args = {**(positional[0] if positional else {}), **keywords}
        question = {"call": "tool", "tool": name, "args": args}
        if self._share_state:
            question["state"] = self._variables.as_json(lenient=self._lenient)
        return question

    def _seen(self, reply: Reply) -> ExternalResponse:
        if self._share_state and (delta := reply.get("state_delta")):
            self._variables.apply(delta)
        return response_of(reply)


class Tools:
    """``tools.NAME({...})`` calls a tool and returns its answer."""

    def __init__(self, caller: ToolCaller) -> None:
        self._caller = caller

    def __getattr__(self, name: str) -> Callable[..., ExternalResponse]:
        _check_made(name)
        found = self._caller.find("tools", name)
        return lambda *args, **keywords: self._caller.call("tools", found, args, keywords)

    def __dir__(self) -> Iterable[str]:
        return sorted(self._caller.names)


class AsyncTools:
    """``async_tools.NAME({...})`` begins a call and returns a function that waits for the answer."""

    def __init__(self, caller: ToolCaller) -> None:
        self._caller = caller

    def __getattr__(self, name: str) -> Callable[..., Callable[[], ExternalResponse]]:
        _check_made(name)
        found = self._caller.find("async_tools", name)
        return lambda *args, **keywords: self._caller.begin("async_tools", found, args, keywords)

    def __dir__(self) -> Iterable[str]:
        return sorted(self._caller.names)


def _check_made(name: str) -> None:
    """Raise what ``copy`` expects, which looks at objects that have nothing yet."""
    if name == "_caller":
        raise AttributeError(name)


def unknown_tool(owner: str, name: str, names: Collection[str]) -> str:
    """Return the message for an unknown tool."""
    known = ", ".join(sorted(names)) or "none"
    return f"{owner}.{name}: unknown tool; known: {known}"
