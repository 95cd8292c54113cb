"""Steps run side by side, say how far they are, and report all failures together."""

import io
import os
import sys
from pathlib import Path

from tools.setup.plan import Step
from tools.setup.running import run

MEETS = """
import signal, sys
signal.alarm(60)
open(sys.argv[1], sys.argv[2]).close()
"""


def step(name: str, code: str, *arguments: str, after: str = "") -> Step:
    """Return a step that runs *code*."""
    command = (sys.executable, "-c", code, *arguments)
    return Step(name=name, installs=name, commands=(command,), after=frozenset(after.split()))


def test_steps_run_side_by_side(tmp_path: Path) -> None:
    """Each of these ends only when the other has begun: a pipe opens at both ends at once."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    out = io.StringIO()
    failed = run([step("a", MEETS, pipe, "r"), step("b", MEETS, pipe, "w")], root=tmp_path, out=out)

    assert [] == failed
    assert ["a: started", "b: started"] == out.getvalue().splitlines()[:2]


def test_all_failures_are_reported_together(tmp_path: Path) -> None:
    """With the end of what was said; what stands on one of them is not tried. A missing program is one."""
    steps = [
        step("a", "import sys; sys.exit('no network')"),
        step("b", "import sys; sys.exit('no room')"),
        step("c", "open('c', 'w')", after="a"),
        Step(name="d", installs="d", commands=(("/nowhere/program",),)),
    ]
    out = io.StringIO()
    failed = sorted(run(steps, root=tmp_path, out=out))

    assert 3 == len(failed)
    assert "no network" in failed[0]
    assert str(tmp_path / ".cache/setup/a.log") in failed[0]
    assert "no room" in failed[1]
    assert "/nowhere/program" in failed[2]
    assert "c: started" not in out.getvalue()
    assert not (tmp_path / "c").exists()
