"""Ask the host, one question at a time: for tools, and for HTTP requests."""

import enum
import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from itertools import count
from typing import Any, Final

from .context import Variables
from .models import OfRuntime

_FIRST_ERROR: Final = 400


class StatusError(Exception):
    """An answer is an error."""

    def __init__(self, status_code: int, reason: str) -> None:
        super().__init__(status_code, reason)
        self.status_code = status_code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.status_code}: {self.reason}"


@dataclass(slots=True)
class ExternalResponse:
    """An answer; a request without an answer has the status code 0, which is ``ok``."""

    text: str = ""
    status_code: int = 200
    reason: str = ""
    """Why it failed; empty where it did not."""

    @property
    def ok(self) -> bool:
        """Whether the status code is below 400."""
        return self.status_code < _FIRST_ERROR

    def json(self) -> Any:
        """Return the text as JSON.

        Raises:
            json.JSONDecodeError: the text is not JSON.
        """
        return json.loads(self.text)

    def raise_for_status(self) -> None:
        """Do nothing where it is ``ok``.

        Raises:
            StatusError: it is not.
        """
        if not self.ok:
            raise StatusError(self.status_code, self.reason)


CallHost = Callable[[dict[str, Any]], dict[str, Any]]
Reply = dict[str, Any]
Awaited = Callable[[], ExternalResponse]

_REPLY: Final = {"status_code": int, "reason": str, "text": str}


class RunEndingError(OfRuntime):
    """The run is over; no ``except Exception`` of user code is meant to see it.

    Its class has the name of the error of the run: as the host refused a call, or that it could not be asked.
    """


class HostCalls:
    """The calls of one run; threads of user code wait for one another."""

    def __init__(self, call_host: CallHost, variables: Variables) -> None:
        self.variables = variables
        """Called tools get them as they are, and change them."""
        self._call_host = call_host
        self._turn = threading.Lock()
        self._ids = count(1)
        self.uncollected: set[int] = set()
        """Ids of background calls whose replies were not asked for."""
        self.ending: RunEndingError | None = None
        """Why the run is over, even if the code caught the error."""

    def end(self, message: str, kind: str = "HostCallError") -> RunEndingError:
        """Let the run be over, for the first reason that is given; return what is to be raised."""
        self.ending = self.ending or type(kind, (RunEndingError,), {})(message)
        return self.ending

    def ask(self, call: Mapping[str, Any]) -> ExternalResponse:
        """Return the host's answer to *call*.

        Raises:
            TypeError, ValueError: something in *call* cannot be JSON.
            RunEndingError: the host refuses.
        """
        reply = self._exchange({**call, "id": next(self._ids)}, _REPLY)
        self.variables.apply(reply.get("state_delta"))
        return _response_of(reply)

    def begin(self, call: Mapping[str, Any]) -> Awaited:
        """Let the host begin *call*; return what waits for its answer, asked once; raises as :meth:`ask`."""
        number = next(self._ids)
        self._exchange({**call, "id": number, "background": True}, {})
        self.uncollected.add(number)
        collecting = threading.Lock()
        answers: list[ExternalResponse] = []

        def collect() -> ExternalResponse:
            with collecting:
                if not answers:
                    reply = self._exchange({"call": "collect", "id": number}, _REPLY)
                    self.uncollected.discard(number)
                    answers.append(_response_of(reply))
                    self.variables.apply(reply.get("state_delta"))
            return answers[0]

        return collect

    def _exchange(self, call: dict[str, Any], expected: Mapping[str, type]) -> Reply:
        # Copied, for the code goes on changing it; json itself says what cannot be, as on the platform.
        text = json.dumps(call, allow_nan=False, ensure_ascii=False)
        text.encode()  # A lone surrogate cannot be sent.
        question = json.loads(text)
        with self._turn:
            if self.ending is not None:
                raise self.ending
            try:
                reply = self._call_host(question)
            except Exception as exc:  # of the channel: the code must not go on as if it had an answer
                raise self.end(f"the host could not be asked: {exc!r}") from exc
        if not isinstance(reply, dict):
            raise self.end(f"the host answered {type(reply).__name__}")
        if error := reply.get("error"):
            raise self.end(error["message"], error["type"])
        wrong = [name for name, kind in expected.items() if not isinstance(reply.get(name), kind)]
        if wrong or reply.get("id", call["id"]) != call["id"]:
            raise self.end(f"the host's answer to {call['id']} lacks {wrong or ['its id']}")
        return reply


def _response_of(reply: Reply) -> ExternalResponse:
    return ExternalResponse(text=reply["text"], status_code=reply["status_code"], reason=reply["reason"])


