"""A check finds what contradicts the format, nothing else, and repairs what has one right answer."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import FirestoreSessionService, InvalidInputError, Point, SessionLimits, Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.sessions.fsck.faults import CODES
from gcp_adk_store.testing.meters import FirestoreMeter
from gcp_adk_store.turns import Turns
from tests.fsck.corpus import CORPUS, SEALING, WHO, Stored, event
from tests.support.clock import in_days
from tests.support.documents import ROOT, blocks
from tests.support.lengths import at_length
from tests.support.peak_memory import Peak

HUSH = "hush"


async def session_of(stored: Stored) -> Any:
    """Return the session document."""
    (path,) = [
        path for path in await stored.documents() if path.endswith("shop/adk_users/ada/adk_sessions/s1")
    ]
    return (await stored.documents())[path]


async def change(stored: Stored, document: Any, **fields: Any) -> None:
    """Set fields of a document behind the store's back; ``...`` removes one."""
    kept = {name: value for name, value in {**document.fields, **fields}.items() if value is not ...}
    await stored.put(document.path, kept)


@pytest.mark.parametrize("name", CORPUS)
async def test_what_the_store_writes_has_no_fault(name: str) -> None:
    """Not even while a deletion is under way."""
    stored = await CORPUS[name]()

    assert [] == await stored.faults()


async def test_a_session_that_was_restored_before_its_first_seal_has_no_fault() -> None:
    """A restore takes the number of a segment; a session that ends has no part until its first seal."""
    stored = Stored.empty(SessionLimits())
    held = await stored.service.create_session(**WHO, ttl_seconds=3600)
    for number in range(3):
        await stored.service.append_event(held, event(number))
    await stored.service.restore_session(**WHO, at=Point.position(1))

    assert [] == await stored.faults()


async def test_a_message_that_waits_before_the_first_turn_has_no_fault() -> None:
    """Whoever lets it wait needs no turn."""
    stored = Stored.empty(SessionLimits())
    await stored.service.create_session(**WHO)
    message = types.Content(role="user", parts=[types.Part(text="wait")])
    waiting = await Turns(stored.service).enqueue(**WHO, new_message=message)

    assert [] == await stored.faults()
    assert (waiting,) == (await Turns(stored.service).status(**WHO)).waiting


async def test_halves_of_an_emoji_side_by_side_have_no_fault() -> None:
    """JSON text cannot hold them, so that the state has a payload; a wrong one is still found."""
    stored = Stored.empty(SessionLimits())
    held = await stored.service.create_session(**WHO)
    await stored.service.append_event(held, event(0, said="\ud83d\ude00 0"))
    before = await session_of(stored)
    await stored.service.append_event(held, event(1, said="\ud83d\ude00 1"))

    assert [] == await stored.faults()
    await change(stored, await session_of(stored), state=before.fields["state"])
    assert "FSCK106" in {fault.code for fault in await stored.faults()}


async def test_a_check_may_be_of_an_app_a_user_or_a_session() -> None:
    """It finds the faults below, and not those beside it."""
    stored = await CORPUS["sealed"]()
    await stored.service.create_session(app_name="shop", user_id="bob", session_id="s2")
    await stored.service.create_session(app_name="other", user_id="ada", session_id="s1")
    await change(stored, await session_of(stored), rev=99)

    async def found(**ids: str) -> list[str]:
        return [fault.code for fault in await stored.faults(**ids)]

    assert ["FSCK102"] == await found()
    assert ["FSCK102"] == await found(app_name="shop")
    assert ["FSCK102"] == await found(app_name="shop", user_id="ada")
    assert ["FSCK102"] == await found(**WHO)
    assert [] == await found(app_name="other")
    assert [] == await found(app_name="shop", user_id="bob")
    assert [] == await found(app_name="shop", user_id="bob", session_id="s2")
    with pytest.raises(InvalidInputError, match="with its user"):
        await found(app_name="shop", session_id="s1")


async def test_a_check_reports_how_far_it_is() -> None:
    """After each owner."""
    stored = await CORPUS["sealed"]()
    counts: list[tuple[int, int]] = []

    await stored.faults(on_progress=lambda checked: counts.append((checked.sessions, checked.events)))

    assert (1, 10) == counts[-1]


