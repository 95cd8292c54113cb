"""Keys of stores that encrypt."""

from typing import Any, Final

from gcp_adk_store import KmsEnvelope, LocalKeyWrapper
from gcp_adk_store.testing.simulation import Process

OLD: Final = b"o" * 32
NEW: Final = b"n" * 32


def envelope_of(*keys: bytes, **options: Any) -> KmsEnvelope:
    """Return the encryption by *keys*, the newest first, with *options*."""
    return KmsEnvelope(key=LocalKeyWrapper(*keys), **options)


def of_process(process: Process, **options: Any) -> dict[str, Any]:
    """Return the encryption of one of a fleet; each of them often reads its data keys again."""
    keys = (OLD, NEW) if process.name.endswith("2") else (NEW, OLD)
    return {"encryption": envelope_of(*keys, cache_s=3.0, **options)}
