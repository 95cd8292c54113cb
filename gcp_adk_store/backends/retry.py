"""Repeat calls that may run twice: the one retry loop of the library.

The SDKs' own retries are switched off wherever this one acts, so that loops never nest.
"""

import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay
from tenacity.wait import wait_random_exponential

from gcp_adk_store.errors import OutcomeUnknownError, UnavailableError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 5.0
_LONGEST_RACE_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a call is repeated, and how far apart."""

    attempt_s: float
    """Longest time of one attempt."""
    deadline_s: float
    """All attempts and the waits between them together."""
    first_wait_s: float = _FIRST_WAIT_S
    """Bound of the first wait; each next bound is twice the last (full jitter)."""
    longest_wait_s: float = _LONGEST_WAIT_S


async def call(
    attempt: Callable[[float], Coroutine[Any, Any, T]],
    *,
    policy: RetryPolicy,
    repeatable_when_unanswered: bool,
) -> T:
    """Run *attempt*, with the seconds it may take, until it succeeds, fails for good, or time is up.

    A refusal for now (:class:`UnavailableError`) is always repeated. A lost answer
    (:class:`OutcomeUnknownError`) is repeated only where the caller says that a second run is
    recognised; the last error is raised as it is.
    """
    ends_at = time.monotonic() + policy.deadline_s

    async def bounded() -> T:
        left = max(ends_at - time.monotonic(), 0.001)
        return await attempt(min(policy.attempt_s, left))

    kinds = (UnavailableError, OutcomeUnknownError) if repeatable_when_unanswered else (UnavailableError,)
    attempts = AsyncRetrying(
        stop=stop_before_delay(policy.deadline_s),
        wait=wait_random_exponential(multiplier=policy.first_wait_s, max=policy.longest_wait_s),
        retry=retry_if_exception_type(kinds),
        before_sleep=_report_first,
        reraise=True,
    )
    return await attempts(bounded)


def jitter(attempt: int) -> float:
    """Return seconds to wait after the *attempt*-th time, counted from 0, that another came first."""
    bound = min(_FIRST_WAIT_S * attempt, _LONGEST_RACE_S)
    return random.uniform(0, bound)  # noqa: S311  # spreads load, keeps no secret


def _report_first(state: RetryCallState) -> None:
    if state.attempt_number == 1 and state.outcome is not None:
        logger.warning("%s; it is tried again", state.outcome.exception())
