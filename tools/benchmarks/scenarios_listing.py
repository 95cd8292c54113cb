"""Measure how sessions are found: all of an app, those of a user, and a page."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tools.benchmarks.lines import Line
from tools.benchmarks.scenario import Begin, Scenario, Step
from tools.benchmarks.scenarios_sessions import service_of
from tools.benchmarks.stock import Stock
from tools.benchmarks.subjects import ADKS, OURS, SMALLER

PAGE: Final = 50
_EACH: Final = 50
"""Sessions of a user."""
_SUBJECTS: Final = (OURS, ADKS)


@dataclass(frozen=True, slots=True)
class Listed:
    """An app and how many sessions it has."""

    app: str
    users: int

    @property
    def sessions(self) -> int:
        """All of them."""
        return self.users * _EACH


SMALL: Final = Listed("few", 1)
LARGE: Final = Listed("many", 100)
QUICK_LARGE: Final = Listed("many", 4)


def listing_scenarios(stock: Stock, large: Listed) -> Iterable[Scenario]:
    """Return all of them."""
    yield Scenario(
        name=f"list {large.sessions:,} sessions, whole",
        subjects={subject: _whole(stock, subject, large, user=None) for subject in _SUBJECTS},
        share=0.02,
        large=large is LARGE,
    )
    yield Scenario(
        name=f"list one user's {_EACH} of {large.sessions:,} sessions",
        subjects={subject: _whole(stock, subject, large, user="user-000") for subject in _SUBJECTS},
        share=0.2,
    )
    yield Scenario(
        name=f"list a page of {PAGE} of {large.sessions:,} sessions",
        subjects={OURS: _page(stock, large), SMALLER: _page(stock, SMALL)},
        share=0.2,
    )


def _whole(stock: Stock, subject: str, listed: Listed, *, user: str | None) -> Begin:
    async def begin(line: Line) -> Step | None:
        await stock.sessions(subject, listed.app, users=listed.users, each=_EACH)
        service = service_of(line, subject)
        if service is None:
            return None

        async def work() -> None:
            found = await service.list_sessions(app_name=listed.app, user_id=user)
            assert len(found.sessions) == (listed.sessions if user is None else _EACH)

        return Step(work)

    return begin


def _page(stock: Stock, listed: Listed) -> Begin:
    async def begin(line: Line) -> Step:
        await stock.sessions(OURS, listed.app, users=listed.users, each=_EACH)

        async def work() -> None:
            page = await line.sessions.list_sessions_page(app_name=listed.app, page_size=PAGE)
            assert len(page.sessions) == PAGE

        return Step(work)

    return begin
