"""What the session service refuses, an import refuses; no line of a stranger is more than a typed error."""

import gc
import io
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.parquet import read_table

from gcp_adk_store import InvalidInputError, SessionLimits, Store, StoredDataError
from gcp_adk_store.moving import copy, export_parquet, import_jsonl, records_of
from gcp_adk_store.testing.conformance.running import event
from tests.moving.hardest import APP, exported, fill, many
from tests.support.lengths import at_length
from tests.support.small_pieces import set_numbers
from tests.support.stored import change, collection, session_path

HEADER: dict[str, Any] = {
    "format": 1,
    "app_name": APP,
    "user_id": "ada",
    "session_id": "s1",
    "create_time": 1.0,
    "last_update_time": 1.0,
    "title": None,
    "labels": {},
    "state": {},
    "initial_state": None,
}
NO_EVENTS = sha256().hexdigest()
S1 = {"app_name": APP, "user_id": "ada", "session_id": "s1"}
REFUSED: list[tuple[str, Any, str]] = [
    ("create_time", float("nan"), "create_time is nan"),
    ("create_time", "yesterday", "create_time is of the type str"),
    ("create_time", True, "create_time is True"),
    ("create_time", 10**400, "create_time is 1000"),
    ("last_update_time", float("inf"), "last_update_time is inf"),
    ("last_update_time", float("nan"), "last_update_time is nan"),
    ("last_update_time", "1.5", "last_update_time is of the type str"),
    ("last_update_time", None, "last_update_time is of the type NoneType"),
    ("title", 7, "title must be a string, not int"),
    ("title", "x" * 1_000_000, "title has 1000000 characters, the limit is 256"),
    ("title", " ", "title is blank"),
    ("title", "a\nb", "title has a control character"),
    ("labels", {"a": 1}, "must be a string, not int"),
    ("labels", {"a": None}, "must be a string, not NoneType"),
    ("labels", {"": "a"}, "is not a label's"),
    ("labels", {f"l{number}": "v" for number in range(65)}, "65 labels, the limit is 64"),
    ("labels", {f"l{number}": "v" for number in range(1000)}, "1000 labels"),
    ("labels", ["a"], "labels must be a mapping"),
    ("labels", "", "labels must be a mapping"),
    ("session_id", "", "session_id is blank"),
    ("session_id", "  ", "session_id is blank"),
    ("session_id", 5, "session_id must be a string"),
    ("user_id", [1], "lacks a field"),
    ("user_id", None, "user_id must be a string"),
    ("app_name", {}, "app_name must be a string"),
    ("state", [], "lacks a field"),
    ("state", None, "lacks a field"),
    ("initial_state", [1], "initial must be a mapping"),
    ("initial_state", "x", "initial must be a mapping"),
    ("initial_state", [], "initial must be a mapping"),
    ("initial_state", 0, "initial must be a mapping"),
]


def lines_of(header: Any, *events: dict[str, Any]) -> bytes:
    """Return a file with one session, whose end fits its events as far as they are events."""
    found = [{"session": header}, *({"event": each} for each in events)]
    end = {"end": {"events": len(events), "digest": NO_EVENTS}}
    return b"".join(json.dumps(each).encode() + b"\n" for each in (*found, end))


async def refusal_of(data: bytes, service: BaseSessionService, **given: Any) -> str:
    """Return the error of an import."""
    with pytest.raises(InvalidInputError) as caught:
        await import_jsonl(io.BytesIO(data), service, **given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("header", "times", "line"),
    [(HEADER, [1.0, 1.0], 3), (HEADER, [1e300], 2), ({**HEADER, "state": {"\ud800": 1}}, [1.0], 1)],
    ids=["an id twice", "a time beyond all", "half of an emoji"],
)
async def test_what_a_database_of_adk_cannot_hold_is_refused_by_its_line(
    tmp_path: Path, header: dict[str, Any], times: list[float], line: int
) -> None:
    """Whatever its driver raises; nothing of the session stays."""
    events = [{"id": "e", "author": "user", "invocationId": "i", "timestamp": time} for time in times]
    async with DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path}/sessions.db") as service:
        found = await refusal_of(lines_of(header, *events), service)
        listed = await service.list_sessions(app_name=APP)

    assert found.startswith(f"line {line} is of a session that the target cannot hold: a ")
    assert [] == listed.sessions


