"""Show what the model of costs computes from counts and prices, where it ends, and how it grows."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError
from gcp_adk_store.costs import counts
from gcp_adk_store.costs.counts import (
    BOUNDS,
    BuiltinServices,
    Operations,
    Services,
    StoreServices,
    Workload,
    builtin_recall,
    store_recall,
)
from gcp_adk_store.costs.month import (
    bill_of_a_month,
    operations_of_a_month,
    stored_gib,
)
from gcp_adk_store.costs.prices import FREE_QUOTA, US_CENTRAL1, Prices
from gcp_adk_store.memory import vectors
from gcp_adk_store.model import memories as model

OURS, BUILTIN = StoreServices(), BuiltinServices()
BOTH: list[Services] = [OURS, BUILTIN]
SMALL = Workload(turns_per_day=1000, events_per_turn=2, history=0)


def total(services: Services, workload: Workload) -> float:
    """Return a month's cost at list prices."""
    return bill_of_a_month(services, workload, US_CENTRAL1).total


def test_without_artifacts_cloud_storage_costs_nothing() -> None:
    """Neither operations nor space."""
    for services in BOTH:
        lines = {line.item: line for line in bill_of_a_month(services, SMALL, US_CENTRAL1).lines}

        assert [0, 0, 0] == [
            lines[item].cost for item in ("Class A operations", "Class B operations", "objects stored")
        ]


def test_storage_is_what_is_written_within_the_retention() -> None:
    """2 events of 600 bytes a turn, and an artifact each other turn."""
    workload = replace(SMALL, retention_days=10, artifacts_per_turn=0.5, artifact_bytes=2**20)

    assert (10_000 * 2 * 600 / 2**30, 10_000 * 0.5 / 2**10) == pytest.approx(stored_gib(workload))


def test_the_free_tier_takes_off_what_is_free_and_no_more() -> None:
    """A small deployment costs nothing; of a larger one the rest is billed."""
    small = bill_of_a_month(OURS, SMALL, US_CENTRAL1, FREE_QUOTA)
    large = bill_of_a_month(OURS, replace(SMALL, turns_per_day=100_000), US_CENTRAL1, FREE_QUOTA)
    reads = large.lines[0]

    assert 0 == small.total
    assert (700_000 * 30, 650_000 * 30) == pytest.approx((reads.quantity, reads.billed))
    assert 650_000 * 30 * 0.03 / 100_000 == pytest.approx(reads.cost)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("how", ["below", "above", "text", "nan", "huge"])
def test_a_number_beyond_its_bounds_is_refused(name: str, how: str) -> None:
    """By an error that names it and says what it may be."""
    least, most = BOUNDS[name]
    wrong: Any = {
        "below": least - 1,
        "above": most + 1,
        "text": "1",
        "nan": float("nan"),
        "huge": 10**5_000,  # Python refuses to print it
    }[how]

    with pytest.raises(InvalidInputError, match=rf"^{name} is .*, it must "):
        replace(SMALL, **{name: wrong})


def test_a_scope_that_is_none_is_refused() -> None:
    """By name."""
    unknown: Any = frozenset({"temp"})
    with pytest.raises(InvalidInputError, match="scopes has 'temp'"):
        replace(SMALL, scopes=unknown)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reads_per_100k": -1}, r"reads_per_100k: .* greater than or equal to 0 \(found -1\)"),
        ({"reads_per_100k": "0.03"}, r"reads_per_100k: .* a valid number \(found '0.03'\)"),
        ({"class_a_per_1k": True}, r"class_a_per_1k: .* a valid number \(found True\)"),
        ({"class_b_per_1k": float("inf")}, r"class_b_per_1k: .* a finite number \(found inf\)"),
        ({"as_of": "last week"}, r"as_of: .*isoformat string: 'last week'"),
        ({"source": ""}, r"source: .* at least 1 character"),
        ({"egress": 1}, r"egress: Unexpected"),
    ],
)
def test_prices_that_are_none_are_refused(change: dict[str, object], says: str) -> None:
    """By an error that names the field."""
    with pytest.raises(InvalidInputError, match=says):
        Prices.parse(json.dumps({**asdict(US_CENTRAL1), **change}))


WORKLOADS = st.builds(
    Workload,
    turns_per_day=st.floats(1, 1e6),
    # The model computes each turn of a conversation: up to 60 of them, so that an example takes little time.
    events_per_turn=st.integers(5, 30),
    history=st.integers(0, 300),
    event_bytes=st.integers(200, 20_000),
    scopes=st.frozensets(st.sampled_from(["session", "user", "app"])),
    artifacts_per_turn=st.floats(0, 3),
    artifact_loads_per_turn=st.floats(0, 3),
    sessions_per_day=st.floats(1, 1000),
    cold_share=st.floats(0, 1),
)


@given(
    history=st.integers(0, 5000),
    events=st.integers(1, 30),
    event_bytes=st.integers(200, 20_000),
    cold=st.booleans(),
)
def test_a_turn_of_this_store_is_flat_but_for_sealed_segments(
    history: int, events: int, event_bytes: int, *, cold: bool
) -> None:
    """What it takes beyond a first turn's is one read a segment that is not known, and three a seal."""
    workload = replace(SMALL, events_per_turn=events, event_bytes=event_bytes)
    sealed = OURS.segments(history, event_bytes=event_bytes)
    seals = OURS.segments(history + events, event_bytes=event_bytes) - sealed
    first = 3 + events
    turn = OURS.turn(workload, history, cold=cold).documents

    assert first + 3 * seals <= turn <= first + 3 * seals + sealed
    assert not cold or turn == first + 3 * seals + sealed


@given(workload=WORKLOADS)
def test_a_cold_process_is_the_worst_case(workload: Workload) -> None:
    """So the default overstates this store's cost, never understates it."""
    warm, cold = (replace(workload, cold_share=share) for share in (0, 1))

    assert total(OURS, warm) <= total(OURS, workload) * (1 + 1e-9)
    assert total(OURS, workload) <= total(OURS, cold) * (1 + 1e-9)


def test_the_model_has_the_sizes_of_the_store() -> None:
    """Of what the head holds, and of full documents."""
    assert model.SEAL_BYTES == vectors.FRESH_BYTES == counts.SEAL_BYTES
    assert model.FULL_BYTES == counts.FULL_SHARD_BYTES
    assert vectors.PART_BYTES == counts.FULL_PART_BYTES
    assert model.DIGEST_BYTES == counts.KEY_BYTES


def test_a_month_has_the_operations_of_memories() -> None:
    """Of each turn, by the share of cold processes; nothing without memories."""
    plain = Workload(turns_per_day=10, events_per_turn=2, history=0)
    half = replace(plain, cold_share=0.5)
    recalling = replace(half, memories=1000, memories_per_turn=1, searches_per_turn=2, memory_bytes=1000)

    def more(services: Services) -> Operations:
        with_memories = operations_of_a_month(services, recalling)
        return with_memories + operations_of_a_month(services, plain).times(-1)

    base = operations_of_a_month(OURS, half).reads
    shards = store_recall(recalling, cold=True).reads - 2
    assert operations_of_a_month(OURS, recalling).reads - base == pytest.approx(300 * (2 + 0.5 * shards))
    assert more(BUILTIN).reads == pytest.approx(300 * 2 * 5 * 10)
    assert more(BUILTIN).writes == pytest.approx(300)
    assert Operations() == store_recall(plain, cold=True) == builtin_recall(plain)
