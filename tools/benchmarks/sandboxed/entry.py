"""Call the host as often as is asked for; pydantic is loaded, as it is for every tool."""

from collections.abc import Callable
from typing import Any

import pydantic


class Request(pydantic.BaseModel):
    """How often, and how many lines to print."""

    calls: int
    lines: int = 0


def run(
    request: dict[str, Any],
    call_host: Callable[[dict[str, Any]], dict[str, Any]],
    show: Callable[[str], None],
) -> dict[str, Any]:
    """Do as *request* says."""
    asked = Request(**request)
    for number in range(asked.calls):
        call_host({"number": number})
    for number in range(asked.lines):
        show(f"line {number}\n")
    return {}
