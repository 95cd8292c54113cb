"""Repeat calls that may run twice: the one retry loop of the library.

The SDKs' own retries are switched off wherever this one acts, so that loops never nest.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_before_delay
from tenacity.wait import wait_random_exponential

from gcp_adk_store.errors import OutcomeUnknownError, UnavailableError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a call is repeated, and how far apart."""

    deadline_s: float
    """No attempt starts later than this after the first."""
    first_wait_s: float = 0.05
    """Bound of the first wait; each next bound is twice the last (full jitter)."""
    longest_wait_s: float = 5.0


async def call(
    attempt: Callable[[], Coroutine[Any, Any, T]], *, policy: RetryPolicy, repeatable_when_unanswered: bool
) -> T:
    """Run *attempt* until it succeeds, fails for good, or the policy's deadline passes.

    A refusal for now (:class:`UnavailableError`) is always repeated. A lost answer
    (:class:`OutcomeUnknownError`) is repeated only where the caller says that a second run is
    recognised; the last error is raised as it is.
    """
    kinds = (UnavailableError, OutcomeUnknownError) if repeatable_when_unanswered else (UnavailableError,)
    attempts = AsyncRetrying(
        stop=stop_before_delay(policy.deadline_s),
        wait=wait_random_exponential(multiplier=policy.first_wait_s, max=policy.longest_wait_s),
        retry=retry_if_exception_type(kinds),
        reraise=True,
    )
    return await attempts(attempt)
