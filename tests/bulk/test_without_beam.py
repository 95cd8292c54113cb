"""What of bulk jobs needs no Beam: they read each user once, keep the 500/50/5 rule, and take parameters."""

import asyncio
import json
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import Store
from gcp_adk_store.bulk.reading import PacedDocuments, Ramp, ranges_of, sessions_within, user_ranges
from gcp_adk_store.cli.command import command
from gcp_adk_store.cli.flex_template import PARAMETERS, command_of
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import NameRange, Page, in_order_of_names
from gcp_adk_store.model.keys import SessionKey, UserKey
from tests.fsck.corpus import WHO, sealed
from tests.moving.hardest import APP, fill, many
from tests.support.stored import overwrite
from tools.setup.tools import ROOT

LAYOUT = Layout("adk")
METADATA = json.loads((ROOT / "terraform/modules/bulk_jobs/metadata.json").read_text())
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)


def has(within: NameRange, path: str) -> bool:
    """Return whether a path is in a range."""
    at = in_order_of_names(path)
    return (within.start is None or in_order_of_names(within.start) <= at) and (
        within.end is None or at < in_order_of_names(within.end)
    )


async def read_in(store: Store, most: int) -> tuple[Sequence[NameRange], list[tuple[str, str]]]:
    """Return ranges, and user and id of the sessions that are found in them, one after the other."""
    storage = store.sessions.storage
    ranges = await ranges_of(storage, APP, most=most)
    return ranges, [
        (info.user_id, info.session_id)
        for within in ranges
        async for info in sessions_within(storage, APP, within, lambda _: None)
    ]


@given(users=st.lists(IDS, min_size=1, max_size=8), points=st.lists(st.tuples(IDS, IDS), max_size=6))
def test_a_user_is_in_one_range_with_all_sessions(users: list[str], points: list[tuple[str, str]]) -> None:
    """Points lie anywhere, also in another app and within the sessions of a user."""
    paths = [LAYOUT.session(SessionKey(app=APP, user=user, session=name)) for user, name in points]
    paths.append(LAYOUT.session(SessionKey(app="another", user="u", session="s")))
    ranges = user_ranges(LAYOUT, APP, paths)
    for user in users:
        owner = UserKey(app=APP, user=user)
        mine = [within for within in ranges if has(within, LAYOUT.user(owner))]
        assert 1 == len(mine)
        for name in ("", "\U0010ffff", "x"):
            assert has(mine[0], LAYOUT.user(owner) + f"/adk_sessions/{name}")


async def test_every_session_is_read_once() -> None:
    """However many ranges there are; the sessions of a user follow each other."""
    users = ["ada", "Bob", "b/ob", "\U0001f600", "zoe", "0", *(f"u{number}" for number in range(20))]
    async with Store.local(":memory:") as store:
        await fill(store.sessions, [(user, f"s{n}", many(n)) for user in users for n in range(2)])
        await store.sessions.create_session(app_name="another", user_id="ada", session_id="s9")
        for most in (1, 2, 7, 256):
            ranges, ids = await read_in(store, most)
            owners = [user for user, _ in ids]

            assert len(ranges) <= most
            assert (len(ranges) > 1) == (most > 1)
            assert sorted((user, f"s{n}") for user in users for n in range(2)) == sorted(ids)
            assert len(users) == 1 + sum(one != other for one, other in pairwise(owners))


@pytest.mark.emulators
async def test_all_users_of_the_emulator_are_in_one_range(adk_store: Store) -> None:
    """It does not know where documents lie; each session is read once, too."""
    await fill(adk_store.sessions, [(user, "s", []) for user in ("0", "ada", "Ada", "m", "z", "\u00e9")])
    ranges, ids = await read_in(adk_store, 8)

    assert 1 == len(ranges)
    assert sorted(["0", "ada", "Ada", "m", "z", "\u00e9"]) == sorted(user for user, _ in ids)


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.mark.parametrize("processes", [1, 10])
def test_the_rate_begins_with_500_and_grows_by_half_every_5_minutes(processes: int) -> None:
    """All processes together."""
    clock = Hand()
    ramp = Ramp(processes, clock)
    rates = []
    for _ in range(4):
        rates += [round(ramp.rate() * processes, 6)]
        clock.now += 299.9
        rates += [round(ramp.rate() * processes, 6)]
        clock.now += 0.1

    assert [500, 500, 750, 750, 1125, 1125, 1687.5, 1687.5] == rates


