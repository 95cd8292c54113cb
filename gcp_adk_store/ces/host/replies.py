"""Answer questions of code."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from gcp_adk_store.ces.host.questions import Delta
from gcp_adk_store.ces.host.results import RunFailure
from gcp_adk_store.ces.http.fetching import Fetched

_FIRST_ERROR: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the host answers, and what is known of it beside."""

    status_code: int = 200
    reason: str = ""
    text: str = ""
    delta: Delta | None = None
    """What a called tool changed of the variables."""
    ending: tuple[str, str] | None = None
    """Type and message of why the asking run is over."""
    mocked: bool = False
    stdout: str = ""
    error: RunFailure | None = None
    said: Sequence[str] = ()

    @classmethod
    def of_json(cls, value: Any, *, mocked: bool = False) -> Self:
        """Return an answer that is *value*.

        Raises:
            TypeError, ValueError: *value* is not JSON.
        """
        return cls(text=json.dumps(value, allow_nan=False), mocked=mocked)

    @classmethod
    def of_fetched(cls, fetched: Fetched) -> Self:
        """Return an answer that came over HTTP."""
        return cls(
            status_code=fetched.status_code, reason=fetched.reason, text=fetched.text, said=fetched.said
        )

    @classmethod
    def failed(cls, status_code: int, error: RunFailure, *, stdout: str = "") -> Self:
        """Return the answer of a tool that failed: a status for ``raise_for_status``, and ``result``."""
        return cls(
            status_code=status_code,
            reason=str(error),
            text=json.dumps(error.response),
            error=error,
            stdout=stdout,
        )

    @property
    def ok(self) -> bool:
        """Whether there was an answer, and no error."""
        return 0 < self.status_code < _FIRST_ERROR

    def wire(self) -> dict[str, Any]:
        """Return it as the guest reads it."""
        if self.ending is not None:
            return {"error": dict(zip(("type", "message"), self.ending, strict=True))}
        wire: dict[str, Any] = {
            "status_code": self.status_code,
            "reason": self.reason,
            "text": self.text,
        }
        return wire if self.delta is None else {**wire, "state_delta": self.delta.wire()}
