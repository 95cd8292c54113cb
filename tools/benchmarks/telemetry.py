"""Print what telemetry takes of an append's CPU time: ``python -m tools.benchmarks.telemetry [--sdk]``.

Appends with and without it take turns in one process, since two runs differ by more than it costs.
"""

import asyncio
import gc
import os
import random
import sys
import time
from typing import Any

from google.adk.events import Event, EventActions
from google.genai import types
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gcp_adk_store import FirestoreSessionService
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.testing.emulators import firestore_emulator

ROUNDS = 1500
WARM_UP = 200
QUANTILES = (0.05, 0.1, 0.25, 0.5)
USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


def nothing(*_: object, **__: object) -> None:
    """Do nothing, in place of a function of telemetry."""


MEASURING = {
    name: function
    for name, function in vars(telemetry).items()
    if name in {"begin", "attach", "detach", "finish"} or name.startswith("count_")
}
"""What operations call to be measured."""
WAYS = {"with": MEASURING, "without": dict.fromkeys(MEASURING, nothing)}


def said(number: int) -> Event:
    """Return an event that changes state of every scope."""
    delta = {"n": number, "user:n": number, "app:n": number}
    content = types.Content(role="model", parts=[types.Part(text="lorem ipsum " * 20)])
    return Event(author="agent", content=content, actions=EventActions(state_delta=delta))


async def measure() -> dict[str, list[float]]:
    """Return the seconds of appends, ascending, with and without telemetry."""
    service = FirestoreSessionService(project=f"demo-cost-{os.getpid()}")
    held = await service.create_session(**USER)
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(WARM_UP + ROUNDS):
        if number % 50 == 0:
            gc.collect()
        for name in random.sample(sorted(WAYS), len(WAYS)):
            vars(telemetry).update(WAYS[name])
            event = said(number)
            began = time.thread_time()
            await service.append_event(held, event)
            if number >= WARM_UP:
                taken[name].append(time.thread_time() - began)
    await service.close()
    return {name: sorted(seconds) for name, seconds in taken.items()}


def main(*, sdk: bool) -> None:
    """Print quantiles, with an SDK that keeps all if asked to."""
    if sdk:
        tracing = TracerProvider()
        tracing.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
        trace.set_tracer_provider(tracing)
        metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    with firestore_emulator() as emulator:
        os.environ[emulator.variable] = emulator.address
        gc.disable()
        taken = asyncio.run(measure())
    for quantile in QUANTILES:
        more, less = (taken[name][int(len(taken[name]) * quantile)] * 1e6 for name in ("with", "without"))
        line = (
            f"{quantile:4.0%}: {less:6.0f} us without, {more - less:+6.1f} us ({more / less - 1:+.1%}) with"
        )
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main(sdk="--sdk" in sys.argv)
