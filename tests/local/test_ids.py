"""Halves of surrogate pairs, which are no id anywhere, and members of enumerations, which are their texts."""

import inspect
from enum import Enum
from typing import Any

import pytest
from google.adk.agents import BaseAgent
from google.adk.runners import Runner

from gcp_adk_store import InvalidInputError, Store
from gcp_adk_store.testing.conformance.running import text
from tests.support.methods import GOOD, arguments, finished, public_methods, services_of

HALVES = ["\ud800", "a\udfff", "\ude00\ud83d"]


@pytest.mark.parametrize("half", HALVES, ids=ascii)
async def test_half_of_a_surrogate_pair_is_no_id_for_any_method(half: str) -> None:
    """Of any service, as any id but that of an event, which may be any text; nothing was read or written."""
    reason = r"holds a lone surrogate at index \d+, which Unicode text cannot hold"
    async with Store.local(":memory:") as store:
        runner = Runner(app_name="app", agent=BaseAgent(name="a"), session_service=store.sessions)
        methods = [
            (method, name)
            for service in services_of(store).values()
            for method in public_methods(service)
            for name in inspect.signature(method).parameters
            if (name.endswith("_id") and name != "event_id") or name in ("app_name", "filename", "owner")
        ]
        for method, name in methods:
            with pytest.raises(InvalidInputError, match=reason):
                await finished(method, arguments(method, {**GOOD, "runner": runner}, **{name: half}))
        assert len(methods) > 100


class Word(str, Enum):  # noqa: UP042  # a StrEnum is formatted by its text
    """Texts that Python formats by their names, such as `Word.APP`."""

    APP = "app"
    NAME = "kind"
    VALUE = "call"
    FILE = "report"


async def test_a_member_of_an_enumeration_is_its_text_as_an_id_and_in_labels() -> None:
    """What is stored under it is found under the text."""
    who: dict[str, Any] = {"app_name": "app", "user_id": "kind", "session_id": "call"}
    ids: dict[str, Any] = {"app_name": Word.APP, "user_id": Word.NAME, "session_id": Word.VALUE}
    async with Store.local(":memory:") as store:
        await store.sessions.create_session(**ids)
        await store.sessions.update_session_info(**ids, title=Word.NAME, labels={Word.NAME: Word.VALUE})
        await store.artifacts.save_artifact(**ids, filename=Word.FILE, artifact=text("words"))
        page = await store.sessions.list_sessions_page(app_name="app", labels={"kind": "call"})
        same = await store.sessions.list_sessions_page(app_name=Word.APP, labels={Word.NAME: Word.VALUE})
        faults = [fault async for fault in store.check()]

        assert ["report"] == await store.artifacts.list_artifact_keys(**who)
        assert [("kind", {"kind": "call"})] == [(info.title, info.labels) for info in page.infos]
        assert page == same
    assert [] == faults
