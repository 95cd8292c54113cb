"""Log what runs of code printed, warned of and failed with, and keep it with the events of a turn."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Self, TypeAlias

from google.adk.events import Event
from pydantic import OnErrorOmit, TypeAdapter

from gcp_adk_store.ces.host.results import Call, RunFailure
from gcp_adk_store.ces.host.settings import SessionKey

LOG: Final = "ces_log"
"""The key of the logs in the ``custom_metadata`` of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """What one run of a tool or of callbacks printed, warned of and failed with."""

    what: str
    """The name of the tool, or the kind of the callbacks."""
    agent: str
    """The agent that acts."""
    printed: str = ""
    warnings: tuple[str, ...] = ()
    """As :class:`~gcp_adk_store.ces.ToolRun` has them: also why a request was refused, and what allows it."""
    failure: str = ""
    """The traceback, or what ended the code from outside; empty on success."""
    late: bool = False
    """Whether it is of an asynchronous tool, whose turn may be over."""

    @property
    def size(self) -> int:
        """Characters of all its texts; 0 if it printed nothing, warned of nothing and did not fail."""
        return len(self.printed) + len(self.failure) + sum(map(len, self.warnings))

    @property
    def text(self) -> str:
        """All of it as lines, below one with the agent and what ran."""
        lines = [*self.printed.splitlines(), *(f"warning: {each}" for each in self.warnings)]
        return "\n  ".join([f"{self.agent}: {self.what}", *lines, *self.failure.splitlines()])

    def cut(self, most: int) -> Self:
        """Return it with at most *most* characters: the end of the failure, then warnings, then prints."""
        failure = self.failure[max(0, len(self.failure) - most) :]
        left, warnings = most - len(failure), []
        for each in self.warnings:
            warnings.append(each[:left])
            left -= len(warnings[-1])
        kept = tuple(filter(None, warnings))
        return replace(self, failure=failure, warnings=kept, printed=self.printed[:left])


NoteRun: TypeAlias = Callable[[SessionKey, RunLog], None]
"""Gets the session of a run, and its log, as soon as the run has ended."""


def logs_of_run(log: RunLog, error: RunFailure | None, calls: Sequence[Call]) -> Iterator[RunLog]:
    """Yield the logs of the tools that a run called, then its own; empty ones are left out.

    *error* is what ended it.
    """
    for call in calls:
        failed = _text_of(call.error) if call.error is not None and call.kind == "tool" else ""
        called = replace(log, what=call.name, printed=call.stdout, warnings=(), failure=failed)
        if called.size:
            yield called
    whole = log if error is None else replace(log, failure=_text_of(error))
    if whole.size:
        yield whole


def _text_of(error: RunFailure) -> str:
    return error.traceback.rstrip("\n") or str(error)


def with_logs(event: Event, logs: Iterable[RunLog], most: int) -> Event:
    """Keep *logs* with *event*, *most* characters of them together, and return it."""
    kept = []
    for log in logs:
        cut = log.cut(most)
        most -= cut.size
        if cut.size:
            kept.append(asdict(cut) | {"warnings": list(cut.warnings)})
    if kept:
        event.custom_metadata = {**(event.custom_metadata or {}), LOG: kept}
    return event


_LOGS: Final = TypeAdapter(list[OnErrorOmit[RunLog]])


def logs_of(event: Event) -> tuple[RunLog, ...]:
    """Return the logs that are kept with *event*, without entries that are not logs."""
    found = (event.custom_metadata or {}).get(LOG)
    return tuple(_LOGS.validate_python(found if isinstance(found, list) else []))
