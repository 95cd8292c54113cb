"""The command that estimates the monthly cost of agents."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
from rich.console import RenderableType
from rich.table import Table

from gcp_adk_store.cli.place import json_option
from gcp_adk_store.cli.screen import CannotLookError, Result, bar, cell, finish, in_one_line
from gcp_adk_store.costs.counts import BuiltinServices, Scope, Services, StoreServices
from gcp_adk_store.costs.month import BOUNDS, DAYS, Bill, Curve, Saving, Workload, bill_of_a_month, curve, svg
from gcp_adk_store.costs.prices import FREE_QUOTA, NOTHING_FREE, US_CENTRAL1, Prices
from gcp_adk_store.errors import InvalidInputError

_SERVICES: Final[Sequence[Services]] = (StoreServices(), BuiltinServices())
_TITLE: Final = "operations on documents per turn"

Command = TypeVar("Command", bound=Callable[..., Any])


def _number(option: str, **attributes: Any) -> Callable[[Command], Command]:
    """Return an option for a number within the bounds of the workload's field of that name."""
    least, most = BOUNDS[option.strip("-").replace("-", "_")]
    whole = attributes.pop("whole", False)
    kind = click.IntRange(int(least), int(most)) if whole else click.FloatRange(least, most)
    shown = attributes.get("default") is not None
    return click.option(option, type=kind, metavar="N", show_default=shown, **attributes)


@click.command()
@_number("--turns-per-day", required=True, help="Turns of all users together.")
@_number("--events-per-turn", required=True, whole=True, help="Events that a turn appends.")
@_number("--history", required=True, whole=True, help="Events in a session before a turn, on average.")
@_number("--event-bytes", default=600, whole=True, help="Bytes of an event as JSON.")
@click.option(
    "--scopes",
    metavar="LIST",
    default="",
    help="State that a turn changes: session, user and app, with commas.",
)
@_number("--artifacts-per-turn", default=0, help="Artifacts that a turn saves, under new names.")
@_number("--artifact-loads-per-turn", default=0, help="Artifacts whose latest version a turn loads.")
@_number("--artifact-bytes", default=100_000, whole=True, help="Bytes of an artifact; at most 8 MiB.")
@_number("--sessions-per-day", help="New sessions; by default computed from the turns and the history.")
@_number("--retention-days", default=30, help="Days until sessions and artifacts are deleted.")
@_number("--cold-share", default=1, help="Share of turns whose process has not cached the session; 1: all.")
@_number("--memories", default=0, whole=True, help="Memories that a user has.")
@_number("--memories-per-turn", default=0, whole=True, help="Memories that a turn adds.")
@_number("--searches-per-turn", default=0, help="Searches of memories in a turn.")
@_number("--memory-bytes", default=500, whole=True, help="Bytes of a memory as it is stored.")
@_number("--vector-dimensions", default=0, whole=True, help="Numbers in a memory's vector; 0: no embedder.")
@_number("--query-words", default=5, whole=True, help="Words of a query, which ADK's service asks for.")
@_number("--word-matches", default=10, help="Memories with one such word, which ADK's service reads.")
@click.option("--free-tier", is_flag=True, help="Subtract the free quota of a database and an account.")
@click.option(
    "--prices",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Prices of another location or day, as --json prints them; by default list prices of us-central1.",
)
@click.option("--plot", metavar="FILE", type=click.Path(path_type=Path), help="Write the plot as SVG.")
@json_option
def cost(
    *, scopes: str, free_tier: bool, prices: Path | None, plot: Path | None, as_json: bool, **used: Any
) -> None:
    """Estimate the cost of 30 days, compared with the services that ADK ships.

    Contacts no service. Omits network, indexes, backups and point-in-time recovery, whose prices depend on
    more than turns.
    """
    workload = _workload(used, scopes)
    list_prices = US_CENTRAL1 if prices is None else _prices(prices)
    free = FREE_QUOTA if free_tier else NOTHING_FREE
    bills = [bill_of_a_month(services, workload, list_prices, free) for services in _SERVICES]
    curves = [curve(services, workload) for services in _SERVICES]
    if plot is not None:
        try:
            plot.write_text(svg(curves, title=_TITLE), encoding="utf-8")
        except OSError as exc:
            raise CannotLookError(f"--plot {plot} cannot be written: {exc}") from exc
    result = Result(
        _described(workload, list_prices, bills, curves, free_tier=free_tier),
        _lines(workload, list_prices, bills, curves),
    )
    finish(result, as_json=as_json)


