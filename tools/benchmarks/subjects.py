"""Name those who are measured."""

from typing import Final

OURS: Final = "gcp_adk_store"
SMALLER: Final = "gcp_adk_store where there is less"
ADKS: Final = "ADK's own"
SQLITE: Final = "ADK's SQLite"
DATABASE: Final = "ADK's SQL on SQLite"
IN_MEMORY: Final = "ADK's in memory"

RAW_COMMIT: Final = "one raw Commit"
FLOOR: Final = "the same requests and parsing, alone"
SAME_COMMIT: Final = "the same Commit, raw"
TWO_COMMITS: Final = "two raw Commits"
RAW_BATCH_GET: Final = "one raw BatchGet"
PARSING: Final = "pydantic parsing"
RAW_UPLOAD: Final = "one raw upload"
RAW_DOWNLOAD: Final = "one raw download"
SLEEPING: Final = "as many tasks that sleep"
