"""Repeat calls that may run twice: the only retry of the library's requests.

The SDKs' own retries are off wherever this runs, so that loops never nest. The first attempt is a plain
call, and tenacity begins after it failed: a call that succeeds pays nothing for what repeats it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_if_not_exception_type,
    wait_exponential,
)

from gcp_adk_store import machine
from gcp_adk_store.errors import (
    EmulatorMissingError,
    OutcomeUnknownError,
    OverloadedError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import at_most, label
from gcp_adk_store.kernel.ports import RefusedError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE: Final = (OverloadedError, EmulatorMissingError)
"""Refusals that no repetition changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The times of a repeated call, in seconds."""

    attempt_s: float
    """Longest time of one attempt."""
    deadline_s: float
    """All attempts and the waits between them together."""
    first_wait_s: float = 0.05
    """Bound of the first wait; each next bound is twice the last (full jitter). No later attempt starts with
    less time: it would fail for that, and hide why the earlier ones failed."""
    longest_wait_s: float = 5.0


async def call(
    attempt: Callable[[float], Coroutine[Any, Any, T]],
    *,
    policy: RetryPolicy,
    repeatable_when_unanswered: bool,
) -> T:
    """Run *attempt*, with its seconds, until it succeeds, fails for good, or exceeds the deadline.

    It always repeats a refusal for now (:class:`UnavailableError`), not before the time that the service asks
    for, unless another try does not change it. It repeats a lost answer (:class:`OutcomeUnknownError`) only
    if the caller allows a second run. It raises the last error as it is, with the number of its attempt; but
    after a lost answer, an error never says that nothing was written.
    """
    ends_at = machine.monotonic() + at_most(policy.deadline_s)
    tried = 0
    failure: StoreError | None = None
    unanswered: OutcomeUnknownError | None = None

    async def once() -> T:
        nonlocal tried, failure, unanswered
        tried += 1
        telemetry.count_attempt(tried, failure)
        try:
            return await attempt(min(policy.attempt_s, max(ends_at - machine.monotonic(), 0.001)))
        except RefusedError as exc:
            exc.attempts, exc.maybe_applied = tried, unanswered is not None
            raise
        except StoreError as exc:
            failure, exc.attempts = exc, tried
            unanswered = exc if isinstance(exc, OutcomeUnknownError) else unanswered
            raise

    try:
        return await once()
    except StoreError as exc:
        first = exc
    kinds = (UnavailableError, OutcomeUnknownError) if repeatable_when_unanswered else (UnavailableError,)
    longest_s = wait_exponential(multiplier=policy.first_wait_s, max=policy.longest_wait_s)

    def wait_s(state: RetryCallState) -> float:
        asked_s = failure.retry_after_s if failure else None
        return machine.uniform(0, longest_s(state)) + (asked_s or 0.0)

    def is_late(state: RetryCallState) -> bool:
        return machine.monotonic() + state.upcoming_sleep + policy.first_wait_s >= ends_at

    def warn(state: RetryCallState) -> None:
        if state.attempt_number == 1:
            logger.warning("%s%s; trying again", label(), first, extra=telemetry.log_fields(first))

    repeating = AsyncRetrying(
        retry=retry_if_exception_type(kinds) & retry_if_not_exception_type(_AT_ONCE),
        wait=wait_s,
        stop=is_late,
        before_sleep=warn,
        sleep=asyncio.sleep,
        reraise=True,
    )

    async def again() -> T:
        if repeating.statistics["attempt_number"] == 1:  # tenacity begins with a run: the one that failed
            raise first
        return await once()

    try:
        return await repeating(again)
    except StoreError as exc:
        if unanswered is None or exc is unanswered:
            raise
        unanswered.attempts = tried
        raise unanswered from exc
