"""Decide whether stored documents keep the invariants of docs/data-model.md, and what repairs them.

Pure: :mod:`gcp_adk_store.sessions.fsck.run` reads, and the command ``gcp-adk-store fsck`` shows.
"""
