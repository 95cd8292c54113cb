"""Show what ``gcp-adk-store cost`` reads, prints, draws and refuses, and that docs/costs.md says the same."""

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.cli.command import command

DOCS: Final = Path(__file__).parents[2] / "docs"
LIKE: Final = ("chat", "voice", "agents")
"""The workloads that the command begins with."""
USED: Final = ("--turns-per-day", "1000", "--events-per-turn", "2", "--history", "9")


def cost(*arguments: str) -> Result:
    """Run the command on a wide terminal."""
    return CliRunner().invoke(command, ["cost", *arguments], env={"COLUMNS": "200"})


def described(*arguments: str) -> dict[str, Any]:
    """Return what the command prints for programs."""
    result = cost(*arguments, "--json")
    assert 0 == result.exit_code, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def worked_example() -> tuple[str, list[str]]:
    """Return docs/costs.md, and the arguments of the command in it."""
    text = (DOCS / "costs.md").read_text()
    (line,) = re.findall(r"^gcp-adk-store (cost .*)$", text, re.MULTILINE)
    return text, shlex.split(line)[1:]


def as_markdown(found: dict[str, Any]) -> str:
    """Return the bills as the table of docs/costs.md."""
    ours, theirs = found["services"]
    names = [services["services"] for services in (ours, theirs)]
    currency = found["prices"]["currency"]
    head = ["", *names, f"price in {currency}", *(f"{name}, {currency}" for name in names)]
    rows = [f"| {' | '.join(head)} |".replace("|  |", "| |"), "|---" * len(head) + "|"]
    for mine, its in zip(ours["lines"], theirs["lines"], strict=True):
        per = mine["unit"] != "GiB-month"
        digits = 0 if per else 2
        rows.append(
            f"| {mine['item']} | {mine['quantity']:,.{digits}f} | {its['quantity']:,.{digits}f} "
            f"| {mine['price']:g} {'for' if per else 'a'} {mine['unit']} "
            f"| {mine['cost']:,.2f} | {its['cost']:,.2f} |"
        )
    rows.append(f"| total | | | | {ours['total']:,.2f} | {theirs['total']:,.2f} |")
    return "\n".join(rows)


def test_the_worked_example_is_what_the_command_says(tmp_path: Path) -> None:
    """The table and the plot of docs/costs.md, from the command line that stands there.

    The plot has one line for each kind of services.
    """
    text, arguments = worked_example()
    found = described(*arguments, "--plot", str(tmp_path / "costs.svg"))
    turns = 2 * found["workload"]["history"] / found["workload"]["events_per_turn"] + 1

    assert as_markdown(found) in text
    (line,) = re.findall(r"^gcp_adk_store saves .*$", cost(*arguments).output, re.MULTILINE)
    assert f"{line}.\n" in text
    drawn = (tmp_path / "costs.svg").read_text()
    assert (DOCS / "costs.svg").read_text() == drawn
    lines = ET.fromstring(drawn).findall("{http://www.w3.org/2000/svg}polyline")  # noqa: S314  # its own
    assert 2 == len(lines)
    assert (
        f"conversations of {turns:.0f} turns, {found['workload']['sessions_per_day']:.0f} new ones"
        in re.sub(r"\s+", " ", text)
    )
    assert f"as of {found['prices']['as_of']}" in text


def test_json_has_the_tables_numbers() -> None:
    """And the prices and the workload that they are of.

    The saving is the difference of the totals and its share of the others' total. By default nothing is free.
    """
    found = described(*USED)
    ours, theirs = found["services"]
    difference = theirs["total"] - ours["total"]
    saving = re.search(r"gcp_adk_store saves ([\d.]+) USD a month, (\d+) %", cost(*USED).output)

    assert ("USD", "us-central1") == (found["prices"]["currency"], found["prices"]["location"])
    assert sum(line["cost"] for line in theirs["lines"]) == pytest.approx(theirs["total"])
    assert ours["operations"]["reads"] < theirs["operations"]["reads"]
    assert 100 == found["workload"]["sessions_per_day"]
    assert 12 == len(ours["curve"]) == len(theirs["curve"])
    assert difference == pytest.approx(found["saving"]["amount"])
    assert saving is not None
    assert (f"{difference:.2f}", f"{100 * difference / theirs['total']:.0f}") == saving.groups()
    assert 0 == described(*USED, "--free-tier")["services"][0]["total"] < ours["total"]


@pytest.mark.parametrize("name", LIKE)
def test_it_begins_with_a_workload_of_which_options_replace_numbers(name: str) -> None:
    """The rest stays as it is; without one, what has no default is named."""
    usual = described("--like", name)["workload"]
    larger = described("--like", name, "--turns-per-day", "20000", "--scopes", "app")["workload"]
    refused = cost("--turns-per-day", "1000", "--history", "9")

    assert None not in usual.values()
    assert larger == {
        **usual,
        "turns_per_day": 20_000,
        "scopes": ["app"],
        "sessions_per_day": 2 * usual["sessions_per_day"],
    }
    assert 2 == refused.exit_code
    assert (
        "--events-per-turn is missing; to begin with numbers: gcp-adk-store cost --like chat"
        in refused.output
    )


