"""What docs/telemetry.md and the dashboards name is what is emitted, and without an SDK nothing is."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import pytest
from opentelemetry import trace

from gcp_adk_store import OutcomeUnknownError, SessionConflictError, UnavailableError, errors
from gcp_adk_store.kernel import calls, telemetry
from gcp_adk_store.kernel.calls import Entered, begin_span
from gcp_adk_store.kernel.operation import Operation, part_of, running
from gcp_adk_store.kernel.telemetry import log_fields
from gcp_adk_store.testing.emulators import Emulator
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs
from tests.telemetry.watched import OWN, Measurements, Watched, attributes_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/telemetry.md").read_text()
GRAFANA = json.loads((ROOT / "docs/telemetry/grafana.json").read_text())
MONITORING = json.loads((ROOT / "terraform/modules/adk_store/dashboards/library.json").read_text())
KINDS = {"Histogram": "histogram", "Sum": "counter"}
OF_EVERY_METRIC = {"db.system.name", "db.operation.name"}
SELECTOR = re.compile(r'([\w."]+)\s*(=~|=)\s*"([^"]*)"')


SERVICES_FAIL = (
    UnavailableError,
    OutcomeUnknownError,
    errors.AccessDeniedError,
    errors.NotProvisionedError,
    errors.StoredDataError,
)
FAILURES = sorted(
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, SERVICES_FAIL)
)


@dataclass
class Emitted:
    """All that can be."""

    attributes: set[str]
    """Of spans."""
    measured: Measurements

    @property
    def labels(self) -> set[str]:
        """The names of all attributes of metrics."""
        return {key for _, series in self.measured.points for key, _ in series}

    def values_of(self, attribute: str) -> set[str]:
        """Return the values of an attribute in all metrics."""
        return {value for _, series in self.measured.points for key, value in series if key == attribute}


def appending() -> Operation:
    """Return an append that begins now, with a span that has the ids."""
    ids = {"user_id": "user", "session_id": "session"}
    operation = Operation("append_event", telemetry.FIRESTORE, "app", ids)
    begin_span(operation, lambda: True)
    return operation


@pytest.fixture(scope="module")
def emitted(providers: Watched) -> Iterator[Emitted]:
    """One call in which everything happens, and others that end in each way."""
    with providers.on():
        with Entered(appending(), ends=True):
            telemetry.count_attempt(2, OutcomeUnknownError(""))
            telemetry.count_rpc(lambda: 1)
            telemetry.count_storage_request()
            telemetry.count_conflict()
            for place in ("bucket", "chunks"):
                telemetry.count_spilled(1, place)
            for cache in get_args(telemetry.Cache):
                telemetry.count_lookups(cache, hits=1, misses=1)
        for failure in (SessionConflictError(""), *(getattr(errors, name)("") for name in FAILURES)):
            telemetry.finish(appending(), failure)
        telemetry.finish(appending(), asyncio.CancelledError())
        spans = providers.take_spans()
        attributes = {name for span in spans for name in attributes_of(span)}
        yield Emitted(attributes, providers.take_metrics())


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its own two rows."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table[2:]]


def test_the_attributes_of_spans_are_those_of_the_table(emitted: Emitted) -> None:
    """Each of them, and no other."""
    assert emitted.attributes == {row[0].strip("`") for row in rows("Spans")}


def test_the_metrics_are_those_of_the_table(emitted: Emitted) -> None:
    """Names, kinds, units and attributes."""
    documented = {}
    for name, kind, unit, attributes in rows("Metrics"):
        named = set(re.findall(r"`([\w.]+\.[\w.]+)`", attributes))
        documented[name.strip("`")] = (kind.rpartition(" ")[2], unit, named | OF_EVERY_METRIC)
    measured = emitted.measured

    assert documented == {
        name: (KINDS[measured.kinds[name]], unit, measured.attributes(name))
        for name, unit in measured.units.items()
    }


def prometheus_names(measured: Measurements) -> dict[str, str]:
    """Return each name that Prometheus has of a metric, and which metric it is."""
    found: dict[str, str] = {}
    for name, unit in measured.units.items():
        flat = name.replace(".", "_") + {"s": "_seconds", "By": "_bytes"}.get(unit, "")
        if measured.kinds[name] == "Histogram":
            found |= {f"{flat}_{part}": name for part in ("bucket", "count", "sum")}
        else:
            found[flat if ".operations." in name else f"{flat}_total"] = name
    return found


def telemetry_api_names(measured: Measurements) -> dict[str, str]:
    """Return each name that PromQL has for what the Telemetry API took in."""
    return {
        name + part: name
        for name in measured.units
        for part in (("_bucket", "_count", "_sum") if measured.kinds[name] == "Histogram" else ("",))
    }


def require_emitted(query: str, names: dict[str, str], emitted: Emitted) -> set[str]:
    """Check that metrics, labels and values of a PromQL *query* are emitted; return the metrics.

    *names* are those that a metric has there; where they have dots, they and the labels are quoted.
    """
    has_dots = "." in next(iter(names))
    encoded = {one if has_dots else one.replace(".", "_"): one for one in emitted.labels}
    selectors = SELECTOR.findall(query)
    groups = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    labels = {label.strip(' "') for group in groups for label in group.split(",")} - {"le"}
    labels |= {label.strip('"') for label, _, _ in selectors}
    words = re.findall(r'"([^"]+)"' if has_dots else r"\w+", query)
    metrics = {names[word] for word in words if word in names}
    theirs = set().union(*(emitted.measured.attributes(metric) for metric in metrics))

    assert metrics
    assert set() == {word for word in words if word.startswith(OWN)} - set(names) - labels
    assert set() == labels - set(encoded)
    assert set() == {encoded[label] for label in labels} - theirs
    for label, how, value in selectors:
        if not value.startswith("$"):
            known = emitted.values_of(encoded[label.strip('"')])
            assert set(value.split("|") if how == "=~" else [value]) <= known
    return metrics


def test_grafana_shows_what_is_emitted(emitted: Emitted) -> None:
    """Every metric is on it, with labels that it has; the file has what an import needs."""
    names = prometheus_names(emitted.measured)
    targets = [target for panel in GRAFANA["panels"] for target in panel["targets"]]
    on_it: set[str] = set()
    for target in targets:
        on_it |= require_emitted(target["expr"], names, emitted)
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        grouped = re.findall(r"by \(([^)]*)\)", target["expr"])[0]
        assert shown <= set(re.split(r", ", grouped))

    assert set(emitted.measured.units) == on_it
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= set(GRAFANA)
    assert len(GRAFANA["panels"]) == len({panel["id"] for panel in GRAFANA["panels"]})
    assert ["datasource", "operation"] == [one["name"] for one in GRAFANA["templating"]["list"]]
    for panel in GRAFANA["panels"]:
        assert {"type", "title", "datasource", "gridPos", "targets", "fieldConfig"} <= set(panel)
        assert {"x", "y", "w", "h"} == set(panel["gridPos"])
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_cloud_monitoring_shows_what_is_emitted(emitted: Emitted) -> None:
    """The same, by the names that the Telemetry API keeps; tiles that do not overlap."""
    names = telemetry_api_names(emitted.measured)
    tiles = MONITORING["mosaicLayout"]["tiles"]
    sets = [data for tile in tiles for data in tile["widget"]["xyChart"]["dataSets"]]
    queries = [data["timeSeriesQuery"]["prometheusQuery"] for data in sets]
    on_it = set().union(*(require_emitted(query, names, emitted) for query in queries))
    cells = [
        (x, y)
        for tile in tiles
        for x in range(tile["xPos"], tile["xPos"] + tile["width"])
        for y in range(tile["yPos"], tile["yPos"] + tile["height"])
    ]

    assert set(emitted.measured.units) == on_it
    assert {"displayName", "mosaicLayout"} == set(MONITORING)
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < MONITORING["mosaicLayout"]["columns"]
    assert [panel["title"] for panel in GRAFANA["panels"]] == [tile["widget"]["title"] for tile in tiles]
    assert all(data["plotType"] and data["timeSeriesQuery"]["unitOverride"] for data in sets)


def test_alerts_are_about_what_is_emitted(emitted: Emitted) -> None:
    """By the names that Prometheus has."""
    names = prometheus_names(emitted.measured)
    queries = [re.findall(r"`([^`]+)`", row[1])[0].replace("\\|", "|") for row in rows("Alerts")]
    for query in queries:
        require_emitted(query, names, emitted)

    assert 7 == len(queries)


PROGRAM = """
import asyncio, json, sys
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from gcp_adk_store import FirestoreSessionService

