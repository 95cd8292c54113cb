"""What docs/memory.md asks a reader to write works."""

from pathlib import Path
from typing import Any

from google.adk.sessions import Session

from gcp_adk_store import Store
from tests.memory.conftest import USER, said
from tests.support.documents import blocks


async def test_the_blocks_of_the_memory_page_run(tmp_path: Path) -> None:
    """All of them, in order, in one module."""
    page: dict[str, Any] = {}
    for block in blocks("docs/memory.md", "python"):
        exec(compile(block, "docs/memory.md", "exec"), page)  # noqa: S102  # the page's own code
    async with Store.local(":memory:") as store:
        session = Session(id="s", events=[said("I booked a flight to Zürich"), said("tea")], **USER)
        (found,) = await page["remember"](store, session)
        assert found.endswith(" I booked a flight to Zürich")
    for number, (opened, expected) in enumerate(
        (
            (page["open_store"], ["I prefer trains", "hello"]),
            (page["open_store_of_facts"], ["I prefer trains"]),
        )
    ):
        async with opened(f"{tmp_path}/{number}") as store:
            held = await store.sessions.create_session(session_id="s", **USER)
            for text in ("hello", "I prefer trains"):
                await store.sessions.append_event(held, said(text))
            await store.sessions.flush()
            memories = (await store.memory.list_memories(**USER)).memories
            assert expected == [each.content.parts[0].text for each in memories if each.content.parts]
    async with page["open_store_with_vectors"](f"{tmp_path}/vectors") as store:
        assert [] == await store.memory.search_memories(query="tea", **USER)  # the model is not asked
        assert 0 == (await store.memory.reindex_memories(**USER)).memories
