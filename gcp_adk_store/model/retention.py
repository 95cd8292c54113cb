"""Decide which sessions and which data of users have been kept long enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.session_info import SessionInfo

DAY_S: Final = 86_400.0
_LONGEST_DAYS: Final = 36_500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What goes: sessions that meet all conditions that are given, and data of users without sessions."""

    idle_days: float | None = None
    """Days since the last event, or since the creation of a session without events."""
    older_than_days: float | None = None
    """Days since the creation."""
    keep_latest: int | None = None
    """So many sessions of each user with the latest events stay; others go if they meet the rest."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only sessions with all of these labels go, and only they count for *keep_latest*."""
    user_data_idle_days: float | None = None
    """Days since the last change of a user's state, or of their memories, after which each of them goes if
    the user has no session."""

    def __post_init__(self) -> None:
        for name in ("idle_days", "older_than_days", "user_data_idle_days"):
            days = getattr(self, name)
            if days is not None and not 0 < days <= _LONGEST_DAYS:
                raise InvalidInputError(
                    f"{name} is {days}, it must be above 0 and at most {_LONGEST_DAYS:.0f}"
                )
        if self.keep_latest is not None and self.keep_latest < 0:
            raise InvalidInputError(f"keep_latest is {self.keep_latest}, it must not be negative")
        if not self.is_about_sessions and (self.labels or self.user_data_idle_days is None):
            raise InvalidInputError(
                "nothing says which sessions go; pass idle_days, older_than_days or keep_latest"
            )

    @property
    def is_about_sessions(self) -> bool:
        """Whether any session may go."""
        return (self.idle_days, self.older_than_days, self.keep_latest) != (None, None, None)

    def chosen(self, sessions: Sequence[SessionInfo], now: float) -> list[SessionInfo]:
        """Return those of all *sessions* of one user that go at the time *now*, the longest idle first."""
        mine = [each for each in sessions if self.labels.items() <= each.labels.items()]
        ordered = sorted(mine, key=lambda each: (each.last_update_time, each.session_id))
        if self.keep_latest is not None:
            ordered = ordered[: max(0, len(ordered) - self.keep_latest)]
        return [
            each
            for each in ordered
            if _is_over(each.last_update_time, self.idle_days, now)
            and _is_over(each.create_time, self.older_than_days, now)
        ]

    def user_data_goes(self, changed_at: float, now: float) -> bool:
        """Return whether data of a user without sessions goes that was changed last at *changed_at*."""
        return self.user_data_idle_days is not None and _is_over(changed_at, self.user_data_idle_days, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What a prune looked at, and what went."""

    app_name: str
    is_dry_run: bool
    begun_at: float
    """Unix time by the database's clock, in seconds."""
    ended_at: float = 0.0
    sessions: int = 0
    """Sessions that were looked at."""
    pruned_sessions: int = 0
    """Sessions that went; after a dry run, that would go."""
    pruned_artifacts: int = 0
    """Artifacts of these sessions."""
    pruned_states: int = 0
    """States of users."""
    pruned_memories: int = 0
    """Users whose memories went."""
    in_use: int = 0
    """What would go, but has a turn now or changed meanwhile: it stays until a later run."""
    unreadable: int = 0
    """Documents that cannot be read; they stay: see ``gcp-adk-store fsck``."""


def _is_over(since: float, days: float | None, now: float) -> bool:
    return days is None or since < now - days * DAY_S
