"""What is there is found by looking, by a Python that has nothing but its own library.

Steps run side by side, say how far they are, and report all failures together.
"""

import io
import os
import sys
from pathlib import Path

import pytest

from tests.support.programs import ran
from tools.setup.environments import ALL as ENVIRONMENTS
from tools.setup.machine import look
from tools.setup.plan import Step
from tools.setup.running import run
from tools.setup.tools import CHROMIUM, PROGRAMS, ROOT, find, search_path


def program(folder: Path, name: str, body: str = "") -> Path:
    """Make a program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", CHROMIUM.programs)
def test_chromium_is_found_by_the_names_that_it_has(tmp_path: Path, name: str) -> None:
    """In any folder of the path."""
    assert str(program(tmp_path, name)) in (find(CHROMIUM, {"PATH": str(tmp_path)}), str(PROGRAMS / name))


def test_the_clones_own_programs_come_first() -> None:
    """Once, however often it is said."""
    once = search_path({"PATH": "/usr/bin"})

    assert f"{PROGRAMS}{os.pathsep}/usr/bin" == once
    assert once == search_path({"PATH": once})


def empty_clone(folder: Path) -> Path:
    """Return *folder* as a clone that has its requirements, which are all that has to be there."""
    for environment in ENVIRONMENTS.values():
        for name in environment.reads:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
    return folder


def test_an_empty_clone_lacks_everything_of_its_own(tmp_path: Path) -> None:
    """Environments, emulators, the sandbox's Python, and Terraform."""
    machine = look(empty_clone(tmp_path), {"PATH": str(tmp_path)})

    assert set(ENVIRONMENTS) == machine.outdated
    assert (None, None, False, False) == (
        machine.manager,
        machine.emulators,
        machine.has_ces,
        machine.has_terraform,
    )


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ('echo \'{"terraform_version": "1.7.0"}\'', True),
        ('echo \'{"terraform_version": "1.15.5-dev"}\'', True),
        ('echo \'{"terraform_version": "1.6.9"}\'', False),
        ("echo Terraform v1.9", False),
        ("exit 1", False),
    ],
)
def test_terraform_must_be_new_enough(tmp_path: Path, version: str, *, is_enough: bool) -> None:
    """It says its version itself."""
    program(tmp_path, "terraform", version)

    assert is_enough == look(empty_clone(tmp_path), {"PATH": str(tmp_path)}).has_terraform


def test_what_is_missing_is_said_at_once_and_nothing_is_done(tmp_path: Path) -> None:
    """By a Python with an empty PATH, and without a package beside its own library."""
    clone = tmp_path / "clone"
    for name in ("tools", "tests/terraform", "pyproject.toml"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).symlink_to(ROOT / name)
    before = sorted(path.name for path in clone.iterdir())
    run = ran(
        [
            os.path.realpath(sys.executable),
            "-S",
            "-m",
            "tools.setup",
            "chromium",
            "curl",
            "sandbox",
            "terraform",
        ],
        cwd=clone,
        env={"PATH": "", "HOME": str(tmp_path)},
    )

    assert 1 == run.returncode, run.stderr
    assert "" == run.stdout
    assert "cannot be installed by this command: Chromium, curl, bubblewrap" in run.stderr
    assert "Install it with the package manager of this system." in run.stderr
    assert before == sorted(path.name for path in clone.iterdir())


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
