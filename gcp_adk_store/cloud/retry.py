"""Repeat calls that may run twice: the only retry loop of the library.

The SDKs' own retries are off wherever this loop runs, so that loops never nest. It is a plain loop, because
tenacity's, with stamina's way over it too, takes 31 us of each call that succeeds at once: 6 % of an append.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

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
    kinds = (UnavailableError, OutcomeUnknownError) if repeatable_when_unanswered else (UnavailableError,)
    longest_wait_s = min(policy.first_wait_s, policy.longest_wait_s)
    tried = 0
    failure: StoreError | None = None
    unanswered: OutcomeUnknownError | None = None
    while True:
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
            wait_s = machine.uniform(0, longest_wait_s) + (exc.retry_after_s or 0.0)
            is_repeatable = isinstance(exc, kinds) and not isinstance(exc, _AT_ONCE)
            if not is_repeatable or machine.monotonic() + wait_s + policy.first_wait_s >= ends_at:
                if unanswered is None or exc is unanswered:
                    raise
                unanswered.attempts = tried
                raise unanswered from exc
            if tried == 1:
                logger.warning("%s%s; trying again", label(), exc, extra=telemetry.log_fields(exc))
        await asyncio.sleep(wait_s)
        longest_wait_s = min(2 * longest_wait_s, policy.longest_wait_s)