async def call():
    service = FirestoreSessionService(project="demo-telemetry")
    await service.get_user_state(app_name="app", user_id="user")
    await service.close()

spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
for block in json.loads(sys.argv[1]):
    exec(block, globals())
asyncio.run(call())
watch(spans, reader)
asyncio.run(call())
with trace.get_tracer("program").start_as_current_span("outer"):
    logging.getLogger("program").warning("said")
trace.get_tracer_provider().force_flush()
metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]
print(json.dumps([span.name for span in spans.get_finished_spans()]))
print(json.dumps(sorted(metric.name for metric in metrics.metrics)))
"""


def test_the_example_switches_telemetry_on(firestore_emulator: Emulator, tmp_path: Path) -> None:
    """In a process of its own, in which a service was used before; its logs are lines for Cloud Logging."""
    assert firestore_emulator.address
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    (tmp_path / "program.py").write_text(PROGRAM)
    run = ran(
        [ready_programs() / "python", tmp_path / "program.py", json.dumps(blocks)],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=True,
    )
    *logged, spans, metrics = [json.loads(line) for line in run.stdout.splitlines()]
    (said,) = [line for line in logged if line["message"] == "said"]

    assert ["gcp_adk_store.get_user_state", "outer"] == spans
    assert {"gcp_adk_store.operation.duration", "gcp_adk_store.requests"} <= set(metrics)
    assert "WARNING" == said["severity"]
    assert said["logging.googleapis.com/trace_sampled"] is True


def test_every_outcome_and_failure_is_one_that_the_documents_name(emitted: Emitted) -> None:
    """So that an alert on an outcome meets all that end so."""
    said: dict[str, Any] = {row[0].strip("`"): row[2] for row in rows("Spans")}

    outcomes = set(re.findall(r"`(\w+)`", said["gcp_adk_store.outcome"]))
    assert emitted.values_of("gcp_adk_store.outcome") == outcomes


def nobody_asks() -> int:
    """Fail the test if somebody computes the size of a message."""
    raise AssertionError


@pytest.fixture
def without_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no test had set an SDK in this process, where it stays."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(calls, "_PROVIDER", trace.ProxyTracerProvider())
    monkeypatch.setattr(calls._Sdk, "tracer", None)


def test_what_is_counted_outside_of_all_operations_is_nowhere() -> None:
    """As of the commands' own looks at storage, also where they have a deadline."""
    with part_of(1):
        telemetry.count_conflict()
        telemetry.count_content(sent=1)
        telemetry.count_lookups("segments", hits=1, misses=0)
        telemetry.count_spilled(1, "bucket")
        telemetry.count_storage_request()

        assert running() is None
        assert {} == log_fields()


@pytest.mark.usefixtures("without_sdk")
def test_a_call_without_an_sdk_takes_few_steps() -> None:
    """What an append does: each step more is CPU time of all who watch nothing."""
    steps: list[str] = []

    def learn(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename in (calls.__file__, telemetry.__file__):
            steps.append(frame.f_code.co_name)

    appending = Operation("append_event", telemetry.FIRESTORE, "app")
    sys.setprofile(learn)
    try:
        begin_span(appending)
        with Entered(appending, ends=True):
            telemetry.count_attempt(1, None)
            telemetry.count_rpc(nobody_asks)
    finally:
        sys.setprofile(None)

    public = [each for each in steps if not each.startswith("_") and each != "labels"]
    assert ["begin_span", "count_attempt", "count_rpc", "finish"] == public
    assert 10 >= len(steps)