def test_sizes_are_reported() -> None:
    """Sessions, events, writes and appends a second, as the workload says; the bill has the bytes."""
    found = described(*USED, "--turn-seconds", "4")
    size = found["sizing"]
    lines = {line["item"]: line["quantity"] for line in found["services"][0]["lines"]}

    assert (100, 3_000) == (size["sessions_per_day"], size["sessions_stored"])
    assert (20, 2_000, 60_000) == (size["events_per_session"], size["events_per_day"], size["events_stored"])
    assert lines["documents written"] / (30 * 86_400) == pytest.approx(size["writes_per_second"])
    assert 0.5 == size["appends_per_second_of_a_session"]
    assert lines["documents stored"] == size["documents_gib"]
    assert re.search(r"^ events +2,000 a day, 60,000 stored *$", cost(*USED).output, re.MULTILINE)


def test_the_table_of_sizes_is_what_the_command_says() -> None:
    """Each column of docs/sizing.md is one workload, in USD and at the rate of the page's commands."""
    text = (DOCS / "sizing.md").read_text()
    commands = re.findall(r"^gcp-adk-store (cost --like \w+ --rate \S+)$", text, re.MULTILINE)
    columns = [(described(*shlex.split(line)[1:3]), described(*shlex.split(line)[1:])) for line in commands]

    assert [f"cost --like {name} --rate EUR=0.9" for name in LIKE] == commands
    assert as_sizes(columns) in text


