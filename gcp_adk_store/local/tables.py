"""The tables of a local store, and the number of their format."""

from typing import Final

APPLICATION_ID: Final = int.from_bytes(b"adkS")
"""Marks a SQLite file as a store."""

FORMAT: Final = 1
"""The format of the tables, SQLite's ``user_version``; a change of them takes the next number."""

_DOCUMENTS: Final = (
    # One row for each document. Its columns: local/names.py encodes the keys, local/encoding.py the content.
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
    # The time of the last commit in microseconds: the next one is later, even if the clock steps back.
    "CREATE TABLE commits (time INTEGER NOT NULL)",
    "INSERT INTO commits (time) VALUES (0)",
)

_OBJECTS: Final = (
    """
    CREATE TABLE objects (
      name BLOB PRIMARY KEY,         -- UTF-8, whose bytes order listings
      generation INTEGER NOT NULL,
      metageneration INTEGER NOT NULL,
      content TEXT NOT NULL,         -- the id of its bytes, which copies share
      size INTEGER NOT NULL,         -- bytes
      crc32c TEXT NOT NULL,          -- base64, as md5
      md5 TEXT NOT NULL,
      content_type TEXT NOT NULL,
      metadata TEXT NOT NULL,        -- JSON
      create_time INTEGER NOT NULL,  -- Unix time in microseconds, as the other times
      update_time INTEGER NOT NULL,
      custom_time INTEGER
    )
    """,
    "CREATE INDEX objects_content ON objects (content)",
    "CREATE INDEX objects_custom_time ON objects (custom_time) WHERE custom_time IS NOT NULL",
    "CREATE TABLE generations (last INTEGER NOT NULL)",
    "INSERT INTO generations VALUES (0)",
    # The bytes of objects where they are in memory.
    "CREATE TABLE pieces (content TEXT, start INTEGER, bytes BLOB NOT NULL, PRIMARY KEY (content, start))",
)

_SWEEPS: Final = (
    # When the last sweep began, as Unix time in seconds.
    "CREATE TABLE sweeps (time REAL NOT NULL)",
    "INSERT INTO sweeps VALUES (0)",
)

TABLES: Final = (*_DOCUMENTS, *_OBJECTS, *_SWEEPS)
"""The statements that create all tables, in one transaction."""
