"""Hold what came from outside: the answer of a tool or of a web server."""

import json
from dataclasses import dataclass
from typing import Any, Final

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
