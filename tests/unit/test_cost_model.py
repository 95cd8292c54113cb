"""Show where the model of costs ends, and how it grows; tests/costs compares it with meters and documents."""

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
from gcp_adk_store.costs.month import operations_of_a_month
from gcp_adk_store.costs.prices import US_CENTRAL1, Prices
from gcp_adk_store.memory import vectors
from gcp_adk_store.model import memories as model

OURS, BUILTIN = StoreServices(), BuiltinServices()
SMALL = Workload(turns_per_day=1000, events_per_turn=2, history=0)


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
