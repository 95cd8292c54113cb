"""Bulk jobs keep Firestore's 500/50/5 rule."""

import asyncio
import threading

import pytest

from gcp_adk_store.bulk.reading import PacedDocuments, Ramp
from gcp_adk_store.codec.writes import Page, Write
from gcp_adk_store.kernel.transact import commit_all
from tests.fsck.corpus import WHO, sealed


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
    await documents.commit([Write(path="a/b", fields={})])
    await commit_all(documents, [Write(path="a/b", fields={})] * 2)

    assert [("read", 2), ("read", 1), ("read", 1), ("read", 1), ("written", 1), ("written", 2)] == reported
    assert [1, 2, 3, 4, 5, 7] == [round(seconds) for seconds in waited]
