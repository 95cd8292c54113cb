"""Repeat calls that may run twice: the one retry loop of the library.

The SDKs' own retries are switched off wherever this one acts, so that loops never nest.
"""

import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay
from tenacity.wait import wait_base, wait_random_exponential

from gcp_adk_store.cloud.errors import RefusedError
from gcp_adk_store.errors import OutcomeUnknownError, OverloadedError, StoreError, UnavailableError
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.operation import at_most, label

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

    A refusal for now (:class:`UnavailableError`) is always repeated, not before the time that the service
    asked for. A lost answer (:class:`OutcomeUnknownError`) is repeated only where the caller says that a
    second run is recognised. The last error is raised as it is, with the number of its attempt; but once an
    answer was lost, no later error says that nothing was written.
    """
    deadline_s = at_most(policy.deadline_s)
    ends_at = time.monotonic() + deadline_s
    tried = 0
    failure: StoreError | None = None
    unanswered: OutcomeUnknownError | None = None

    async def bounded() -> T:
        nonlocal tried, failure, unanswered
        tried += 1
        telemetry.count_attempt(tried, failure)
        left = max(ends_at - time.monotonic(), 0.001)
        try:
            return await attempt(min(policy.attempt_s, left))
        except StoreError as exc:
            failure = exc
            if isinstance(exc, OutcomeUnknownError):
                unanswered = exc
            raise

    kinds = (UnavailableError, OutcomeUnknownError) if repeatable_when_unanswered else (UnavailableError,)
    try:
        try:
            return await bounded()  # as most calls do, without a loop around them
        except kinds as exc:
            if isinstance(exc, OverloadedError):
                raise
            return await _repeated(bounded, exc, kinds, policy, left_s=ends_at - time.monotonic())
    except StoreError as exc:
        exc.attempts = tried
        if unanswered is None or exc is unanswered:
            raise
        unanswered.attempts = tried
        raise unanswered from exc
    except RefusedError as exc:
        exc.attempts, exc.perhaps_own = tried, unanswered is not None
        raise


async def _repeated(
    run: Callable[[], Coroutine[Any, Any, T]],
    first: StoreError,
    kinds: tuple[type[StoreError], ...],
    policy: RetryPolicy,
    *,
    left_s: float,
) -> T:
    """Go on after the *first* attempt, which failed; *left_s* is what is left of the deadline."""
    failures = [first]

    async def attempt() -> T:
        if failures:
            raise failures.pop()
        return await run()

    attempts = AsyncRetrying(
        stop=stop_before_delay(left_s),
        wait=_Waits(policy),
        retry=retry_if_exception(lambda exc: isinstance(exc, kinds) and not isinstance(exc, OverloadedError)),
        before_sleep=_report_first,
        reraise=True,
    )
    return await attempts(attempt)


class _Waits(wait_base):
    """Full jitter, on top of what the service asked for."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._jitter = wait_random_exponential(multiplier=policy.first_wait_s, max=policy.longest_wait_s)

    def __call__(self, retry_state: RetryCallState) -> float:
        failure = retry_state.outcome and retry_state.outcome.exception()
        asked = failure.retry_after_s if isinstance(failure, StoreError) else None
        return self._jitter(retry_state) + (asked or 0.0)


def jitter(attempt: int, *, longest_s: float = _LONGEST_RACE_S) -> float:
    """Return seconds to wait after the *attempt*-th time, counted from 0, that another came first."""
    bound = min(_FIRST_WAIT_S * attempt, longest_s)
    return random.uniform(0, bound)  # noqa: S311  # spreads load, keeps no secret


def _report_first(state: RetryCallState) -> None:
    if state.attempt_number == 1 and state.outcome is not None:
        failure = state.outcome.exception()
        logger.warning(
            "%s%s; it is tried again", label(), failure, extra=telemetry.log_fields(failure, attempts=1)
        )
