"""The command that estimates the monthly cost of agents."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
from rich.console import RenderableType
from rich.table import Table

from gcp_adk_store.cli.place import json_option
from gcp_adk_store.cli.screen import CannotLookError, Number, Result, bar, cell, finish
from gcp_adk_store.costs.counts import BOUNDS, BuiltinServices, Scope, Services, StoreServices, Workload
from gcp_adk_store.costs.month import DAYS, LIKE, Bill, Curve, Saving, Sizing, bill_of_a_month, curve, svg
from gcp_adk_store.costs.prices import FREE_QUOTA, NOTHING_FREE, US_CENTRAL1, Prices
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import in_one_line

_SERVICES: Final[Sequence[Services]] = (StoreServices(), BuiltinServices())
_MAX_RATE: Final = 1_000_000
_TITLE: Final = "operations on documents per turn"

Command = TypeVar("Command", bound=Callable[..., Any])


def _number(option: str, **attributes: Any) -> Callable[[Command], Command]:
    """Return an option for a number within the bounds of the workload's field of that name."""
    least, most = BOUNDS[option.strip("-").replace("-", "_")]
    whole = attributes.pop("whole", False)
    kind = click.IntRange(int(least), int(most)) if whole else Number(least, most)
    shown = attributes.get("default") is not None
    return click.option(option, type=kind, metavar="N", show_default=shown, **attributes)


def _begin_with(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """Take what is not given from the workload *name*."""
    if name is not None:
        values = asdict(LIKE[name])
        context.default_map = {**values, "scopes": ",".join(sorted(values["scopes"]))}


@click.command()
@click.option(
    "--like",
    type=click.Choice(list(LIKE)),
    is_eager=True,
    expose_value=False,
    callback=_begin_with,
    help="Begin with the numbers of such agents; other options replace single ones.",
)
@_number("--turns-per-day", help="Turns of all users together; required without --like.")
@_number("--events-per-turn", whole=True, help="Events that a turn appends; required without --like.")
@_number("--history", whole=True, help="Events before a turn, on average; required without --like.")
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
@_number("--turn-seconds", default=10, help="Seconds from a turn's message to its last event.")
@click.option("--free-tier", is_flag=True, help="Subtract the free quota of a database and an account.")
@click.option(
    "--prices",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Prices of another location or day, as --json prints them, or all that it prints; by default list "
    "prices of us-central1.",
)
@click.option(
    "--rate",
    metavar="CURRENCY=N",
    help="Show another currency, of which one unit of the prices' is N: EUR=0.9.",
)
@click.option("--plot", metavar="FILE", type=click.Path(path_type=Path), help="Write the plot as SVG.")
@json_option
def cost(
    *,
    scopes: str,
    free_tier: bool,
    prices: Path | None,
    rate: str | None,
    plot: Path | None,
    as_json: bool,
    **used: Any,
) -> None:
    """Estimate sizes and the cost of 30 days, compared with the services that ADK ships.

    Contacts no service. Omits network, indexes, backups and point-in-time recovery, whose prices depend on
    more than turns.
    """
    workload = _workload(used, scopes)
    list_prices = US_CENTRAL1 if prices is None else _prices(prices)
    if rate is not None:
        list_prices = _converted(list_prices, rate)
    free = FREE_QUOTA if free_tier else NOTHING_FREE
    bills = [bill_of_a_month(services, workload, list_prices, free) for services in _SERVICES]
    curves = [curve(services, workload) for services in _SERVICES]
    if plot is not None:
        try:
            plot.write_text(svg(curves, title=_TITLE), encoding="utf-8")
        except OSError as exc:
            raise CannotLookError(f"--plot {plot} cannot be written: {exc}") from exc
    described = _described(workload, list_prices, bills, curves, free_tier=free_tier)
    finish(Result(described, _lines(workload, list_prices, bills, curves)), as_json=as_json)


def _workload(used: dict[str, Any], scopes: str) -> Workload:
    for name in ("turns_per_day", "events_per_turn", "history"):
        if used[name] is None:
            lacks = f"--{name.replace('_', '-')} is missing"
            raise CannotLookError(f"{lacks}; to begin with numbers: gcp-adk-store cost --like chat")
    named = frozenset(name.strip() for name in scopes.split(",") if name.strip())
    try:
        return Workload(scopes=cast("frozenset[Scope]", named), **used)
    except InvalidInputError as exc:
        field, space, rest = str(exc).partition(" ")  # the message begins with the field
        raise CannotLookError(f"--{field.replace('_', '-')}{space}{rest}") from exc


def _prices(path: Path) -> Prices:
    try:
        return Prices.parse(_prices_in(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as exc:
        raise CannotLookError(f"--prices {path} cannot be read: {exc}") from exc
    except InvalidInputError as exc:
        raise CannotLookError(f"--prices {path}: {exc}") from exc


def _prices_in(text: str) -> str:
    """Return the prices of *text*: itself, or those of the whole that ``--json`` prints."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text  # which whoever reads it as prices reports
    return json.dumps(found["prices"]) if isinstance(found, dict) and "prices" in found else text


def _converted(prices: Prices, rate: str) -> Prices:
    try:
        return prices.in_currency(*_rate(rate))
    except InvalidInputError as exc:
        raise CannotLookError(f"--rate {rate:.80}: {exc}") from exc


def _rate(text: str) -> tuple[str, float]:
    currency, _, number = text.partition("=")
    try:
        rate = float(number)
    except ValueError:
        rate = math.nan
    if not (re.fullmatch("[A-Z]{3}", currency) and 0 < rate <= _MAX_RATE):
        raise CannotLookError(
            f"--rate {text:.80} must be three letters and a number above 0, at most {_MAX_RATE:,}: "
            "--rate EUR=0.9"
        )
    return currency, rate


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
        "sizing": asdict(Sizing.of(workload)),
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
        _sizes(workload),
        "",
        table,
        in_one_line(
            f"{DAYS} days of {_quantity(workload.turns_per_day)} turns and {sessions} new sessions; "
            f"prices of {prices.location}, {prices.as_of}"
        ),
        f"{bills[0].services} {Saving.between(*bills).says(in_one_line(prices.currency))}",
        "",
        _bars(curves),
    ]


def _sizes(workload: Workload) -> Table:
    size = Sizing.of(workload)
    of_a_session = f"{_quantity(size.appends_per_second_of_a_session)} while its turn runs"
    table = Table("size", "", box=None)
    for item, amount in (
        (
            "sessions",
            f"{_quantity(size.sessions_per_day)} new a day, {_quantity(size.sessions_stored)} stored",
        ),
        ("events", f"{_quantity(size.events_per_day)} a day, {_quantity(size.events_stored)} stored"),
        ("events of a session", _quantity(size.events_per_session)),
        ("documents written a second", _quantity(size.writes_per_second)),
        ("appends a second to a session", of_a_session),
    ):
        table.add_row(item, amount)
    return table


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
