"""Sessions in format 1 become those of format 2, and nothing else of them changes."""

from collections import Counter

import pytest

from gcp_adk_store.bulk.reencoding import reencode
from gcp_adk_store.codec.writes import EVERY_NAME, Write
from tests.fsck.corpus import WHO, Stored, event, format_1, sealed


async def reencoded(stored: Stored, *, dry_run: bool = False) -> tuple[list[str], Counter[str], int]:
    """Return the ids of the sessions that changed, the counts, and how many could not be read."""
    counts: Counter[str] = Counter()
    unreadable: list[Exception] = []
    found = [
        key.session
        async for key in reencode(
            stored.storage,
            WHO["app_name"],
            EVERY_NAME,
            dry_run=dry_run,
            count=lambda name, number: counts.update({name: number}),
            on_unreadable=unreadable.append,
        )
    ]
    return found, counts, len(unreadable)


async def test_a_session_in_format_1_is_brought_up_as_an_append_does_it() -> None:
    """Events and state stay; the chain begins after them; a second run changes nothing."""
    stored = await format_1()
    before = await stored.other().get_session(**WHO)
    tried = await reencoded(stored, dry_run=True)
    first, second = await reencoded(stored), await reencoded(stored)
    after = await stored.other().get_session(**WHO)
    proof = await stored.other().verify_session(**WHO)
    faults = [fault async for fault in stored.other().check(full=True)]

    assert (["s1"], {"sessions": 1}, 0) == tried == first
    assert ([], {"sessions": 1}, 0) == second
    assert before is not None
    assert after is not None
    assert (before.events, before.state) == (after.events, after.state)
    assert (None, proof.events) == (proof.broken, proof.unchained)
    assert [] == faults


async def test_a_handle_from_before_goes_on() -> None:
    """Its next append finds another document, and no other event."""
    stored = await format_1()
    held = await stored.service.get_session(**WHO)
    assert held is not None
    await reencoded(stored)
    await stored.service.append_event(held, event(99))
    proof = await stored.other().verify_session(**WHO)

    assert (None, 1) == (proof.broken, proof.events - proof.unchained)


async def test_sessions_in_format_2_are_not_written() -> None:
    """They keep their update times."""
    stored = await sealed()
    before = {path: each.update_time for path, each in (await stored.documents()).items()}

    assert ([], {"sessions": 1}, 0) == await reencoded(stored)
    assert before == {path: each.update_time for path, each in (await stored.documents()).items()}


async def test_a_session_that_others_write_meanwhile_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted, and a later run finds it."""
    stored = await format_1()
    documents = stored.storage.documents
    commit = documents.commit

    async def late(writes: list[Write], **given: bool) -> object:
        monkeypatch.setattr(documents, "commit", commit)
        held = await stored.other().get_session(**WHO)
        assert held is not None
        await stored.other().append_event(held, event(99))
        return await commit(writes, **given)

    monkeypatch.setattr(documents, "commit", late)

    assert ([], {"sessions": 1, "in_use": 1}, 0) == await reencoded(stored)
    assert ([], {"sessions": 1}, 0) == await reencoded(stored)


async def test_a_damaged_session_is_told_and_left() -> None:
    """Others are brought up."""
    stored = await format_1()
    await stored.service.create_session(**{**WHO, "session_id": "s0"})
    (path,) = [path for path in await stored.documents() if path.endswith("/s0")]
    await stored.put(path, {"format": 99})

    assert (["s1"], {"sessions": 1}, 1) == await reencoded(stored)
