"""Hold what was looked at, and what was found."""

import enum
from dataclasses import dataclass
from typing import Any, Final


class Status(enum.Enum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check says."""

    check: str
    status: Status
    says: str
    """What was found; ids and settings, never content and never a secret."""
    commands: tuple[str, ...] = ()
    """What to run."""
    terraform: str = ""
    """What to write instead where Terraform is in charge."""
    aside: str = ""
    """Where the check does not apply, such as ``on an emulator``; empty where it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The deployment that is looked at."""

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
        """What ``gcloud firestore`` needs beside a command."""
        return f"--database='{self.database}' --project={self.project}"


def ok(check: str, says: str) -> Finding:
    """Return that all is well."""
    return Finding(check=check, status=Status.OK, says=says)


def warn(check: str, says: str, *commands: str, terraform: str = "") -> Finding:
    """Return what should be put right, and does not stop a store."""
    return Finding(check=check, status=Status.WARN, says=says, commands=commands, terraform=terraform)


def fail(check: str, says: str, *commands: str, terraform: str = "") -> Finding:
    """Return what stops a store, or parts of it."""
    return Finding(check=check, status=Status.FAIL, says=says, commands=commands, terraform=terraform)


def skipped(check: str, says: str, *commands: str, aside: str = "") -> Finding:
    """Return what could not be looked at, and why; *aside* says where that is as it should be."""
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
"""All checks, in the order in which they are shown."""


def described(finding: Finding) -> dict[str, Any]:
    """Return a finding for programs."""
    return {
        "check": finding.check,
        "status": finding.status.value,
        "says": finding.says,
        "commands": list(finding.commands),
        "terraform": finding.terraform,
    }
