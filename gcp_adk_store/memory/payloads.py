"""Store, complete and remove memories whose content is too large for a document."""

from collections.abc import Sequence

from google.genai import types

from gcp_adk_store.codec.events import complete_event
from gcp_adk_store.codec.memories import EncodedMemory, decode_content, decode_memory
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.kernel.concurrency import fan_out
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.sessions.read.payloads import Payloads


class MemoryPayloads:
    """The payloads of memories; those of one memory are of one life."""

    def __init__(self, payloads: Payloads, layout: MemoryLayout) -> None:
        """Prepare; without I/O."""
        self._payloads = payloads
        self._layout = layout

    @property
    def place(self) -> PayloadPlace:
        """The place of new payloads."""
        return self._payloads.place

    async def put(self, key: UserKey, encoded: Sequence[EncodedMemory]) -> None:
        """Store the payloads of memories, before what refers to them."""
        await fan_out(
            self._payloads.put(
                self._layout.payloads(self._layout.head(key), each.memory.life or ""),
                each.payloads,
                parts_at=None if each.memory.until is None else int(each.memory.until) + 1,
            )
            for each in encoded
            if each.payloads
        )

    async def content(self, key: UserKey, text: str) -> types.Content:
        """Return the content of the memory with this stored *text*.

        Raises:
            PayloadMissingError: a payload is gone.
        """
        stored = decode_content(text)
        path = self._layout.head(key)
        life = decode_memory(text).life
        while stored.missing:
            owner = self._layout.payloads(path, life or "")
            refs = sorted(set(stored.missing.values()), key=lambda ref: ref.sha256)
            data = await fan_out(self._payloads.get(owner, ref) for ref in refs)
            stored = complete_event(stored, dict(zip(refs, data, strict=True)))
        return stored.event.content or types.Content()

    async def remove(self, key: UserKey, texts: Sequence[str]) -> None:
        """Remove the payloads of memories with these stored *texts*, to which nothing refers any more."""
        path = self._layout.head(key)
        places = {
            (place, memory.life)
            for memory, text in ((decode_memory(text), text) for text in texts)
            if memory.life is not None
            for place in {ref.place for ref in decode_content(text).missing.values()}
        }
        await fan_out(
            self._payloads.at(place).remove_all(self._layout.payloads(path, life))
            for place, life in sorted(places, key=lambda each: each[1])
        )
