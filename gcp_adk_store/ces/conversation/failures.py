"""Say why a turn ends with an error."""

from typing import Final

from gcp_adk_store.ces.host.results import Run

FAILED_PRECONDITION: Final = "FAILED_PRECONDITION"
CALLBACK_FAILED: Final = "CALLBACK_FAILED"
GUARDRAIL_TRIGGERED: Final = "GUARDRAIL_TRIGGERED"
TURN_TOO_LONG: Final = "TURN_TOO_LONG"
_TOO_LARGE: Final = "VariableTooLargeError"


class TurnFailedError(Exception):
    """What ends a turn, and is told by its last event."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def require_fitting(ran: Run) -> None:
    """Raise what the platform ends the turn with if a variable is too large."""
    if ran.error is not None and ran.error.type == _TOO_LARGE:
        raise TurnFailedError(FAILED_PRECONDITION, ran.error.message)


def require_success(ran: Run, what: str) -> None:
    """Raise what ends the turn if the code of a callback failed; *what* it is.

    Raises:
        TurnFailedError: it failed, or a variable is too large.
    """
    require_fitting(ran)
    if ran.error is not None:
        raise TurnFailedError(CALLBACK_FAILED, f"{what}: {ran.error}")
