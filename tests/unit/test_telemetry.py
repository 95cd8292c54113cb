"""What telemetry says of ids and errors, and what it leaves out without an SDK."""

import sys
from types import FrameType

import pytest
from opentelemetry import trace

from gcp_adk_store import OutcomeUnknownError, SessionConflictError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Entered
from gcp_adk_store.kernel.operation import Operation, part_of, running
from gcp_adk_store.kernel.telemetry import error_type, log_fields, shown


class ForeignError(Exception):
    """One of somebody else."""


def nobody_asks() -> int:
    """Fail the test if somebody computes the size of a message."""
    raise AssertionError


@pytest.fixture
def without_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no test had set an SDK in this process, where it stays."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(telemetry, "_PROVIDER", trace.ProxyTracerProvider())
    monkeypatch.setattr(telemetry._Sdk, "tracer", None)


@pytest.mark.parametrize(
    ("text", "as_shown"),
    [
        ("support", "support"),
        ("a" * 128, "a" * 128),
        ("a" * 129, "a" * 127 + "…"),
        ("\ud800" * 2, "\\ud800\\ud800"),
        ("\ud800" * 100, ("\\ud800" * 100)[:127] + "…"),
    ],
)
def test_an_id_is_shown_as_text_of_bounded_length(text: str, as_shown: str) -> None:
    """What UTF-8 cannot encode is escaped: one such attribute would end the export of a whole batch."""
    assert as_shown == shown(text)


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (SessionConflictError("ids"), "SessionConflictError"),
        (ValueError("content"), "ValueError"),
        (ForeignError("content"), f"{__name__}.ForeignError"),
    ],
)
def test_an_error_is_told_by_its_type(failure: Exception, name: str) -> None:
    """Never by its message."""
    assert name == error_type(failure)


@pytest.mark.usefixtures("without_sdk")
def test_an_operation_without_an_sdk_is_counted_and_has_no_span() -> None:
    """A span that nobody sees would take 2 % of an append."""
    appending = Operation("get_session", telemetry.FIRESTORE, "app")
    telemetry.begin(appending)
    with Entered(appending, ends=True):
        telemetry.count_rpc(nobody_asks)

        assert running() is appending
        assert (1, None) == (appending.counts.rpcs, appending.span)

    assert running() is None


def test_fields_of_a_record_are_those_of_the_running_operation() -> None:
    """Of an error its attempts; outside of operations only what is known of the error."""
    failure = OutcomeUnknownError("lost")
    failure.attempts = 3
    with Entered(Operation("append_event", telemetry.FIRESTORE, "app"), ends=True):
        inside, of_failure = log_fields(), log_fields(failure)

    assert {"operation": "append_event", "app": "app", "attempts": 0} == inside
    assert {**inside, "attempts": 3, "error_type": "OutcomeUnknownError"} == of_failure
    assert {"attempts": 3, "error_type": "OutcomeUnknownError"} == log_fields(failure)
    assert {"error_type": "ValueError"} == log_fields(ValueError())
    assert {} == log_fields()


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
        if event == "call" and frame.f_code.co_filename == telemetry.__file__:
            steps.append(frame.f_code.co_name)

    appending = Operation("append_event", telemetry.FIRESTORE, "app")
    sys.setprofile(learn)
    try:
        telemetry.begin(appending)
        with Entered(appending, ends=True):
            telemetry.count_attempt(1, None)
            telemetry.count_rpc(nobody_asks)
    finally:
        sys.setprofile(None)

    assert ["begin", "attach", "count_attempt", "count_rpc"] == [each for each in steps[:5] if each[0] != "_"]
    assert ["detach", "finish"] == [each for each in steps[5:] if each[0] != "_"]
    assert 10 >= len(steps)
