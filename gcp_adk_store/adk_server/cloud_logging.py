"""Write log records as JSON lines, from which Cloud Logging reads severity, trace and fields."""

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from opentelemetry import trace

from gcp_adk_store import settings

_OF_EVERY_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SEVERITIES: Final = (
    (logging.CRITICAL, "CRITICAL"),
    (logging.ERROR, "ERROR"),
    (logging.WARNING, "WARNING"),
    (logging.INFO, "INFO"),
    (logging.DEBUG, "DEBUG"),
)


class CloudLoggingFormatter(logging.Formatter):
    """Formats a record as one line of JSON, for a handler that writes to stdout or stderr.

    Cloud Run, GKE and Cloud Functions pass such lines on to Cloud Logging: ``severity`` and ``time`` become
    those of the entry, the current OpenTelemetry span becomes its trace, and Error Reporting shows a
    traceback. Everything else, with the fields of ``extra=``, is in the entry's ``jsonPayload``.
    """

    def __init__(self, *, project: str | None = None) -> None:
        """Prepare the formatter.

        Args:
            project: The project of the traces; by default ``GOOGLE_CLOUD_PROJECT``.
        """
        super().__init__()
        self._project = project

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line break; values that JSON cannot hold become text."""
        extra = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        own = {
            "severity": _severity(record.levelno),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "logger": record.name,
            "message": record.getMessage(),
            "logging.googleapis.com/sourceLocation": {
                "file": record.pathname,
                "line": str(record.lineno),
                "function": record.funcName,
            },
            **self._trace(),
            **self._stack(record),
        }
        try:
            return json.dumps({**extra, **own}, default=str, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            # One field must not lose the record.
            return json.dumps({**{str(name): _plain(value) for name, value in extra.items()}, **own})

    def _trace(self) -> dict[str, Any]:
        span = trace.get_current_span().get_span_context()
        if not span.is_valid:
            return {}
        project = self._project or settings.default_project()
        trace_id = trace.format_trace_id(span.trace_id)
        return {
            "logging.googleapis.com/trace": f"projects/{project}/traces/{trace_id}" if project else trace_id,
            "logging.googleapis.com/spanId": trace.format_span_id(span.span_id),
            "logging.googleapis.com/trace_sampled": span.trace_flags.sampled,
        }

    def _stack(self, record: logging.LogRecord) -> dict[str, str]:
        stack = [self.formatException(record.exc_info)] if record.exc_info else []
        if record.stack_info:
            stack.append(self.formatStack(record.stack_info))
        return {"stack_trace": "\n".join(stack)} if stack else {}


def _plain(value: object) -> str | int:
    if isinstance(value, (str, int)):
        return value
    return repr(value) if isinstance(value, float) else type(value).__name__


def _severity(level: int) -> str:
    return next((name for least, name in _SEVERITIES if level >= least), "DEFAULT")
