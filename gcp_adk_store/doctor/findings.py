"""Hold the examined place, and the findings."""

import enum
from dataclasses import dataclass
from typing import Any, Final


class Status(enum.Enum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The finding of one check."""

    check: str
    status: Status
    says: str
    """The finding: ids and settings, never content and never a secret."""
    commands: tuple[str, ...] = ()
    """The commands to run."""
    terraform: str = ""
    """The Terraform configuration to write instead."""
    aside: str = ""
    """Where the check does not apply, such as ``on an emulator``; empty if it applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The examined deployment."""

    project: str
    database: str
    bucket: str | None
    prefix: str

    @property
    def database_path(self) -> str:
        """The database's name in the Admin API."""
        return f"projects/{self.project}/databases/{self.database}"

    @property
    def of_database(self) -> str:
        """The options that each ``gcloud firestore`` command needs."""
        return f"--database='{self.database}' --project={self.project}"


def ok(check: str, says: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check=check, status=Status.OK, says=says)


def warn(check: str, says: str, *commands: str, terraform: str = "") -> Finding:
    """Return a problem that does not stop a store."""
    return Finding(check=check, status=Status.WARN, says=says, commands=commands, terraform=terraform)


def fail(check: str, says: str, *commands: str, terraform: str = "") -> Finding:
    """Return a problem that stops a store, or parts of it."""
    return Finding(check=check, status=Status.FAIL, says=says, commands=commands, terraform=terraform)


def skipped(check: str, says: str, *commands: str, aside: str = "") -> Finding:
    """Return a check that could not run, and why; *aside* says where the check does not apply."""
    return Finding(check=check, status=Status.SKIPPED, says=says, commands=commands, aside=aside)


CHECKS: Final = (
    "credentials",
    "APIs",
    "database",
    "point-in-time recovery",
    "delete protection",
    "indexes",
    "index exemptions",
    "time to live",
    "bucket",
    "bucket location",
    "bucket access",
    "bucket soft delete",
    "bucket lifecycle",
    "bucket holds",
    "IAM of the database",
    "IAM of the bucket",
    "clock",
    "documents",
    "objects",
    "latency of documents",
    "latency of objects",
)
"""All checks, in the order of the report."""


def described(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON values."""
    return {
        "check": finding.check,
        "status": finding.status.value,
        "says": finding.says,
        "commands": list(finding.commands),
        "terraform": finding.terraform,
    }
