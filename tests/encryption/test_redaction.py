"""Redaction works on an encrypted store as on another one, and its reason is content."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import KmsEnvelope, Store
from gcp_adk_store.model.appends import digests_of
from gcp_adk_store.testing.conformance.running import read
from tests.encryption.conftest import LIMITS
from tests.erasure.conftest import said
from tests.erasure.test_redact import SECRET, WHO, numbered
from tests.support.traces import in_folder, traces

REASON = "here-reason-here"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store whose key lies in a file, with a session of several segments and a tail."""
    envelope = KmsEnvelope(key=tmp_path / "key")
    async with Store.local(tmp_path / "store", session_limits=LIMITS, encryption=envelope) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(9):
            delta = {"key": SECRET, "large": SECRET * 40, "user:key": SECRET} if number == 1 else {}
            text = SECRET if number in (1, 8) else ""
            data = SECRET.encode() * 20 if number == 1 else b""
            await store.sessions.append_event(session, numbered(number, text, data=data, delta=delta))
        yield store


async def test_a_reason_is_content(store: Store, tmp_path: Path) -> None:
    """Marker and audit event are encrypted as events are; a scan finds the reason only without encryption."""
    async with Store.local(tmp_path / "plain", session_limits=LIMITS) as plain:
        session = await plain.sessions.create_session(**WHO)
        await plain.sessions.append_event(session, numbered(1, SECRET))
        await plain.redact_event(**WHO, event_id="e1", reason=REASON)
    for event_id in ("e1", "e8"):
        await store.redact_event(**WHO, event_id=event_id, reason=REASON)
    found = await read(store.sessions, WHO)

    assert traces(in_folder(tmp_path / "plain"), REASON)
    assert [] == traces(in_folder(tmp_path / "store"), REASON)
    assert REASON == (found.events[1].custom_metadata or {})["adk_store_redacted"]["reason"]
    assert REASON == (found.events[-1].custom_metadata or {})["adk_store_redaction"]["reason"]


async def test_digests_are_of_texts_with_random_ids(store: Store) -> None:
    """They are clear: two sessions that say the same have no digest and no head in common."""
    texts = {}
    for name in ("one", "two"):
        session = await store.sessions.create_session(**{**WHO, "session_id": name})
        for text in ("hello", "world"):
            await store.sessions.append_event(session, said(text))
        stored = store.sessions.storage.as_stored
        assert stored is not None
        path = f"adk_apps/app/adk_users/user/adk_sessions/{name}"
        (clear,), (opened,) = await stored.get([path]), await store.sessions.storage.documents.get([path])
        assert clear is not None
        assert opened is not None
        tail: Any = opened.fields["tail"]
        assert digests_of(tail) == clear.fields["digests"]
        texts[name] = {*digests_of(tail), clear.fields["chain"]}

    assert 6 == len(texts["one"] | texts["two"])
