"""What leaves a store has the archived events of its sessions, too."""

import io
import json

from gcp_adk_store import Point, Store
from gcp_adk_store.moving import copy, export_jsonl, records_of
from tests.services.test_archives import SMALL, WHO, fill, ids, ids_of, read


async def test_exports_and_copies_have_archived_events() -> None:
    """In their order; the copy has nothing archived."""
    file = io.BytesIO()
    async with Store.local(":memory:", session_limits=SMALL) as store, Store.local(":memory:") as other:
        await fill(store)
        await store.sessions.archive_session(**WHO, before=Point.position(25))

        await export_jsonl(records_of(store.sessions, "app"), file, place={}, on_event=lambda _: None)
        report = await copy(store.sessions, other.sessions, app_name="app", verify=True)

        assert (1, 1, 0) == (report.copied, report.verified, report.wrong)
        assert ids(0) == ids_of(await read(other))
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert ids(0) == [line["event"]["id"] for line in lines if "event" in line]
