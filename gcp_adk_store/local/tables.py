"""The tables of a local store, and the number of their format."""

from typing import Final

APPLICATION_ID: Final = int.from_bytes(b"adkS")
"""Marks a SQLite file as a store."""

FORMAT: Final = 1
"""The format of the tables, SQLite's ``user_version``; a change of them takes the next number."""

_DOCUMENTS: Final = (
    # One row for each document. Its columns: local/names.py spells the keys, local/spelling.py the content.
    """CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        parent BLOB NOT NULL,
        collection TEXT NOT NULL,
        update_time INTEGER NOT NULL,
        expire_at INTEGER,
        fields TEXT NOT NULL,
        pieces TEXT,
        content BLOB
    )""",
    "CREATE INDEX documents_of_a_parent ON documents (parent, key)",
    "CREATE INDEX documents_of_a_collection ON documents (collection, key)",
    "CREATE INDEX documents_that_expire ON documents (expire_at) WHERE expire_at IS NOT NULL",
    # The time of the last commit in microseconds: the next one is later, whatever the machine's clock says.
    "CREATE TABLE commits (time INTEGER NOT NULL)",
    "INSERT INTO commits (time) VALUES (0)",
)

TABLES: Final = (*_DOCUMENTS,)
"""The statements that create all tables, in one transaction."""
