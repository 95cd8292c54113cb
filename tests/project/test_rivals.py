"""What README says of the services that ADK has is what they are, in the release that is installed."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.integrations.firestore import FirestoreSessionService
from google.adk.integrations.mongodb import MongoDbMemoryService, MongoDbSessionService, MongoDbToolset
from google.adk.integrations.redis import RedisSessionService, RedisSessionServiceConfig
from google.adk.sessions import DatabaseSessionService, VertexAiSessionService, database_session_service
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.version import __version__
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.base_query import FieldFilter
from google.genai import types

from tests.support.documents import ROOT

ADA: dict[str, Any] = {"app_name": "support", "user_id": "ada"}
SAID = Event(author="user", content=types.UserContent("hello"))


def claims() -> dict[str, str]:
    """Return what README says of each service."""
    text = (ROOT / "README.md").read_text()
    (release, table) = re.findall(r"\| ADK ([\d.]+)'s service \|.*\n\|.*\n((?:\|.*\n)+)", text)[0]
    assert __version__.startswith(f"{release}.")
    return dict(re.findall(r"^\| (.*?) \| (.*) \|$", table, re.MULTILINE))


def test_every_service_of_adk_that_keeps_sessions_is_named() -> None:
    """But for the one in memory, which keeps them for a process."""
    services = (
        FirestoreSessionService,
        SqliteSessionService,
        DatabaseSessionService,
        VertexAiSessionService,
        RedisSessionService,
        MongoDbSessionService,
    )
    named = [re.sub(r"\W", "", name.partition(",")[0].partition("(")[0]).lower() for name in claims()]

    assert [each.__name__.lower().removesuffix("sessionservice") for each in services] == named


async def test_an_event_of_adks_firestore_service_is_a_map_that_can_be_queried(project: str) -> None:
    """By a field within it."""
    service = FirestoreSessionService(client=AsyncClient(project=project))
    await service.append_event(await service.create_session(**ADA), SAID)
    async for stored in AsyncClient(project=project).collection_group("events").stream():
        events = stored.reference.parent
    of_user = events.where(filter=FieldFilter("event_data.author", "==", "user"))

    assert "maps of Firestore that other programs can query" in claims()["Firestore, Cloud Storage"]
    assert [SAID.id] == [each.get("event_data.id") async for each in of_user.stream()]


@pytest.mark.parametrize("kind", ["SQLite", "Database"])
async def test_the_tables_of_adks_sql_services_are_read_with_sql(tmp_path: Path, kind: str) -> None:
    """As README says."""
    path = tmp_path / "sessions.db"
    service: Any = (
        SqliteSessionService(db_path=str(path))
        if kind == "SQLite"
        else DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    )
    await service.append_event(await service.create_session(**ADA), SAID)
    with sqlite3.connect(path) as opened:
        found = opened.execute("SELECT user_id, invocation_id FROM events").fetchall()
    opened.close()
    await service.close()

    assert "SQL" in claims()[kind]
    assert [("ada", SAID.invocation_id)] == found


def test_adks_services_reach_the_databases_that_readme_names() -> None:
    """By drivers of SQLAlchemy, and Agent Engine."""
    named = re.findall(r"such as (\w+) or (\w+)", claims()["Database"])[0]

    assert {name.lower() for name in named} <= database_session_service._ASYNC_DRIVER_BY_BACKEND.keys()
    assert "Agent Engine keeps the sessions" in claims()["Vertex AI"]
    assert "Agent Engine Session Service" in (VertexAiSessionService.__doc__ or "")


def test_sessions_in_redis_expire_after_the_days_that_readme_says() -> None:
    """If nothing else is said."""
    (days,) = re.findall(r"after (\d+) days", claims()["Redis"])

    assert int(days) * 24 * 3600 == RedisSessionServiceConfig().ttl_seconds


def test_adks_service_on_mongodb_is_experimental_and_has_a_search_by_vectors_beside_it() -> None:
    """It says so itself."""
    assert "MongoDB (experimental)" in claims()
    with (
        pytest.warns(UserWarning, match="EXPERIMENTAL"),
        pytest.raises(ValueError, match="connection_string"),
    ):
        MongoDbSessionService(database_name="sessions")
    assert "vector search" in (MongoDbToolset.__doc__ or "")
    assert MongoDbMemoryService.__doc__
