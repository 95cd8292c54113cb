"""Draw the dashboard for Grafana as it looks, with the metrics of a run.

The panels, their places, units and queries are those of docs/telemetry/grafana.json. This evaluates the few
forms of PromQL that they have, on what OpenTelemetry's SDK collected once a second.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.adk.events import Event, EventActions
from google.genai import types
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint

from gcp_adk_store import SessionLimits, Store, StoreError
from gcp_adk_store.testing.emulators import create_bucket, firestore_emulator, storage_emulator
from gcp_adk_store.testing.faults import RandomFaults, no_faults
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from tools.website.drawing import Drawing

BOARD: Final = Path(__file__).parents[2] / "docs/telemetry/grafana.json"
SECONDS: Final = 30
FAULTS: Final = (12, 20)
"""Seconds between which a fifth of the requests to Firestore fail."""
WINDOW: Final = 3
"""Seconds over which rates are taken."""

Labels = tuple[tuple[str, str], ...]
Sample = dict[tuple[str, Labels], float]
"""What every series had at one time."""

_COLOURS: Final = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#17becf", "#bcbd22", "#e377c2")
_SCALE: Final = 48
_ROW: Final = 22
_SUM: Final = re.compile(r"sum by \(([\w, ]+)\) \((rate\()?(\w+)(\{[^}]*\})?(?:\[\$__rate_interval\]\))?\)")
_DIVIDED: Final = re.compile(r" / (?:on \([\w, ]+\) group_left \(\) )?")
_QUANTILE: Final = re.compile(r"histogram_quantile\(([\d.]+), (.*)\)$")


class Line(NamedTuple):
    """One line of a panel."""

    name: str
    values: list[float | None]


def picture() -> str:
    """Return the dashboard as SVG, after a run on the emulators."""
    samples = asyncio.run(_run())
    panels = json.loads(BOARD.read_text())["panels"]
    height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels) * _ROW + 24
    board = Drawing(
        24 * _SCALE + 32,
        height,
        title="The dashboard for Grafana",
        says="Panels of operations, latency, failures, refusals, retries, conflicts, requests, cache hits, "
        "spilled bytes and running operations, while a fifth of the requests fail for eight seconds.",
    )
    for panel in panels:
        _draw(board, panel, samples)
    return board.svg()


async def _run() -> list[Sample]:
    """Use a store for half a minute, and return what was measured at each second."""
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    samples = []
    async with _store() as (store, proxy):
        workers = [asyncio.create_task(_work(store, number)) for number in range(6)]
        for second in range(SECONDS + 1):
            is_bad = FAULTS[0] <= second < FAULTS[1]
            proxy.plan = RandomFaults(second, 0.2) if is_bad else no_faults
            samples.append(_sample(reader))
            await asyncio.sleep(1)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return samples


@asynccontextmanager
async def _store() -> AsyncIterator[tuple[Store, FirestoreProxy]]:
    with firestore_emulator() as firestore, storage_emulator() as storage:
        create_bucket("dashboard", storage.address)
        with FirestoreProxy(firestore.address) as proxy:
            os.environ |= {firestore.variable: proxy.address, storage.variable: storage.address}
            async with Store.connect(
                project="demo-dashboard",
                bucket="dashboard",
                session_limits=SessionLimits(seal_tail_bytes=4000),
            ) as store:
                yield store, proxy


async def _work(store: Store, number: int) -> None:
    """Take turns of a session, and now and then through a handle that is stale."""
    who: dict[str, Any] = {"app_name": "support", "user_id": f"user-{number}", "session_id": "s"}
    session = await store.sessions.create_session(**who)
    turn = 0
    while True:
        turn += 1
        with suppress(StoreError):
            text = types.Content(role="user", parts=[types.Part(text="word " * 40)])
            stale = session.model_copy(deep=True)
            await store.sessions.append_event(session, Event(author="user", content=text))
            delta = {"n": turn, "text": "x" * 100_000 if turn % 10 == 0 else ""}
            event = Event(author="agent", content=text, actions=EventActions(state_delta=delta))
            await store.sessions.append_event(stale if turn % 12 == number else session, event)
        with suppress(StoreError):
            session = await store.sessions.get_session(**who) or session
        if turn % 3 == 0:
            with suppress(StoreError):
                await store.artifacts.save_artifact(**who, filename="f", artifact=types.Part(text="file"))
        await asyncio.sleep(0.05)


def _sample(reader: InMemoryMetricReader) -> Sample:
    """Return all series as Prometheus names them."""
    found: Sample = {}
    data = reader.get_metrics_data()
    if data is None:
        return found
    for metric in (
        one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics
    ):
        name = metric.name.replace(".", "_")
        for point in metric.data.data_points:
            labels = tuple(
                (key.replace(".", "_"), str(value)) for key, value in sorted((point.attributes or {}).items())
            )
            if isinstance(point, HistogramDataPoint):
                found[f"{name}_seconds_count", labels] = point.count
                below = 0
                for bound, count in zip((*point.explicit_bounds, "+Inf"), point.bucket_counts, strict=True):
                    below += count
                    found[f"{name}_seconds_bucket", (*labels, ("le", str(bound)))] = below
            elif isinstance(point, NumberDataPoint):
                ending = {"By": "_bytes_total"}.get(metric.unit or "", "_total")
                is_gauge = "in_flight" in name or "waiting" in name
                found[name if is_gauge else name + ending, labels] = point.value
    return found


def lines(query: str, samples: Sequence[Sample]) -> list[Line]:
    """Evaluate a query of the dashboard: sums of rates or of values, their ratio, and quantiles."""
    quantile = _QUANTILE.match(query)
    if quantile:
        return _quantiles(float(quantile[1]), _sums(quantile[2], samples))
    above, *of = [_sums(part, samples) for part in _DIVIDED.split(query)]
    if not of:
        return [Line(_name(key), list(values)) for key, values in sorted(above.items())]
    made = []
    for key, values in sorted(above.items()):
        (divisor,) = [each for labels, each in of[0].items() if {*labels} <= {*key}]
        made.append(Line(_name(key), [a / b if b else None for a, b in zip(values, divisor, strict=True)]))
    return made


def _sums(query: str, samples: Sequence[Sample]) -> dict[Labels, list[float]]:
    made: dict[Labels, list[float]] = {}
    for by, is_rate, metric, matchers in _SUM.findall(query):
        for at in range(len(samples)):
            for (name, labels), value in samples[at].items():
                if name == metric and _matches(matchers, dict(labels)):
                    before = samples[max(0, at - WINDOW)].get((name, labels), 0.0) if is_rate else 0.0
                    change = (value - before) / (WINDOW if is_rate else 1)
                    key = tuple((each, dict(labels).get(each, "")) for each in by.split(", "))
                    made.setdefault(key, [0.0] * len(samples))[at] += change
    return made


def _matches(matchers: str, labels: Mapping[str, str]) -> bool:
    tests: dict[str, Callable[[str, str], bool]] = {
        "=": lambda has, wants: has == wants,
        "!=": lambda has, wants: has != wants,
        "=~": lambda has, wants: wants.startswith("$") or re.fullmatch(wants, has) is not None,
        "!~": lambda has, wants: re.fullmatch(wants, has) is None,
    }
    return all(
        tests[how](labels.get(name, ""), wants)
        for name, how, wants in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers)
    )


def _quantiles(quantile: float, buckets: Mapping[Labels, list[float]]) -> list[Line]:
    grouped: dict[Labels, list[tuple[float, list[float]]]] = {}
    for key, values in buckets.items():
        rest = tuple(each for each in key if each[0] != "le")
        grouped.setdefault(rest, []).append((float(dict(key)["le"]), values))
    return [
        Line(
            _name(key),
            [
                _quantile(quantile, [(bound, of[at]) for bound, of in sorted(found)])
                for at in range(len(found[0][1]))
            ],
        )
        for key, found in sorted(grouped.items())
    ]


def _quantile(quantile: float, buckets: Sequence[tuple[float, float]]) -> float | None:
    """Return where *quantile* of the counts lie below, as Prometheus interpolates it."""
    total = buckets[-1][1]
    if total <= 0:
        return None
    lower, before = 0.0, 0.0
    for bound, count in buckets:
        if count >= quantile * total:
            if bound == float("inf"):
                return lower
            return lower + (bound - lower) * (
                (quantile * total - before) / (count - before) if count > before else 0
            )
        lower, before = bound, count
    return lower


def _name(key: Labels) -> str:
    return " ".join(value for _, value in key if value) or "all"


def _draw(board: Drawing, panel: Mapping[str, Any], samples: Sequence[Sample]) -> None:
    grid = panel["gridPos"]
    left, top = 16 + grid["x"] * _SCALE, 12 + grid["y"] * _ROW
    width, height = grid["w"] * _SCALE - 8, grid["h"] * _ROW - 8
    board.box(left, top, width, height)
    board.text(left + 12, top + 20, panel["title"], style="title")
    drawn = [
        Line(target.get("legendFormat", "").partition("{{")[0] + line.name, line.values)
        for target in panel["targets"]
        for line in lines(target["expr"], samples)
    ]
    drawn = [line for line in drawn if any(line.values)][: len(_COLOURS)]
    most = max((value for line in drawn for value in line.values if value), default=1.0)
    plot = (left + 52, top + 34, width - 64 - 236, height - 62)
    board.shade(
        round(plot[0] + plot[2] * FAULTS[0] / SECONDS),
        plot[1],
        round(plot[2] * (FAULTS[1] - FAULTS[0]) / SECONDS),
        plot[3],
    )
    for share in (0, 0.5, 1) if drawn else (0,):
        y = round(plot[1] + plot[3] * (1 - share))
        board.line((plot[0], y), (plot[0] + plot[2], y), dashed=share > 0)
        board.text(plot[0] - 6, y + 4, _shown(most * share, panel), style="soft", anchor="end")
    for second in range(0, SECONDS + 1, 10):
        x = round(plot[0] + plot[2] * second / SECONDS)
        board.text(x, plot[1] + plot[3] + 17, f"{second} s", style="soft", anchor="middle")
    for number, line in enumerate(drawn):
        points = [
            (plot[0] + plot[2] * at / SECONDS, plot[1] + plot[3] * (1 - value / most))
            for at, value in enumerate(line.values)
            if value is not None
        ]
        board.curve(points, colour=_COLOURS[number])
        board.curve(
            [
                (plot[0] + plot[2] + 12, plot[1] + 4 + number * 17),
                (plot[0] + plot[2] + 26, plot[1] + 4 + number * 17),
            ],
            colour=_COLOURS[number],
        )
        board.text(plot[0] + plot[2] + 32, plot[1] + 8 + number * 17, line.name, style="soft")
    if not drawn:
        board.text(plot[0] + plot[2] // 2, plot[1] + plot[3] // 2 + 4, "none", style="soft", anchor="middle")


def _shown(value: float, panel: Mapping[str, Any]) -> str:
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
    if unit == "s":
        return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"
    if unit == "percentunit":
        return f"{value:.0%}"
    if value >= 10_000:  # noqa: PLR2004  # five digits do not fit
        return f"{value / 1000:.0f} k"
    return f"{value:.3g}"
