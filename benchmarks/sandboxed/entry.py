"""Call the host as often as is asked for; pydantic is loaded, as it is for every tool."""

from collections.abc import Callable
from typing import Any

import pydantic


class Request(pydantic.BaseModel):
    """How often."""

    calls: int


def run(request: dict[str, Any], call_host: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Do as *request* says."""
    for number in range(Request(**request).calls):
        call_host({"number": number})
    return {}
