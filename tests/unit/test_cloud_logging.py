"""A log record is one line of JSON that Cloud Logging understands."""

import json
import logging
import sys
from datetime import datetime
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from gcp_adk_store import CloudLoggingFormatter

SPAN = NonRecordingSpan(
    SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
)


def entry(record: logging.LogRecord, *, project: str | None = None) -> dict[str, Any]:
    """Return what the line of *record* says."""
    line = CloudLoggingFormatter(project=project).format(record)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def record(message: str = "trying again", *args: object, **fields: Any) -> logging.LogRecord:
    """Return a record as a logger makes it."""
    level, exc_info = fields.pop("level", logging.WARNING), fields.pop("exc_info", None)
    logger = logging.getLogger("gcp_adk_store.cloud.retry")
    return logger.makeRecord(logger.name, level, "retry.py", 7, message, args, exc_info, "call", fields)


def test_a_record_has_severity_time_place_and_fields() -> None:
    """Those that were passed as extra= stand beside the message."""
    found = entry(record("after %d", 2, operation="append_event", app="support", attempts=2))

    assert "after 2" == found["message"]
    assert ("WARNING", "gcp_adk_store.cloud.retry") == (found["severity"], found["logger"])
    assert ("append_event", "support", 2) == (found["operation"], found["app"], found["attempts"])
    assert datetime.fromisoformat(found["time"]).utcoffset() is not None
    assert {"file": "retry.py", "line": "7", "function": "call"} == found[
        "logging.googleapis.com/sourceLocation"
    ]
    assert "logging.googleapis.com/trace" not in found
    assert "stack_trace" not in found


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (logging.DEBUG, "DEBUG"),
        (logging.INFO, "INFO"),
        (25, "INFO"),
        (logging.ERROR, "ERROR"),
        (logging.CRITICAL, "CRITICAL"),
        (5, "DEFAULT"),
    ],
)
def test_a_level_becomes_the_severity_that_cloud_logging_has(level: int, severity: str) -> None:
    """Levels between two of them are the lower one."""
    assert severity == entry(record(level=level))["severity"]


@pytest.mark.parametrize(
    ("project", "variable", "name"),
    [
        ("p", "q", f"projects/p/traces/{0xABC:032x}"),
        (None, "q", f"projects/q/traces/{0xABC:032x}"),
        (None, "", f"{0xABC:032x}"),
    ],
)
def test_a_record_in_a_span_names_its_trace(
    monkeypatch: pytest.MonkeyPatch, project: str | None, variable: str, name: str
) -> None:
    """In the project that is given, or that of the environment."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", variable)
    with trace.use_span(SPAN):
        found = entry(record(), project=project)

    assert name == found["logging.googleapis.com/trace"]
    assert f"{0xDEF:016x}" == found["logging.googleapis.com/spanId"]
    assert found["logging.googleapis.com/trace_sampled"] is True


def test_a_traceback_is_where_error_reporting_looks_for_it() -> None:
    """The message stays what it was."""
    try:
        int("wrong")
    except ValueError:
        found = entry(record("failed", level=logging.ERROR, exc_info=sys.exc_info()))

    assert "failed" == found["message"]
    assert "ValueError: invalid literal" in found["stack_trace"]


def test_no_field_changes_what_the_record_itself_says() -> None:
    """Not even one of the name of an entry's own."""
    found = entry(record(severity="DEBUG", time="never", operation="append_event"))

    assert "WARNING" == found["severity"]
    assert "never" != found["time"]
    assert "append_event" == found["operation"]


class Wordless:
    """An object without a text."""

    def __str__(self) -> str:
        raise RuntimeError


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "nan"),
        ({(1, 2): 3}, "dict"),
        (object, "<class 'object'>"),
        ({"a": [1]}, {"a": [1]}),
        pytest.param(10**5000, "int", id="of 5,000 digits"),
        ([Wordless()], "list"),
        pytest.param(ENDLESS, "list", id="one that contains itself"),
        ("\ud800 line\nbreak", "\ud800 line\nbreak"),
    ],
)
def test_a_field_that_json_cannot_hold_loses_no_record(value: object, written: object) -> None:
    """It is a text then, or the name of its type; the line is one line, of JSON."""
    found = entry(record(field=value, attempts=1))

    assert written == found["field"]
    assert 1 == found["attempts"]
