"""Decide what to install, where, by which command and in which order; pure functions."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.setup import debian, environments
from tools.setup.environments import Environment
from tools.setup.machine import CES, PIP, Machine
from tools.setup.tools import ALL, BUBBLEWRAP, CHROMIUM, CURL, LIBSECCOMP, Tool

UNPACKED: Final = ".cache/tools/debian"

PARTS: Final = {
    "python": "the project with its tests and checks, in .venv",
    "beam": "the project with Apache Beam, for its bulk jobs, in .venv-beam",
    "oldest": "the same with the oldest ADK that is supported, in .venv-oldest",
    "emulators": "Java into .venv and the Firestore emulator into .cache/emulators, unless they are there",
    "chromium": "Chromium, which opens the page of adk web",
    "curl": "curl, which the documents' examples use",
    "sandbox": "bubblewrap, libseccomp, and the interpreter and packages of user code",
    "terraform": "Terraform, and test providers for it",
    "docs": "the generator of the documents' site, in .venv-docs",
    "uv": "uv, which installs the others' packages, and for `make lock`",
}
"""The parts, each with its description."""
_WITHOUT_PYTHON: Final = frozenset({"docs", "uv"})
"""Parts that work without the part ``python``."""
_TOOLS: Final = {"chromium": (CHROMIUM,), "curl": (CURL,), "sandbox": (BUBBLEWRAP, LIBSECCOMP)}
_PYTHON: Final = environments.PYTHON.folder
_INSTALL: Final = {
    "apt-get": "apt-get install --no-install-recommends",
    "dnf": "dnf install",
    "pacman": "pacman -S",
    "zypper": "zypper install",
}
_ELSEWHERE: Final = {("libseccomp2", "dnf"): "libseccomp", ("libseccomp2", "pacman"): "libseccomp"}
"""Packages with another name than Debian's, by Debian's name and the package manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to install."""

    name: str
    """Its folder, or one word."""
    installs: str
    """What it installs, and where, for messages."""
    commands: tuple[tuple[str, ...], ...]
    """They run one after the other, in the root of the clone."""
    after: frozenset[str] = frozenset()
    """Names of the steps that must succeed first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps, or what prevents them."""

    steps: tuple[Step, ...]
    """In an order in which they can run one by one."""
    missing: tuple[str, ...] = ()
    """What is missing and cannot be installed; then there are no steps."""
    remedy: str = ""
    """The command that installs it, or another way out."""


def plan(machine: Machine, parts: Iterable[str], *, root: Path) -> Plan:
    """Return the plan that installs *parts* of :data:`PARTS`.

    Args:
        machine: The machine.
        parts: The needed parts; every part but those of :data:`_WITHOUT_PYTHON` needs ``python``.
        root: The clone.
    """
    needed = set(parts)
    if needed - _WITHOUT_PYTHON:
        needed.add("python")
    tools = [tool for tool in ALL if tool in machine.missing and _is_needed(tool, needed)]
    made = list(_environments(machine, needed))
    without_pip = bool(made) and not machine.has_pip and not machine.has_wheel
    by_hand = [tool for tool in tools if not _can_install(tool, machine)]
    missing = [tool.name for tool in by_hand]
    if without_pip and machine.manager != "apt-get":
        missing.append(f"the module ensurepip of {sys.executable}")
    if missing:
        return Plan(steps=(), missing=tuple(missing), remedy=_remedy(by_hand, machine))
    steps = [_pip(root)] if without_pip else []
    wheels = () if machine.has_pip else (PIP,)
    steps += [_environment(each, wheels, _before(each, made, without_pip=without_pip)) for each in made]
    if tools:
        steps.append(_packages(tools, machine, root))
    after_python = frozenset({_PYTHON} if environments.PYTHON in made else ())
    if "emulators" in needed and machine.emulators != "":
        steps.append(_emulators(root, after_python))
    if "sandbox" in needed and not machine.has_ces:
        steps.append(_ces(root, after_python))
    return Plan(steps=tuple(steps))


def _is_needed(tool: Tool, parts: set[str]) -> bool:
    return any(tool in _TOOLS.get(part, ()) for part in parts)


def _environments(machine: Machine, parts: set[str]) -> Iterator[Environment]:
    """Yield the environments to create."""
    wanted = [
        ("python", environments.PYTHON),
        ("beam", environments.BEAM),
        ("oldest", environments.OLDEST),
        ("docs", environments.DOCS),
        ("terraform", environments.STAND_IN),
        ("terraform", environments.TERRAFORM),
    ]
    made = [
        each
        for part, each in wanted
        if part in parts
        and each.folder in machine.outdated
        and not (each is environments.TERRAFORM and machine.has_terraform)
    ]
    if (made or "uv" in parts) and environments.UV.folder in machine.outdated:
        yield environments.UV
    yield from made


def _before(environment: Environment, made: list[Environment], *, without_pip: bool) -> frozenset[str]:
    """Return the names of the steps that an environment waits for."""
    below = [each.folder for each in made if each in (environment.over, environments.UV)]
    return frozenset([*below, *([PIP] if without_pip else [])]) - {environment.folder}


def _can_install(tool: Tool, machine: Machine) -> bool:
    """Whether apt-get can install it as a program that tests can run."""
    is_a_snap = tool is CHROMIUM and machine.distribution == "ubuntu"
    # The linker finds a library only in the system's folders, which need root.
    return machine.manager == "apt-get" and not is_a_snap and (machine.is_root or bool(tool.within))


def _remedy(tools: list[Tool], machine: Machine) -> str:
    if machine.system != "Linux":
        return "make test-core, which needs none of it"
    install = _INSTALL.get(machine.manager or "")
    if install is None or not tools:
        return "Install it with the package manager of this system."
    sudo = "" if machine.is_root else "sudo "
    if machine.distribution == "ubuntu" and CHROMIUM in tools:
        rest = " ".join(tool.package for tool in tools if tool is not CHROMIUM)
        chrome = "Ubuntu's Chromium is a snap, which does not reach the tests' files: install Google Chrome"
        return f"{sudo}{install} {rest}\n{chrome}" if rest else chrome
    packages = [_ELSEWHERE.get((tool.package, machine.manager or ""), tool.package) for tool in tools]
    return f"{sudo}{install} {' '.join(packages)}"


def _pip(root: Path) -> Step:
    return Step(
        name=PIP,
        installs="pip from a Debian package, because this Python lacks it",
        commands=((sys.executable, "-m", "tools.setup.debian", str(root / PIP), "python3-pip-whl"),),
    )


def _environment(environment: Environment, wheels: tuple[str, ...], after: frozenset[str]) -> Step:
    return Step(
        name=environment.folder,
        installs=f"{environment.holds}, from the package index",
        commands=((sys.executable, "-m", "tools.setup.environments", environment.folder, *wheels),),
        after=after,
    )


def _packages(tools: list[Tool], machine: Machine, root: Path) -> Step:
    packages = [tool.package for tool in tools]
    names = ", ".join(tool.name for tool in tools)
    if machine.is_root:
        return Step(
            name="packages",
            installs=f"{names}, by apt-get, on this machine",
            commands=tuple(map(tuple, debian.as_root(packages))),
        )
    return Step(
        name="packages",
        installs=f"{names} and their libraries from Debian packages, into {UNPACKED}",
        commands=((sys.executable, "-m", "tools.setup.debian", str(root / UNPACKED), *packages),),
    )


def _emulators(root: Path, after: frozenset[str]) -> Step:
    python = str(environments.PYTHON.python(root))
    return Step(
        name="emulators",
        installs=PARTS["emulators"],
        commands=((python, "-m", "gcp_adk_store.testing", "--install"),),
        after=after,
    )


def _ces(root: Path, after: frozenset[str]) -> Step:
    command = str(environments.PYTHON.python(root).with_name("gcp-adk-store"))
    return Step(
        name=CES,
        installs="the packages of user code: pydantic, numpy and protobuf of the platform, by pip",
        commands=((command, "ces", "install", "--folder", CES),),
        after=after,
    )
