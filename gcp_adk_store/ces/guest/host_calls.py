"""Ask the host: one question at a time, also for calls that run side by side."""

import json
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from .external import ExternalResponse

CallHost = Callable[[dict[str, Any]], dict[str, Any]]
Reply = dict[str, Any]

_REPLY: Final = {"status_code": int, "reason": str, "text": str}


class RunEndingError(BaseException):
    """The run is over; no ``except Exception`` of user code is meant to see it."""


class UnknownToolError(RunEndingError):
    """The name of the tool is unknown."""


class HostCallError(RunEndingError):
    """The host refused a call, or could not be asked."""

    def __init__(self, message: str, *, kind: str = "HostCallError") -> None:
        super().__init__(message)
        self.kind = kind


class HostCalls:
    """The calls of one run; threads of user code wait for one another."""

    def __init__(self, call_host: CallHost) -> None:
        self._call_host = call_host
        self._turn = threading.Lock()
        self._ids = count(1)
        self._open: set[int] = set()
        self.ending: RunEndingError | None = None
        """Why the run is over, even if the code caught the error."""

    @property
    def uncollected(self) -> list[int]:
        """Ids of background calls whose replies were not asked for."""
        return sorted(self._open)

    def check(self) -> None:
        """Do nothing, unless the run is over: code may have caught what said so.

        Raises:
            RunEndingError: it is.
        """
        if self.ending is not None:
            raise self.ending

    def end(self, error: RunEndingError) -> RunEndingError:
        """Let the run be over for the first *error* that says so; return what is to be raised."""
        self.ending = self.ending or error
        return self.ending

    def ask(self, call: Mapping[str, Any]) -> Reply:
        """Return the host's reply to *call*.

        Raises:
            TypeError, ValueError: something in *call* cannot be JSON.
            HostCallError: the host refuses.
        """
        return self._exchange({**call, "id": next(self._ids)}, _REPLY)

    def begin(self, call: Mapping[str, Any]) -> Callable[[], Reply]:
        """Let the host begin *call*; return what waits for the reply, the same each time.

        Raises:
            TypeError, ValueError: something in *call* cannot be JSON.
            HostCallError: the host refuses.
        """
        number = next(self._ids)
        self._exchange({**call, "id": number, "background": True}, {})
        self._open.add(number)
        collecting = threading.Lock()
        replies: list[Reply] = []

        def collect() -> Reply:
            with collecting:
                if not replies:
                    replies.append(self._exchange({"call": "collect", "id": number}, _REPLY))
                    self._open.discard(number)
            return replies[0]

        return collect

    def _exchange(self, call: dict[str, Any], expected: Mapping[str, type]) -> Reply:
        # Copied, for the code goes on changing it; json itself says what cannot be, as on the platform.
        text = json.dumps(call, allow_nan=False, ensure_ascii=False)
        text.encode()  # A half of a surrogate pair cannot be sent.
        question = json.loads(text)
        with self._turn:
            self.check()
            try:
                reply = self._call_host(question)
            except (
                Exception
            ) as exc:  # after any error of the channel, the code must not continue as if it had an answer
                raise self.end(HostCallError(f"the host could not be asked: {exc!r}")) from exc
        if not isinstance(reply, dict):
            raise self.end(HostCallError(f"the host answered {type(reply).__name__}"))
        if error := reply.get("error"):
            raise self.end(HostCallError(error["message"], kind=error["type"]))
        wrong = [name for name, kind in expected.items() if not isinstance(reply.get(name), kind)]
        if wrong or reply.get("id", call["id"]) != call["id"]:
            raise self.end(HostCallError(f"the host's answer to {call['id']} lacks {wrong or ['its id']}"))
        return reply


def response_of(reply: Reply) -> ExternalResponse:
    """Return what user code sees of *reply*."""
    return ExternalResponse(text=reply["text"], status_code=reply["status_code"], reason=reply["reason"])