@pytest.mark.parametrize(
    ("code", "name", "changed"),
    [
        ("FSCK102", "sealed", {"rev": 40}),
        ("FSCK103", "tail", {"tail_bytes": 0}),
        ("FSCK104", "sealed", {"last_update_time": 5.0}),
        ("FSCK105", "sealed", {"sealed_max": 5.0}),
        ("FSCK105", "tail", {"sealed_max": 5.0}),
        ("FSCK106", "tail", {"state": {"kept": "a", "changed": 5}}),
        ("FSCK107", "sealed", {"chain_sealed": bytes(32)}),
        ("FSCK108", "chunks", {"spilled": ...}),
        ("FSCK113", "restored", {"label_set": ["team=y"]}),
        ("FSCK113", "restored", {"label_set": ...}),
        ("FSCK113", "tail", {"label_set": ["team=x"]}),
    ],
)
async def test_what_the_rest_proves_is_mended(code: str, name: str, changed: dict[str, Any]) -> None:
    """The document is then as it was, and the session can be read."""
    stored = await CORPUS[name]()
    before = await session_of(stored)
    await change(stored, before, **changed)
    faults = await stored.faults()
    assert code in {fault.code for fault in faults}

    assert faults == await stored.service.repair(faults)

    assert [] == await stored.faults()
    assert before.fields == (await session_of(stored)).fields
    assert await stored.service.get_session(**WHO)


@pytest.mark.parametrize(
    ("code", "part", "changed"),
    [
        ("FSCK203", "adk_segments", {"count": 9}),
        ("FSCK204", "adk_segments", {"running_max": 9.0}),
        ("FSCK208", "adk_segments", {"expire_at": ...}),
        ("FSCK208", "adk_chunks", {"expire_at": ...}),
    ],
)
async def test_parts_are_mended(code: str, part: str, changed: dict[str, Any]) -> None:
    """Of a session with a time to live."""
    stored = await CORPUS["expiring"]()
    document = next(each for path, each in (await stored.documents()).items() if f"s1/{part}" in path)
    await change(stored, document, **changed)
    faults = await stored.faults()
    assert [code] == [fault.code for fault in faults]

    await stored.service.repair(faults)

    assert [] == await stored.faults()


async def test_a_note_that_would_remove_a_living_session_goes() -> None:
    """Otherwise the next deletion or collector removes its segments."""
    stored = await CORPUS["sealed"]()
    session = await session_of(stored)
    epoch = session.fields["epoch"]
    await stored.put(f"{session.path}/adk_deletions/{epoch}", {"format": 1, "epoch": epoch, "sealed": 2})
    faults = await stored.faults()
    assert ["FSCK502"] == [fault.code for fault in faults]

    await stored.service.repair(faults)

    assert [] == await stored.faults()


async def test_a_writer_that_was_faster_wins_over_a_repair() -> None:
    """The repair changes nothing."""
    stored = await CORPUS["tail"]()
    await change(stored, await session_of(stored), rev=99)
    faults = await stored.faults()
    held = await stored.service.get_session(**WHO)
    assert held is not None
    await stored.service.append_event(held, event(7))
    before = await session_of(stored)

    assert [] == await stored.service.repair(faults)
    assert before == await session_of(stored) or before.fields == (await session_of(stored)).fields


async def test_nothing_is_mended_that_a_person_must_decide() -> None:
    """Events that the chain does not cover, and a value that only the initial state has."""
    stored = await CORPUS["tail"]()
    session = await session_of(stored)
    tail = [text.replace("hello", "other") for text in session.fields["tail"]]
    await change(stored, session, tail=tail, state={**session.fields["state"], "kept": "b"})

    faults = await stored.faults()

    assert {"FSCK106", "FSCK107", "FSCK112"} == {fault.code for fault in faults}
    assert all(not fault.repair for fault in faults)
    assert {"person"} == {fault.help.value for fault in faults}


async def test_what_is_found_after_a_day_is_left_to_the_collector() -> None:
    """Replaced values, and an interrupted deletion."""
    stored = await CORPUS["deleted"]()
    with in_days(2):
        faults = await stored.faults()

    assert {"FSCK305", "FSCK503"} >= {fault.code for fault in faults} > set()
    assert {"gc"} == {fault.help.value for fault in faults}


