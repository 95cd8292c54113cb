"""What telemetry says of ids and errors, and what it leaves out without an SDK."""

import sys
from types import FrameType

import pytest
from opentelemetry import trace

from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Entered
from gcp_adk_store.kernel.operation import Operation, part_of, running
from gcp_adk_store.kernel.telemetry import log_fields, shown


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