def as_sizes(columns: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Return the table of docs/sizing.md: a column for each workload, of its outputs in two currencies."""
    appends = "appends a second to a session, while its turn runs"
    rows = (
        ("turns a day", "workload", "turns_per_day", 0),
        ("events of a turn", "workload", "events_per_turn", 0),
        ("new sessions a day", "sizing", "sessions_per_day", 0),
        ("sessions stored", "sizing", "sessions_stored", 0),
        ("events of a session", "sizing", "events_per_session", 0),
        ("events a day", "sizing", "events_per_day", 0),
        ("events stored", "sizing", "events_stored", 0),
        ("bytes of an event", "workload", "event_bytes", 0),
        ("documents written a second", "sizing", "writes_per_second", 2),
        (appends, "sizing", "appends_per_second_of_a_session", 2),
        ("GiB in Firestore", "sizing", "documents_gib", 2),
        ("GiB in Cloud Storage", "sizing", "objects_gib", 2),
    )
    cells = [
        (title, *(f"{usual[part][name]:,.{n}f}" for usual, _ in columns)) for title, part, name, n in rows
    ]
    totals = [[found["services"][0]["total"] for found in column] for column in columns]
    cells.append(("USD a month", *(f"{usual:,.2f}" for usual, _ in totals)))
    cells.append(("EUR a month, at 0.9", *(f"{euros:,.2f}" for _, euros in totals)))
    head = f"| | {' | '.join(LIKE)} |\n{'|---' * (1 + len(LIKE))}|\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in cells)


def test_the_costs_of_the_services_are_what_the_command_says() -> None:
    """Those of docs/which-service.md, at three sizes of one workload."""
    text = (DOCS / "which-service.md").read_text()
    commands = re.findall(r"^gcp-adk-store (cost --like chat --turns-per-day \d+)$", text, re.MULTILINE)
    rows = []
    for line in commands:
        found = described(*shlex.split(line)[1:])
        totals = " | ".join(f"{services['total']:,.2f}" for services in found["services"])
        rows.append(f"| {found['workload']['turns_per_day']:,.0f} | {totals} |")

    assert 3 == len(rows)
    assert "\n".join(rows) in text
    assert as_instances(text) in text


def test_the_costs_of_other_services_follow_from_their_prices() -> None:
    """Those of docs/which-service.md, by its formulas, of the sizes that the command says."""
    text = (DOCS / "which-service.md").read_text()
    listed = re.findall(r"^\| ([^|]+) \| ([\d.]+) \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE)
    price = {name: float(figure) for name, figure in listed}
    redis = price["Memorystore for Redis, Basic, at most 4 GiB"]
    sizes, costs = [], []
    for turns in (1_000, 100_000, 1_000_000):
        size = described("--like", "chat", "--turns-per-day", f"{turns}")["sizing"]
        events, stored = 30 * size["events_per_day"], size["documents_gib"]
        a_second = size["events_per_day"] / 86_400
        sizes.append(f"| {turns:,} | {events:,.0f} | {stored:.2f} | {a_second:.2f} |")
        vertex = events / 1_000 * price["Vertex AI, event of a session"]
        instance = price["Cloud SQL, vCPU"] + 3.75 * price["Cloud SQL, memory"]
        sql = 730 * instance + max(10, stored) * price["Cloud SQL, disk (SSD)"]
        reserved = math.ceil(stored)
        memory = f"{730 * redis * reserved:,.2f}" if reserved <= 4 else f"{730 * reserved:,} GiB-hours"
        is_flexible = stored <= 5e9 / 2**30
        hours = 730 * price["MongoDB Atlas, M30 on AWS"]
        atlas = f"{price['MongoDB Atlas, Flex'] if is_flexible else hours:,.2f}"
        more = " and more disk" if stored > 40e9 / 2**30 else ""
        costs.append(f"| {turns:,} | {vertex:,.2f} | {sql:,.2f} | {memory} | {atlas}{more} |")

    assert 7 == len(price)
    assert "\n".join(sizes) in text
    assert "\n".join(costs) in text


def as_instances(text: str) -> str:
    """Return the rows of docs/which-service.md for the prices of instances that it names."""
    prices = re.findall(r"^\| (\d+) \| [\d,]+ \| [\d,]+ \| [\d.]+ \|$", text, re.MULTILINE)
    of_a_turn = described("--like", "chat", "--turns-per-day", "1000000")["services"][0]["total"] / 1_000_000
    rows = []
    for price in prices:
        turns = round(float(price) / of_a_turn, -3)
        size = described("--like", "chat", "--turns-per-day", f"{turns:.0f}")["sizing"]
        events = 30 * size["events_per_day"]
        rows.append(f"| {price} | {turns:,.0f} | {events:,.0f} | {size['documents_gib']:.2f} |")
    assert 3 == len(rows)
    return "\n".join(rows)


def test_prices_come_from_a_file(tmp_path: Path) -> None:
    """Twice the price is twice the cost; the file has what is printed, whole or its prices."""
    file = tmp_path / "prices.json"
    usual = described(*USED)
    prices = {**usual["prices"], "writes_per_100k": 0.18, "location": "elsewhere"}
    for written in ({**usual, "prices": prices}, prices):
        file.write_text(json.dumps(written))
        dearer = described(*USED, "--prices", str(file))
        of_writes = [found["services"][0]["lines"][1]["cost"] for found in (usual, dearer)]

        assert prices == dearer["prices"]
        assert 2 * of_writes[0] == pytest.approx(of_writes[1])


@pytest.mark.parametrize(
    ("text", "rate", "says"),
    [
        *(
            (text, "1", "--prices {file}")
            for text in ("{", '{"location": "here"}', "\udce4", '{"prices": []}')
        ),
        ('{"reads_per_100k": 1e300}', "1", "less than or equal to 1000000000000000"),
        ('{"reads_per_100k": 1e15}', "2", "less than or equal to 1000000000000000"),
    ],
)
def test_a_file_that_has_no_prices_is_refused(tmp_path: Path, text: str, rate: str, says: str) -> None:
    """By an error that names the file; prices beyond all measure would make sums that are no numbers."""
    file = tmp_path / "prices.json"
    if "reads" in text:
        text = json.dumps({**json.loads(cost(*USED, "--json").stdout)["prices"], **json.loads(text)})
    file.write_bytes(text.encode(errors="surrogateescape"))
    result = cost(*USED, "--prices", str(file), "--rate", f"EUR={rate}")

    assert 2 == result.exit_code
    assert says.format(file=file) in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--turns-per-day", "0"], r"'--turns-per-day': 0.0 is not in the range 1<=x<=1000000000"),
        (["--turns-per-day", "nan"], r"nan is not a finite number"),
        (["--history", "1.5"], r"'--history': '1.5' is not a valid integer range"),
        (["--artifact-bytes", "9000000"], r"'--artifact-bytes': 9000000 is not in the range 0<=x<=8388608"),
        (["--cold-share", "1.1"], r"'--cold-share': 1.1 is not in the range 0<=x<=1"),
        (["--turn-seconds", "0"], r"'--turn-seconds': 0.0 is not in the range 0.01<=x<=86400"),
        (
            ["--rate", "0.9"],
            r"--rate 0.9 must be three letters and a number above 0, at most 1,000,000: --rate EUR=0.9",
        ),
        (["--rate", "EUR=1e308"], r"--rate EUR=1e308 must be three letters and a number above 0, at most"),
        (["--rate", "EUR=nan"], r"--rate EUR=nan must be three letters and a number above 0"),
        (["--like", "games"], r"'--like': 'games' is not one of 'chat', 'voice', 'agents'"),
        (["--scopes", "session,temp"], r"--scopes has 'temp', it may have 'session', 'user' and 'app'"),
        (["--prices", "/no/such/file"], r"--prices /no/such/file cannot be read"),
        (["--plot", "/no/such/folder/plot.svg"], r"--plot /no/such/folder/plot.svg cannot be written"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], says: str) -> None:
    """By an error that names the option and its limits; nothing is printed as a result."""
    result = cost(*USED, *arguments)

    assert 2 == result.exit_code
    assert re.search(says, result.output)
    assert "Traceback" not in result.output
    assert "total" not in result.output