def _workload(used: dict[str, Any], scopes: str) -> Workload:
    named = frozenset(name.strip() for name in scopes.split(",") if name.strip())
    try:
        return Workload(scopes=cast("frozenset[Scope]", named), **used)
    except InvalidInputError as exc:
        field, space, rest = str(exc).partition(" ")  # the message begins with the field
        raise CannotLookError(f"--{field.replace('_', '-')}{space}{rest}") from exc


def _prices(path: Path) -> Prices:
    try:
        return Prices.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise CannotLookError(f"--prices {path} cannot be read: {exc}") from exc
    except InvalidInputError as exc:
        raise CannotLookError(f"--prices {path}: {exc}") from exc


def _described(
    workload: Workload, prices: Prices, bills: Sequence[Bill], curves: Sequence[Curve], *, free_tier: bool
) -> dict[str, Any]:
    return {
        "days": DAYS,
        "workload": {
            **asdict(workload),
            "scopes": sorted(workload.scopes),
            "sessions_per_day": workload.new_sessions,
        },
        "free_tier": free_tier,
        "prices": asdict(prices),
        "services": [
            {**asdict(bill), "total": bill.total, "curve": [point._asdict() for point in one.points]}
            for bill, one in zip(bills, curves, strict=True)
        ],
        "saving": asdict(Saving.between(*bills)),
    }


def _lines(
    workload: Workload, prices: Prices, bills: Sequence[Bill], curves: Sequence[Curve]
) -> list[RenderableType]:
    table = Table(box=None)
    quantities = [bill.services for bill in bills]
    costs = [f"{bill.services}, {prices.currency}" for bill in bills]
    for heading in ("", *quantities, "price", *costs):
        table.add_column(cell(heading), justify="right" if heading else "left")
    for lines in zip(*(bill.lines for bill in bills), strict=True):
        line = lines[0]
        table.add_row(
            line.item,
            *(_quantity(one.quantity) for one in lines),
            f"{line.price:g} {'a' if line.unit == 'GiB-month' else 'for'} {line.unit}",
            *(f"{one.cost:,.2f}" for one in lines),
        )
    table.add_row("total", *("" for _ in bills), "", *(f"{bill.total:,.2f}" for bill in bills))
    sessions = _quantity(workload.new_sessions)
    return [
        table,
        in_one_line(
            f"{DAYS} days of {_quantity(workload.turns_per_day)} turns and {sessions} new sessions; "
            f"prices of {prices.location}, {prices.as_of}"
        ),
        f"{bills[0].services} {Saving.between(*bills).says(in_one_line(prices.currency))}",
        "",
        _bars(curves),
    ]


def _quantity(number: float) -> str:
    return f"{number:,.0f}" if number == 0 or number >= 100 else f"{number:,.3g}"  # noqa: PLR2004  # digits


def _bars(curves: Sequence[Curve]) -> Table:
    """Return the curves as bars, one row for each length of the conversation."""
    most = max(point.operations for one in curves for point in one.points)
    table = Table("events before", "", _TITLE, "", box=None)
    for points in zip(*(one.points for one in curves), strict=True):
        for one, point in zip(curves, points, strict=True):
            first = one is curves[0]
            table.add_row(
                f"{point.history:,.0f}" if first else "",
                one.services,
                bar(point.operations, most, "blue" if first else "red"),
                f"{point.operations:,.1f}",
            )
    return table