async def test_no_finding_has_content() -> None:
    """Of damaged texts, values and keys' values."""
    stored = Stored.empty(SEALING)
    held = await stored.service.create_session(**WHO, state={"kept": HUSH})
    for number in range(8):
        await stored.service.append_event(held, event(number, HUSH, changed=HUSH * number))
    session = await session_of(stored)
    for name in session.fields:
        for value in at_length(
            (HUSH, {"k": {HUSH: HUSH}}), (HUSH, [HUSH], {"k": {HUSH: HUSH}}, {"k": {"json": HUSH}})
        ):
            await change(stored, session, **{name: value})
            faults = await stored.faults()
            assert all(HUSH not in fault.says for fault in faults), faults
    await change(stored, session, tail=[f"{HUSH}{{"], state={"kept": HUSH * 2, "more": HUSH})
    assert all(HUSH not in repr(fault.says) + fault.item for fault in await stored.faults())


async def test_numbers_that_no_session_has_take_little_memory() -> None:
    """A document of some bytes may say that millions of segments were cut off."""
    stored = await CORPUS["restored"]()
    many = 3_000_000
    await change(stored, await session_of(stored), sealed=many, rev=many, cut=[{"from": 0, "to": many}])
    with Peak() as peak:
        faults = await stored.faults()

    assert ["FSCK101"] == [fault.code for fault in faults]
    assert peak.bytes < 20_000_000


@pytest.mark.emulators
async def test_the_reads_of_a_check_are_counted(project: str, meter: FirestoreMeter) -> None:
    """As docs/fsck.md says: a session, twice its segments, its chunks, its app and user; empty queries."""
    limits = SessionLimits(seal_tail_bytes=700, segment_cache_bytes=0, state_value_bytes=40)
    async with FirestoreSessionService(project=project, limits=limits) as service:
        held = await service.create_session(**WHO, state={"large": "x" * 50, "user:a": 1, "app:a": 1})
        for number in range(9):
            await service.append_event(held, event(number))
        documents = service._storage.documents  # what its own methods do not return
        segments = await documents.query("", "adk_segments", all_descendants=True, fields=("count",))
        meter.take()

        assert [] == [fault async for fault in service.check()]

        empty = 3  # neither a note of a deletion nor one of a restore, nor memories
        assert 3 + 2 * len(segments) + 1 + empty == meter.take().reads
        assert [] == [fault async for fault in service.check(full=True)]
        assert 3 + 2 * len(segments) + 2 + empty == meter.take().reads


def test_the_page_lists_each_code() -> None:
    """With its invariant and who repairs it, as the code has them."""
    page = (ROOT / "docs/fsck.md").read_text()

    assert [(code, of.invariant, of.help.value) for code, of in CODES.items()] == re.findall(
        r"^\| (FSCK[0-9]{3}) \| (.+) \| (\w+) \|$", page, re.MULTILINE
    )


async def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder with a fault, which it prints and repairs."""
    monkeypatch.chdir(tmp_path)
    await _damage(tmp_path / "agent-data")
    (code,) = blocks("docs/fsck.md", "python")
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  # the page's own

    await names["check"]()

    assert "FSCK102" in capsys.readouterr().out
    async with Store.local(tmp_path / "agent-data") as store:
        assert [] == [fault async for fault in store.check()]


async def _damage(folder: Path) -> None:
    stored = Stored.empty(SEALING, path=str(folder), bucket=True)
    held = await stored.service.create_session(**WHO)
    last: Event | None = None
    for number in range(4):
        last = await stored.service.append_event(held, event(number, changed=number))
    assert last is not None
    await change(stored, await session_of(stored), rev=9)
    await stored.storage.close()


def test_the_command_finds_and_mends(tmp_path: Path) -> None:
    """It ends with 1 while a fault remains, says what it would do, and repairs it."""
    asyncio.run(_damage(tmp_path))
    runner = CliRunner()

    def run(*options: str) -> tuple[int, str]:
        result = runner.invoke(command, ["fsck", "--local", str(tmp_path), *options])
        return result.exit_code, result.stdout

    status, text = run()
    assert 1 == status
    assert "FSCK102" in text
    assert "--repair" in text
    (_, alone), (_, together) = run("--dry-run"), run("--dry-run", "--repair")
    assert (True, False) == (f"fsck --local {tmp_path} --repair" in alone, "without --dry-run" in alone)
    assert (False, True) == ("repair them:" in together, "without --dry-run" in together)
    status, text = run("--json", "--repair", "--dry-run")
    (fault,) = json.loads(text)["faults"]
    assert (1, "FSCK102", "would be repaired") == (status, fault["code"], fault["outcome"])
    status, text = run("--repair")
    assert 0 == status
    assert "1 repaired" in text
    status, text = run("--full")
    assert 0 == status
    assert "no fault in 1 sessions" in text
