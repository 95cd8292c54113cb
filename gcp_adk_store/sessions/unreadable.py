"""Name sessions that cannot be read, beside those that can."""

import logging
from collections.abc import Sequence
from typing import Final

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.values import FieldValue, Foreign
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.model.session_info import UnreadableSession

logger = logging.getLogger(__name__)

BY_UPDATE: Final = "last_update_time"
"""The field that pages are ordered by."""

_NAMED: Final = 10
"""As many sessions as one record of the log names."""


def unreadable(layout: Layout, app: str, path: str, exc: StoredDataError) -> UnreadableSession:
    """Return what a listing of *app* says of the session whose document at *path* cannot be read."""
    try:
        key = layout.session_at(path)
    except StoredDataError:
        key = None
    return UnreadableSession(
        path=path,
        app_name=app,
        user_id=None if key is None else key.user,
        session_id=None if key is None else key.session,
        reason=str(exc),
    )


def place_by_update(document: Document) -> tuple[FieldValue, str]:
    """Return the place of a session, which may be damaged, in the order of last updates.

    Raises:
        StoredDataError: the field is of a kind that no query can begin with.
    """
    value = document.fields[BY_UPDATE]
    if isinstance(value, Foreign):
        raise StoredDataError(f"{document.path} has a field of a wrong kind: {BY_UPDATE} is {value.kind}")
    return value, document.path


def warn_of(left_out: Sequence[UnreadableSession]) -> None:
    """Log sessions that a caller does not get, because its answer has no place for them."""
    if not left_out:
        return
    named = "; ".join(f"{one.reason} (look at it: {one.command})" for one in left_out[:_NAMED])
    more = f"; and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    logger.warning(
        "%d sessions cannot be read, and are left out: %s%s",
        len(left_out),
        named,
        more,
        extra=telemetry.log_fields(),
    )
