"""Find the payloads that the parts of a document refer to."""

from collections.abc import Mapping, Sequence

from gcp_adk_store.codec.event_payloads import WHOLE, references
from gcp_adk_store.codec.events import unpack_text
from gcp_adk_store.codec.initial import unpack_initial
from gcp_adk_store.model.payloads import PayloadOwner, PayloadRef
from gcp_adk_store.sessions.completion import refs_in
from gcp_adk_store.sessions.payload_store import Payloads


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