class HttpMethod(enum.StrEnum):
    """What is asked of a URL."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"
    PATCH = "PATCH"
    HEAD = "HEAD"
    OPTIONS = "OPTIONS"


class Requests:
    """HTTP in the manner of the package requests.

    The keywords are ``params``, ``data``, ``json`` and ``headers``; any other is a TypeError, as is data of
    bytes. An answer that did not come raises nothing: its status code is 0. Each method has one of the name
    ``async_...``, which begins the request and returns a function that waits for the answer.
    """

    def __init__(self, calls: HostCalls, *, waits: bool = True) -> None:
        """Send requests as *calls*; if nothing *waits* for the answer, methods return what does."""
        self._calls = calls
        self._send: Callable[[dict[str, Any]], Any] = calls.ask if waits else calls.begin

    def request(
        self,
        method: str,
        url: object,
        *,
        params: Any = None,
        data: Any = None,
        headers: Any = None,
        json: Any = None,
    ) -> ExternalResponse:
        """Return the answer to a request."""
        given = {"params": params, "data": data, "headers": headers, "json": json}
        # Bytes stay bytes, so that they are refused as not JSON, instead of sent as the URL "b'...'".
        asked = url if isinstance(url, bytes) else str(url)
        call = {"call": "http", "method": str(method).upper(), "url": asked}
        call |= {name: value for name, value in given.items() if value is not None}
        answer: ExternalResponse = self._send(call)
        return answer

    def get(self, url: str, params: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a GET."""
        return self.request(HttpMethod.GET, url, params=params, **kwargs)

    def post(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a POST."""
        return self.request(HttpMethod.POST, url, data=data, json=json, **kwargs)

    def put(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a PUT."""
        return self.request(HttpMethod.PUT, url, data=data, json=json, **kwargs)

    def delete(self, url: str, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a DELETE."""
        return self.request(HttpMethod.DELETE, url, **kwargs)

    def patch(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a PATCH."""
        return self.request(HttpMethod.PATCH, url, data=data, json=json, **kwargs)

    def head(self, url: str, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a HEAD."""
        return self.request(HttpMethod.HEAD, url, **kwargs)

    def options(self, url: str, **kwargs: Any) -> ExternalResponse:
        """Return the answer to OPTIONS."""
        return self.request(HttpMethod.OPTIONS, url, **kwargs)


def _in_background(method: Callable[..., ExternalResponse]) -> Callable[..., Any]:
    """Return the method of `Requests` that begins what *method* sends, with the same parameters."""

    @wraps(method)
    def begin(requests: Requests, *args: Any, **kwargs: Any) -> Any:
        return method(Requests(requests._calls, waits=False), *args, **kwargs)  # noqa: SLF001  # its own

    return begin


for _name in ("request", *(each.lower() for each in HttpMethod)):
    setattr(Requests, f"async_{_name}", _in_background(getattr(Requests, _name)))


class Tools:
    """``tools.NAME({...})`` calls a tool and returns its answer."""

    _owner, _waits = "tools", True

    def __init__(self, calls: HostCalls, *, names: Collection[str], warn: Callable[[str], None]) -> None:
        self._calls = calls
        self._send: Callable[[dict[str, Any]], Any] = calls.ask if self._waits else calls.begin
        self._names = names
        self._warn = warn

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return what calls the tool *name*.

        Raises:
            AttributeError: it is a private one, which Python asks for by itself.
            RunEndingError: the tool is unknown.
        """
        if name in self.__dict__.get("_names", ()):  # copy looks at objects that have nothing yet
            return partial(self._call, name)
        if name.startswith("_"):
            raise AttributeError(f"{self._owner} has no attribute {name!r}")
        raise self._calls.end(unknown_tool(f"{self._owner}.{name}", self._names), "UnknownToolError")

    def __dir__(self) -> Iterable[str]:
        return sorted(self._names)

    def _call(self, name: str, /, *positional: Any, **keywords: Any) -> Any:
        """Call the tool *name*, or begin to; return its answer, or what waits for it, the same each time.

        Raises:
            TypeError: the arguments are not one dict, or are not JSON; or the named variable is not JSON.
            RunEndingError: the host refuses.
        """
        if keywords:
            self._warn(f"{self._owner}.{name}(...) was called with keywords: the platform documents one dict")
        if len(positional) > 1 or (positional and not isinstance(positional[0], dict)):
            raise TypeError(f"{self._owner}.{name}() takes its arguments as one dict")
        args = {**(positional[0] if positional else {}), **keywords}
        state = self._calls.variables.as_json()
        return self._send({"call": "tool", "tool": name, "args": args, "state": state})


class AsyncTools(Tools):
    """``async_tools.NAME({...})`` begins a call and returns a function that waits for the answer."""

    _owner, _waits = "async_tools", False


def unknown_tool(named: str, names: Collection[str]) -> str:
    """Return the message for an unknown tool, as code *named* it."""
    return f"{named}: unknown tool; known: {', '.join(sorted(names)) or 'none'}"
