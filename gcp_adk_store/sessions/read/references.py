"""Find the payloads that the parts of a document refer to."""

from collections.abc import Mapping, Sequence

from gcp_adk_store.codec.events import WHOLE, references, unpack_text
from gcp_adk_store.codec.memories import content_text, decode_memory
from gcp_adk_store.codec.memory_documents import MemoryLayout, read_memory_head, read_shard
from gcp_adk_store.codec.segments import unpack_initial
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.payloads import PayloadOwner, PayloadRef
from gcp_adk_store.sessions.read.completion import refs_in
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.sessions.read.storage import SessionStorage


async def in_initial(
    payloads: Payloads, owner: PayloadOwner, initial: Mapping[str, object] | PayloadRef | None
) -> set[PayloadRef]:
    """Return the references of an initial state, which may be a payload of *owner* itself.

    Raises:
        StoredDataError: that payload is missing or damaged.
    """
    if not isinstance(initial, PayloadRef):
        return refs_in(initial or {})
    data = await payloads.get(owner, initial)
    return {initial} | refs_in(unpack_initial(initial, data))


async def in_texts(payloads: Payloads, owner: PayloadOwner, texts: Sequence[str]) -> set[PayloadRef]:
    """Return the references of events, of which some may be payloads of *owner* as a whole.

    Raises:
        StoredDataError: such a payload is missing or damaged.
    """
    found: set[PayloadRef] = set()
    for text in texts:
        named = references(text)
        found |= set(named.values())
        whole = named.get(WHOLE)
        if whole is not None:
            data = await payloads.get(owner, whole)
            found |= set(references(unpack_text(whole, data)).values())
    return found


async def in_memories(storage: SessionStorage, owner: PayloadOwner) -> set[PayloadRef]:
    """Return the references of the memory of *owner*, an empty set if it is gone.

    Raises:
        StoredDataError: the user's memories, or the payload that a memory is as a whole, cannot be read.
    """
    layout = MemoryLayout(storage.layout)

    async def look() -> set[PayloadRef] | Changed:
        (document,) = await storage.documents.get([owner.path])
        if document is None:
            return set()
        head = read_memory_head(document)
        paths = [layout.shard(owner.path, head.epoch, shard.number) for shard in head.shards]
        documents = await storage.documents.get(paths) if paths else []
        texts = [text for found in documents if found is not None for text in read_shard(found).texts]
        texts = [text for text in (*texts, *head.tail) if decode_memory(text).life == owner.life]
        if texts or all(documents):
            return await in_texts(storage.payloads, owner, [content_text(text) for text in texts])
        (now,) = await storage.documents.get([owner.path], fields=("rev",))
        if now is not None and now.update_time == document.update_time:
            return set()  # the shards that are gone had ended
        return CHANGED

    return await read_whole(storage.documents.deadline_s, look)
