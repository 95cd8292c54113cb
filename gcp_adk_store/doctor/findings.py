"""Say what a check found."""

import enum
from dataclasses import dataclass


class Status(enum.Enum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The finding of one check."""

    check: str = ""
    """The name of the check, which the report sets."""
    status: Status
    says: str
    """The finding: ids and settings, never content and never a secret."""
    commands: tuple[str, ...] = ()
    """The commands to run."""
    terraform: str = ""
    """The Terraform configuration to write instead."""
    aside: str = ""
    """Where the check does not apply, such as ``on an emulator``; empty if it applies."""


def ok(says: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(status=Status.OK, says=says)


def warn(says: str, *commands: str, terraform: str = "") -> Finding:
    """Return a problem that does not stop a store."""
    return Finding(status=Status.WARN, says=says, commands=commands, terraform=terraform)


def fail(says: str, *commands: str, terraform: str = "") -> Finding:
    """Return a problem that stops a store, or parts of it."""
    return Finding(status=Status.FAIL, says=says, commands=commands, terraform=terraform)


def skipped(says: str, *commands: str, aside: str = "") -> Finding:
    """Return a check that could not run, and why; *aside* says where the check does not apply."""
    return Finding(status=Status.SKIPPED, says=says, commands=commands, aside=aside)
