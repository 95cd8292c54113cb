"""What README says of the services that ADK has is what they are, in the release that is installed."""

import re

from google.adk.integrations.firestore import FirestoreSessionService
from google.adk.integrations.mongodb import MongoDbSessionService
from google.adk.integrations.redis import RedisSessionService, RedisSessionServiceConfig
from google.adk.sessions import DatabaseSessionService, VertexAiSessionService, database_session_service
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.version import __version__

from tests.support.documents import ROOT


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
