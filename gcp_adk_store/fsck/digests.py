"""Compare the digests of a document with its events."""

from collections.abc import Sequence

from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.fsck.faults import Fault, setting
from gcp_adk_store.model.history import fold
from gcp_adk_store.model.redactions import digests_of


def digest_faults(
    document: Document,
    texts: Sequence[str],
    found: Sequence[bytes] | None,
    *,
    begin: bytes,
    end: bytes,
) -> list[Fault]:
    """Return a fault if *found* are not the digests of *texts*, which the chain proves.

    They tell which event was changed where the chain proves that one was, so they stay as they are then.
    """
    if fold(begin, texts) != end:
        return []
    right = digests_of(texts)
    if found is not None and [*found] == right:
        return []
    in_segment = "body" in document.fields
    mended: FieldValue = b"".join(right) if in_segment else [*right]
    says = f"are not those of the {len(texts)} events"
    repair = (setting(document.path, document.update_time, {"digests": mended}),)
    return [Fault(code="FSCK117", path=document.path, item="digests", says=says, repair=repair)]
