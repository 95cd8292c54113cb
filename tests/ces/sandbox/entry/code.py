"""Run Python text as an entry: ``{"code": ...}``, which leaves what it returns in ``result``."""

from collections.abc import Callable
from typing import Any


def run(
    request: dict[str, Any],
    call_host: Callable[[dict[str, Any]], dict[str, Any]],
    show: Callable[[str], None],
) -> dict[str, Any]:
    """Run the code; its own exceptions are a result, as of a real entry."""
    names: dict[str, Any] = {"call_host": call_host, "show": show, "request": request, "result": None}
    try:
        exec(compile(request["code"], "<code>", "exec"), names)  # noqa: S102  # what a sandbox is for
    except MemoryError:
        raise
    except Exception as exc:  # noqa: BLE001  # shown to the test
        return {"error": f"{type(exc).__name__}: {exc}"}
    return {"result": names["result"]}
