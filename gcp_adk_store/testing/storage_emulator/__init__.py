"""Serve Cloud Storage's JSON API from memory, as strictly as production answers it.

Bytes, buckets and soft deletion come from ``gcp-storage-emulator``. Everything a writer
relies on to be safe (preconditions, generations, paging, exact names and bytes) is decided
here, because that package accepts the parameters and ignores them.
"""

from gcp_adk_store.testing.storage_emulator.server import StorageEmulator, running_emulator

__all__ = ["StorageEmulator", "running_emulator"]
