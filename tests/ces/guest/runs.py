"""Run code as a sandbox would: JSON in, JSON out, and a host that notes what it is asked."""

import json
import textwrap
from collections.abc import Callable
from typing import Any

from gcp_adk_store.ces.guest.contract import Answer, HostCall, HostReply, Request, RunError, StateDelta
from gcp_adk_store.ces.guest.running import run

Reply = dict[str, Any]

FIELDS = (*Request.__annotations__, *Answer.__annotations__)
"""The names of the fields of a request and of its answer."""
UNCHANGED: dict[str, Any] = {"changed": {}, "removed": []}
"""The delta of a run that left the variables as they were."""


class Host:
    """A host that answers every tool with its arguments and every URL with its method."""

    def __init__(self, answer: Callable[[dict[str, Any]], Reply] | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answer = answer or self._echo
        self._begun: dict[int, dict[str, Any]] = {}

    def __call__(self, call: dict[str, Any]) -> Reply:
        assert set(call) <= set(HostCall.__annotations__)
        self.calls.append(call)
        if call.get("background"):
            self._begun[call["id"]] = call
            return {}
        return self._answer(self._begun[call["id"]] if call["call"] == "collect" else call)

    @staticmethod
    def _echo(call: dict[str, Any]) -> Reply:
        body = {"result": call["args"]} if call["call"] == "tool" else {"method": call["method"]}
        return replied(body)


def replied(body: Any, *, status_code: int = 200, **more: Any) -> Reply:
    """Return a reply whose text is *body* as JSON."""
    assert set(more) <= set(HostReply.__annotations__)
    return {"status_code": status_code, "reason": "", "text": json.dumps(body), **more}


def answered(
    request: dict[str, Any], host: Callable[[dict[str, Any]], Reply] | None = None
) -> dict[str, Any]:
    """Return the answer to *request*, as the other end of a pipe gets it, and what was printed as ``stdout``.

    It has all that is declared.
    """
    assert set(request) <= set(Request.__annotations__)
    printed: list[str] = []
    answer = run(json.loads(json.dumps(request)), host or Host(), printed.append)
    made: dict[str, Any] = json.loads(json.dumps(answer, allow_nan=False))
    assert set(made) == set(Answer.__annotations__)
    assert set(made["state_delta"]) == set(StateDelta.__annotations__)
    assert made["error"] is None or set(made["error"]) == set(RunError.__annotations__)
    return {**made, "stdout": "".join(printed)}


def of_tool(
    source: str, *, host: Callable[[dict[str, Any]], Reply] | None = None, **more: Any
) -> dict[str, Any]:
    """Return the answer of a tool whose file is *source*; *more* is of the request, state of its context."""
    name = more.pop("name", "tool")
    context = {"state": more.pop("state", {}), **more.pop("context", {})}
    code = {"source": textwrap.dedent(source), "filename": "tool.py", "name": name}
    return answered({"kind": "tool", "code": [code], "context": context, **more}, host)


def as_tool(body: str) -> str:
    """Return the file of a tool that does *body*."""
    return "def tool():\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")


def result_of(body: str, **more: Any) -> Any:
    """Return what a tool returns whose body is *body*; it must not fail."""
    answer = of_tool(as_tool(body), **more)
    assert answer["error"] is None, answer["error"]["traceback"]
    return answer["result"]


def of_callbacks(callback: str, *sources: str, **more: Any) -> dict[str, Any]:
    """Return the answer of *sources*, callbacks of one kind in order."""
    host = more.pop("host", None)
    context = {"state": more.pop("state", {}), **more.pop("context", {})}
    code = [
        {"source": textwrap.dedent(source), "filename": f"{callback}_{number}.py"}
        for number, source in enumerate(sources, start=1)
    ]
    request = {"kind": "callback", "callback": callback, "code": code, "context": context, **more}
    return answered(request, host)
