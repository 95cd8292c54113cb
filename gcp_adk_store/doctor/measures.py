"""Check the measurements: the clock, the latency of requests, and the probes."""

import shlex
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import pairwise
from statistics import median
from typing import Final

from gcp_adk_store.doctor.findings import Answer, Facts, Finding, Probe, fail, ok, skipped, warn

_SLOW_MS: Final = 100.0
_OFF_S: Final = 2.0
_FAR_OFF_S: Final = 60.0
_EDGES_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


def written(probe: Probe, where: str) -> Finding:
    """Check writing, reading, listing and deleting."""
    if probe.succeeded:
        return ok(f"written, read, listed and deleted in {where}")
    left = f"; {probe.left} could not be deleted: delete it by hand" if probe.left else ""
    return fail(f"{probe.failure or 'not deleted'}{left}")


def latency(probe: Probe, facts: Facts) -> Finding:
    """Check the latency of a read from this machine."""
    if not probe.samples_ms:
        return skipped("nothing could be read")
    says = took(probe.samples_ms)
    if median(probe.samples_ms) <= _SLOW_MS:
        return ok(says)
    return warn(
        f"{says}: each turn waits for several; let the agent run beside its data",
        f"gcloud run deploy SERVICE --region={shlex.quote(facts.database_location or 'REGION')}",
    )


def took(samples_ms: Sequence[float]) -> str:
    """Say how long reads took."""
    typical, worst = median(samples_ms), max(samples_ms)
    return f"half of {len(samples_ms)} reads took less than {typical:.1f} ms, none more than {worst:.1f} ms"


def histogram(samples_ms: Sequence[float]) -> list[tuple[str, int]]:
    """Return the number of samples between steps of 1, 2 and 5, from the first nonempty step to the last."""
    counts = [0] * (len(_EDGES_MS) + 1)
    for sample in samples_ms:
        counts[sum(sample >= edge for edge in _EDGES_MS)] += 1
    between = (f"{low:g} to {high:g} ms" for low, high in pairwise(_EDGES_MS))
    labels = [f"below {_EDGES_MS[0]:g} ms", *between, f"{_EDGES_MS[-1]:g} ms and more"]
    used = [number for number, count in enumerate(counts) if count] or [0, -1]
    return list(zip(labels, counts, strict=True))[used[0] : used[-1] + 1]


def clock(facts: Facts) -> Finding | None:
    """Compare this machine's clock with Firestore's, or with the answers' dates, in whole seconds."""
    if not facts.answers:
        return None
    skews = [skew for skew in map(_skew_s, facts.answers.values()) if skew is not None]
    whose = "Google's"
    if facts.documents is not None and facts.documents.clock_ahead_s is not None:
        skews, whose = [facts.documents.clock_ahead_s], "Firestore's"
    if not skews:
        return skipped("no answer had a date")
    skew = min(skews, key=abs)
    if abs(skew) <= _OFF_S:
        return ok(f"agrees with {whose} within two seconds")
    says = (
        f"{abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} {whose}: "
        "sessions end by Firestore's time, but create times, expires_after of artifacts and the age of "
        "uploads are wrong"
    )
    if abs(skew) <= _FAR_OFF_S:
        return warn(says, "sudo timedatectl set-ntp true")
    return fail(f"{says}, and keys and signed URLs are refused", "sudo timedatectl set-ntp true")


def _skew_s(answer: Answer) -> float | None:
    """Return the seconds that this machine is behind; 0 if the date lies within the time of the request."""
    try:
        date = parsedate_to_datetime(answer.date)
    except (TypeError, ValueError):
        return None
    told = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if told + 1 < answer.asked_at:
        return told + 1 - answer.asked_at
    return max(0.0, told - answer.answered_at)
