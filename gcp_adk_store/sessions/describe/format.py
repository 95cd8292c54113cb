"""Read what listings show of a session document beside its header, and write titles and labels."""

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.segments import DESCRIPTION_FIELDS, SHOWN_FIELDS, description_fields
from gcp_adk_store.codec.stored import HEADER_WITHOUT_STATE, Count, DocumentFields, Number, read_fields
from gcp_adk_store.codec.writes import FORMAT, Document, Write, update
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.describe.decide import SessionInfo, SessionOrigin

INFO_FIELDS: Final = ("create_time", "origin", *SHOWN_FIELDS)
"""What :func:`read_info` needs beside the header."""

HEADER_OF_INFO: Final = (*HEADER_WITHOUT_STATE, *INFO_FIELDS)
"""What a read of one session's info asks for."""


class _Created(DocumentFields):
    formats = (FORMAT,)

    create_time: Number


class _Origin(DocumentFields):
    formats = (FORMAT,)

    app: str
    user: str
    session: str
    position: Count


class _Shown(_Created):
    title: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    last_text: str = ""
    origin: _Origin | None = None


def read_info(document: Document, stored: StoredSession) -> SessionInfo:
    """Return what *document*, which was read as *stored*, shows without its events.

    Raises:
        StoredDataError: the document lacks a field or is damaged.
    """
    fields = read_fields(_Shown, document)
    origin = None
    if (at := fields.origin) is not None:
        origin = SessionOrigin(app_name=at.app, user_id=at.user, session_id=at.session, position=at.position)
    return SessionInfo(
        app_name=stored.key.app,
        user_id=stored.key.user,
        session_id=stored.key.session,
        title=fields.title,
        labels=dict(sorted(fields.labels.items())),  # Firestore's maps have no order
        events=stored.revision,
        turns=None if stored.turns is None else stored.turns.count,
        create_time=fields.create_time,
        last_update_time=stored.last_update_time,
        last_text=fields.last_text or None,
        origin=origin,
        archived_events=stored.archived.events,
    )


def describe_write(
    layout: Layout, stored: StoredSession, title: str | None, labels: Mapping[str, str]
) -> Write:
    """Return the write that gives *stored* this title and these labels, in place of those it has."""
    fields = {"chain": stored.chain, **description_fields(title, labels)}
    path, absent = layout.session(stored.key), set(DESCRIPTION_FIELDS) - fields.keys()
    return update(path, fields, must=stored.update_time, without=sorted(absent), life=stored.epoch)