@pytest.mark.parametrize("on_conflict", ["skip", "overwrite"])
async def test_an_event_that_the_service_would_refuse_is_refused_by_its_line(on_conflict: str) -> None:
    """With the reason of the service; the session is not made."""
    events = [event("a"), event("b", delta={"k": "x" * 5000}), event("c")]
    limits = SessionLimits(max_payload_bytes=4000, inline_bytes=1000, state_value_bytes=1000)
    async with Store.local(":memory:", session_limits=limits) as store:
        lines = lines_of(HEADER, *(each.model_dump(mode="json", exclude_none=True) for each in events))
        found = await refusal_of(lines, store.sessions, on_conflict=on_conflict)
        listed = await store.sessions.list_sessions(app_name=APP)

    assert found.startswith("line 3 is of a session that the target cannot hold: state key 'k' takes 5002")
    assert [] == listed.sessions


@pytest.mark.sample(12)
@pytest.mark.parametrize(("name", "value", "says"), REFUSED)
@pytest.mark.parametrize("place", ["own", "adk"])
async def test_a_header_that_the_service_would_refuse_is_refused(
    place: str, name: str, value: Any, says: str
) -> None:
    """By the line's number and the field; nothing is written, and listings of others go on."""
    async with Store.local(":memory:") as store:
        await fill(store.sessions, [("bob", "s1", many(2))])
        service = store.sessions if place == "own" else InMemorySessionService()
        found = await refusal_of(lines_of({**HEADER, name: value}), service)
        listed = await service.list_sessions(app_name=APP)
        page = await store.sessions.list_sessions_page(app_name=APP)

    assert found.startswith("line 1 ")
    assert says in found
    assert len(found) < 300
    assert (1 if place == "own" else 0) == len(listed.sessions)
    assert (1, []) == (len(page.infos), page.unreadable)


async def test_a_copy_refuses_them_by_the_same_check() -> None:
    """The session is reported, and the others are copied."""
    async with Store.local(":memory:") as store, Store.local(":memory:") as other:
        await fill(store.sessions, [("ada", f"s{number}", many(2)) for number in range(3)])
        await change(store, session_path(S1), {"title": "x" * 1000})
        report = await copy(store.sessions, other.sessions, app_name=APP, verify=True)

    assert (2, 2, False) == (report.copied, report.verified, report.is_complete)
    (note,) = [each for each in report.notes if each.kind == "failed"]
    assert ("s1", "title has 1000 characters, the limit is 256: shorten it") == (note.session_id, note.says)


@pytest.mark.parametrize("ids", [{"user_id": "\ud800"}, {"session_id": "\ud800"}])
async def test_an_id_that_no_store_has_ends_no_copy(ids: dict[str, str]) -> None:
    """ADK's service in memory takes half of an emoji; the session is reported, and the others are copied."""
    source = InMemorySessionService()
    for other in (dict[str, str](), ids):
        key: dict[str, Any] = {"app_name": APP, "user_id": "ada", "session_id": "s1", **other}
        await source.create_session(**key)
    async with Store.local(":memory:") as store:
        report = await copy(source, store.sessions, app_name=APP)

    assert (2, 1) == (report.listed, report.copied)
    assert ["failed"] == [note.kind for note in report.notes if "holds a lone surrogate" in note.says]


def deep(levels: int) -> bytes:
    """Return lists within lists."""
    return b"[" * levels + b"]" * levels


@pytest.fixture(scope="module")
def uncollected() -> Iterator[None]:
    """Keep what tests leave from here on: its end has no frame left in the depth of a recursion."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.sample(7)
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("levels", [250, 900, 990, 1_000, 100_000])
@pytest.mark.parametrize("where", ["line", "event", "state", "title", "delta", "initial_state", "end"])
async def test_a_line_that_nests_too_deep_is_refused(where: str, levels: int) -> None:
    """In each place of it, with the line's number."""
    head, value = json.dumps(HEADER).encode(), deep(levels)
    files: dict[str, bytes] = {
        "line": value + b"\n",
        "event": lines_of(HEADER).splitlines()[0] + b'\n{"event": ' + value + b"}\n",
        "delta": lines_of(HEADER).splitlines()[0]
        + b'\n{"event": {"author": "a", "timestamp": 1, "actions": {"state_delta": {"k": '
        + value
        + b"}}}}\n",
        "end": lines_of(HEADER).splitlines()[0] + b'\n{"end": ' + value + b"}\n",
        "state": b'{"session": '
        + head.replace(b'"state": {}', b'"state": {"user:k": ' + value + b"}")
        + b"}\n",
        "title": b'{"session": ' + head.replace(b'"title": null', b'"title": ' + value) + b"}\n",
        "initial_state": b'{"session": '
        + head.replace(b'"initial_state": null', b'"initial_state": {"k": ' + value + b"}")
        + b"}\n",
    }
    async with Store.local(":memory:") as store:
        found = await refusal_of(files[where], store.sessions)

        assert found.startswith(("line 1 ", "line 2 "))
        assert [] == (await store.sessions.list_sessions(app_name=APP)).sessions


