"""What searches find, on a part of the benchmark's conversations."""

from google.adk.memory import BaseMemoryService, InMemoryMemoryService

from gcp_adk_store import Store
from tests.support.lengths import at_length
from tools.benchmarks.memory import compare

SOME = ("English", "German", "Hindi", "Japanese", "Thai")


async def test_answers_are_found_far_more_often_than_by_counting_words(adk_store_local: Store) -> None:
    """At least one and a half times as often as by ADK's service in memory, in every script."""
    services: dict[str, BaseMemoryService] = {
        "ours": adk_store_local.memory,
        "ADK's": InMemoryMemoryService(),
    }
    found = await compare(services, at_length(10, 40), languages=SOME)

    assert found["ours"]["recall_at_10"] >= 0.9
    assert found["ours"]["recall_at_10"] >= 1.5 * found["ADK's"]["recall_at_10"]
    assert found["ours"]["mrr"] >= 1.5 * found["ADK's"]["mrr"]
    assert all(recall >= 0.75 for recall, _ in found["ours"]["languages"].values())
