"""Split the documents of a collection into parts of like numbers."""

import sqlite3
from typing import Final

from gcp_adk_store.local.names import path_of

_SMALL: Final = 8
"""Documents that are not worth a part of their own."""

_POINTS: Final = """
SELECT key FROM (
  SELECT key, row_number() OVER (ORDER BY key) AS number FROM documents WHERE collection = ?
) WHERE number > 1 AND number % ? = 1 ORDER BY key
"""


def split_points(sql: sqlite3.Connection, *, collection: str, most: int) -> list[str]:
    """Return the paths of the first documents of all parts but the first one, of which there are *most*."""
    ((count,),) = sql.execute("SELECT count(*) FROM documents WHERE collection = ?", (collection,)).fetchall()
    step = max(_SMALL, -(-count // (most + 1)))
    return [path_of(key) for (key,) in sql.execute(_POINTS, (collection, step)).fetchall()]
