"""What a process runs before others are forked from it does what code does, and leaves nothing."""

import sys

from gcp_adk_store.ces.guest.first_runs import FIRST_REPLY, FIRST_RUNS
from gcp_adk_store.ces.guest.running import warm_up
from tests.ces.guest.runs import Host, answered


def test_each_first_run_ends_as_it_is_meant_to() -> None:
    """With host calls, changes and prints; one of them fails, for that is prepared too."""
    host = Host(lambda _call: FIRST_REPLY)
    tool, failed, *callbacks = [answered(request, host) for request in FIRST_RUNS]

    assert {"found": [1, 1], "names": ["Ada"]} == tool["result"]
    assert "KeyError" == failed["error"]["type"]
    assert 4 == len(host.calls)
    assert [None] * 3 == [each["error"] for each in callbacks]


def test_warming_up_leaves_no_module_and_no_stream() -> None:
    """A later run finds what it would have found."""
    before = {*sys.modules}, sys.stdin, sys.stdout, sys.stderr
    warm_up()

    assert before == ({*sys.modules}, sys.stdin, sys.stdout, sys.stderr)
