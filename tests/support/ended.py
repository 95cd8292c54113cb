"""Wait for the end of a process that need not be a child."""

import os
import select


def has_ended(number: int, *, within_s: float = 30) -> bool:
    """Return whether a process has ended, or ends within so many seconds."""
    try:
        handle = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)
