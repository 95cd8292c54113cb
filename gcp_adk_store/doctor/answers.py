"""Hold an API's answer, and interpret a missing one."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from gcp_adk_store.doctor.findings import Finding, fail, skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a REST API, or its absence."""

    status: int
    """The HTTP status; 0 if the API was unreachable."""
    body: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    """Why the API was unreachable."""
    date: str = ""
    """The header ``Date``."""
    asked_at: float = 0.0
    """Unix time in seconds, by this machine's clock."""
    answered_at: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether the requested resource exists."""
        return self.status == HTTPStatus.OK

    @property
    def is_missing(self) -> bool:
        """Whether the requested resource does not exist."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def error(self) -> str:
        """The API's own name of the error, such as ``PERMISSION_DENIED``."""
        error = self.body.get("error")
        told = error.get("status") if isinstance(error, Mapping) else None
        return told if isinstance(told, str) else ""

    @property
    def disabled_service(self) -> str | None:
        """The disabled API of the project, if that is the reason of the error."""
        error = self.body.get("error")
        details = error.get("details") if isinstance(error, Mapping) else None
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping) and detail.get("reason") == "SERVICE_DISABLED":
                service = (detail.get("metadata") or {}).get("service")
                return str(service) if service else None
        return None


def unanswered(check: str, answer: Answer, *, needs: str, project: str) -> Finding:
    """Return the finding of *check* for an unusable *answer*; *needs* is the permission to read it."""
    if answer.status == 0:
        return fail(
            check, f"the API could not be reached ({answer.reason}); try again, or look at the network"
        )
    if answer.disabled_service is not None:
        return skipped(
            check,
            f"{answer.disabled_service} is not enabled in {project}",
            f"gcloud services enable {shlex.quote(answer.disabled_service)} --project={project}",
        )
    if answer.status == HTTPStatus.FORBIDDEN:
        return skipped(check, f"this identity may not look: it lacks {needs}; a store does not need it")
    told = f"{answer.status} {answer.error}".strip()
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return fail(check, f"the credentials are refused ({told})", "gcloud auth application-default login")
    return fail(check, f"the API answered {told}; try again")