def test_no_more_is_spent_than_the_rate_allows() -> None:
    """In any time, but for the documents of one second at once."""
    clock = Hand()
    ramp = Ramp(1, clock)
    spent = 0
    for _ in range(200):
        clock.now += ramp.spend(100)
        spent += 100
        assert spent <= 500 * (clock.now - 1000.0) + 500 + 100

    assert 20_000 == spent
    assert 38 <= clock.now - 1000.0 <= 40


def test_what_is_not_spent_is_not_saved_up() -> None:
    """After a pause, the next second has the rate of any other."""
    clock = Hand()
    ramp = Ramp(1, clock)
    clock.now += 200

    assert [0.0, 0.0, 0.2] == [round(ramp.spend(number), 6) for number in (100, 400, 100)]


def test_threads_share_what_they_spend() -> None:
    """Nothing is counted twice, or lost."""
    clock = Hand()
    ramp = Ramp(1, clock)
    threads = [threading.Thread(target=lambda: [ramp.spend(1) for _ in range(1000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 15.0 == pytest.approx(ramp.spend(0))


async def test_every_document_is_counted_before_a_write_and_after_a_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those of a snapshot; a query without a result is one, as Firestore bills it."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    stored = await sealed()
    reported: list[tuple[str, int]] = []
    clock = Hand()
    ramp = Ramp(500, clock)  # one in a second
    documents = PacedDocuments(
        stored.storage.documents, ramp, lambda kind, number, _: reported.append((kind, number))
    )
    layout = stored.storage.layout
    parent = layout.app(WHO["app_name"])
    page = Page(field=None, descending=False, limit=10, after=None)
    await documents.get([parent, parent])
    found = await documents.query(parent, layout.sessions_collection, all_descendants=True, page=page)
    await documents.query(parent, "nothing", all_descendants=True, page=page)
    async with documents.snapshot() as reads:
        await reads.get([found[0].path])
    await overwrite(documents, {"a/b": {}})
    await overwrite(documents, {"a/b": {}, "a/c": {}})

    assert [("read", 2), ("read", 1), ("read", 1), ("read", 1), ("written", 1), ("written", 2)] == reported
    assert [1, 2, 3, 4, 5, 7] == [round(seconds) for seconds in waited]


def test_the_parameters_are_those_that_the_program_takes() -> None:
    """All of them, each with a label and a help text; values that are refused do not start a job."""
    named = {each["name"]: each for each in METADATA["parameters"]}
    bulk: Any = command.get_command(click.Context(command), "bulk")

    assert set(PARAMETERS) == set(named)
    assert all(each["label"] and each["helpText"] for each in named.values())
    assert {"job", "app", "store_project"} == {
        name for name, each in named.items() if not each.get("isOptional")
    }
    (form,) = named["job"]["regexes"]
    assert set(bulk.commands) == set(form.strip("^$()").split("|"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--job=export", "--app=a b", "--out=gs://b/o", "--store_project=p", "--runner=DataflowRunner"],
            ["bulk", "export", "--project=p", "--app=a b", "--", "gs://b/o", "--runner=DataflowRunner"],
        ),
        (
            ["--job=prune", "--app=a", "--labels=x=1,y=2", "--idle_days=90", "--dry_run=true", "--project=q"],
            [
                *("bulk", "prune", "--app=a", "--idle-days=90", "--label=x=1", "--label=y=2", "--dry-run"),
                *("--", "--project=q"),
            ],
        ),
        (
            ["--job=erase", "--app=a", "--users=u", "--receipts=r", "--quiet=30", "--dry_run=false"],
            ["bulk", "erase", "--app=a", "--quiet=30", "--yes", "--", "u", "r"],
        ),
    ],
)
def test_the_program_of_the_template_runs_the_command(flags: list[str], words: list[str]) -> None:
    """With the parameters as its options, which it takes; Beam gets the rest."""
    found = command_of(flags)
    bulk: Any = command.get_command(click.Context(command), "bulk")
    part = bulk.get_command(click.Context(bulk), found[1])

    assert words == found
    assert flags[-1:] == [*part.make_context(part.name, found[2:]).params["beam_options"], flags[-1]][-1:]


@pytest.mark.parametrize(
    ("flags", "says"), [(["--app=a"], "it must be one of"), (["--job=verify"], "needs the parameter broken")]
)
def test_a_job_that_lacks_a_parameter_is_refused(flags: list[str], says: str) -> None:
    """Before anything runs."""
    with pytest.raises(ValueError, match=says):
        command_of(flags)
