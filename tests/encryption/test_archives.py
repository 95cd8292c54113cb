"""Archived events of an encrypted store are encrypted in the bucket."""

from pathlib import Path

from gcp_adk_store import KmsEnvelope, Point, Store
from tests.services.test_archives import SMALL, WHO, faults, fill, ids, ids_of, read


async def test_no_file_has_an_archived_event(tmp_path: Path) -> None:
    """It is read, proven and redacted as in any other store."""
    folder, key = tmp_path / "store", tmp_path / "key"
    async with Store.local(folder, encryption=KmsEnvelope(key=key), session_limits=SMALL) as store:
        await fill(store)
        found = await store.sessions.archive_session(**WHO, before=Point.position(25))

        assert found.segments
        assert [] == [path for path in folder.rglob("*") if path.is_file() and b"word3" in path.read_bytes()]
        assert ids(25) == ids_of(await read(store))
        assert ids(0) == [each.event.id async for each in store.sessions.iter_events(**WHO)]
        assert (await store.redact_event(**WHO, event_id="e3", reason="asked for")).is_new
        assert (await store.verify_session(**WHO)).broken is None
        assert [] == await faults(store)
