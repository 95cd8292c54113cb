"""The tables of a local store, and the number of their format."""

from typing import Final

APPLICATION_ID: Final = int.from_bytes(b"adkS")
"""Marks a SQLite file as a store."""

FORMAT: Final = 1
"""The format of the tables, SQLite's ``user_version``; a change of them takes the next number."""

_DOCUMENTS: Final = ("CREATE TABLE documents (path TEXT PRIMARY KEY, body BLOB NOT NULL)",)

TABLES: Final = (*_DOCUMENTS,)
"""The statements that create all tables, in one transaction."""