async def test_a_line_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it is read."""
    set_numbers(monkeypatch, import_line_bytes=1000)
    data = lines_of({**HEADER, "state": {"k": "x" * 2000}})
    file = io.BytesIO(data)
    async with Store.local(":memory:") as store:
        with pytest.raises(InvalidInputError, match="line 1 has more than 1000 bytes, the limit of a line"):
            await import_jsonl(file, store.sessions)

    assert 1001 == file.tell()


async def test_an_unknown_answer_to_a_conflict_is_refused() -> None:
    """It was taken for a new id."""
    with pytest.raises(InvalidInputError, match="it must be 'skip', 'overwrite' or 'new-id'"):
        await import_jsonl(io.BytesIO(), InMemorySessionService(), on_conflict="Overwrite")  # type: ignore[arg-type]


async def test_a_damaged_session_ends_an_import_whatever_becomes_of_it() -> None:
    """Also if it would be left out; those before it are whole, with the state of their user."""
    told = event("a", delta={"user:k": 1})
    async with Store.local(":memory:") as store, Store.local(":memory:") as other:
        await fill(store.sessions, [("ada", "s1", [told]), ("ada", "s2", many(3))])
        data = (await exported(store)).replace(b"event 1", b"event X", 1)
        for service in (store.sessions, other.sessions):
            found = await refusal_of(data, service, on_conflict="skip")
            assert "line 8 has another digest" in found
        (session,) = (await other.sessions.list_sessions(app_name=APP)).sessions

    assert ("s1", 1) == (session.id, session.state["user:k"])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["app", "ada", "s1", "user:k", 10**400, "x" * 2000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=at_length(12, 600), derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(HEADER)),
    JSON,
    st.lists(st.dictionaries(st.text(max_size=9), JSON, max_size=3), max_size=2),
)
async def test_any_file_is_imported_or_refused(name: str, value: Any, events: list[dict[str, Any]]) -> None:
    """And what was imported is listed and read."""
    async with Store.local(":memory:") as store:
        try:
            await import_jsonl(io.BytesIO(lines_of({**HEADER, name: value}, *events)), store.sessions)
        except InvalidInputError:
            return
        async for each in records_of(store.sessions, value if name == "app_name" else APP):
            key = each.header.key
            page = await store.sessions.list_sessions_page(app_name=key.app, user_id=key.user)
            assert (1, []) == (len(page.infos), page.unreadable)
            assert [] == [one async for one in each.events]


@pytest.mark.parametrize(
    ("damaged", "says"),
    [
        ({"rev": "secret"}, "rev is str; look at it: gcp-adk-store fsck --app app"),
        ({"body": b"secret"}, "s1/adk_segments/.*-1"),
    ],
    ids=["the document", "a segment"],
)
async def test_exports_name_what_they_cannot_read_and_have_the_rest(
    tmp_path: Path, damaged: dict[str, Any], says: str
) -> None:
    """By default the first one is an error."""
    async with Store.local(":memory:", session_limits=SessionLimits(seal_tail_bytes=500)) as store:
        await fill(store.sessions, [("ada", f"s{number}", many(9)) for number in range(3)])
        segments = [path for path in await collection(store, "adk_segments") if "/s1/" in path]
        await change(store, segments[1] if "body" in damaged else session_path(S1), damaged)
        left_out: list[Any] = []
        out: Callable[..., Any] = left_out.append
        found = await export_parquet(
            records_of(store.sessions, APP, on_unreadable=out), tmp_path, on_event=lambda _: None
        )
        with pytest.raises(StoredDataError, match=says):
            await exported(store)

    assert (2, ["s1"]) == (found.sessions, [each.session_id for each in left_out])


async def test_numbers_out_of_range_do_not_end_a_parquet_export(tmp_path: Path) -> None:
    """Times, and counts of tokens: the column has none; the event as JSON has it."""
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=2**63)
    async with Store.local(":memory:") as store:
        odd = event("a", at=1e300).model_copy(update={"usage_metadata": usage})
        await fill(store.sessions, [("ada", "s1", [odd]), ("ada", "s2", many(1))])
        await export_parquet(records_of(store.sessions, APP), tmp_path, on_event=lambda _: None)
    rows = read_table(tmp_path / "events.parquet").to_pylist()

    assert [("s1", True), ("s2", False)] == [(row["session_id"], row["timestamp"] is None) for row in rows]
    assert (1e300, None) == (json.loads(rows[0]["event"])["timestamp"], rows[0]["input_tokens"])
