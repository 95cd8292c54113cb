"""SUPPORT.md promises what CI tests and pyproject.toml declares.

What README says of the services that ADK has is what they are, in the release that is installed.
"""

import re
import tomllib
from pathlib import Path

import yaml
from google.adk.integrations.firestore import FirestoreSessionService
from google.adk.integrations.mongodb import MongoDbSessionService
from google.adk.integrations.redis import RedisSessionService, RedisSessionServiceConfig
from google.adk.sessions import DatabaseSessionService, VertexAiSessionService, database_session_service
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.version import __version__
from packaging.requirements import Requirement

import gcp_adk_store
from gcp_adk_store import Store
from tests.support.documents import ROOT
from tests.support.stored import collection
from tools.setup.environments import OLDEST

SUPPORT = (ROOT / "SUPPORT.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirement(listed: list[str], name: str) -> Requirement:
    """Return the requirement of a package."""
    (found,) = (each for each in map(Requirement, listed) if each.name == name)
    return found


def test_every_supported_python_is_declared_and_tested() -> None:
    """Nothing more, and the oldest one is what pip requires."""
    promised = re.findall(r"^\| (3\.\d+) \| yes ", SUPPORT, re.MULTILINE)
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]

    assert promised == declared
    assert promised == matrix["python"]
    assert f">={promised[0]}" == PROJECT["requires-python"]


def test_the_versions_of_adk_are_those_of_the_tests() -> None:
    """The oldest one is that of pip and of `make test-oldest`; the other is that of `make test`."""
    table = SUPPORT[SUPPORT.index("## Versions of ADK") : SUPPORT.index("## Versions of this package")]
    oldest, newest, excluded = re.findall(r"^\| \S[^|]* \| (\d[\d.]*)", table, re.MULTILINE)
    pinned = requirement(PROJECT["optional-dependencies"]["dev"], "google-adk")
    accepted = requirement(PROJECT["dependencies"], "google-adk").specifier

    assert f"=={newest}" == str(pinned.specifier)
    assert (f"google-adk=={oldest}",) == OLDEST.installs[-1]
    assert [True, True, False] == [accepted.contains(each) for each in (oldest, newest, f"{excluded}.0")]
    assert not accepted.contains("2.7.99")


async def test_every_format_has_golden_files_and_a_line() -> None:
    """Those that are written are the highest."""
    lines = re.findall(r"^\| (\d+) \| ([^|]+) \| every release \|$", SUPPORT, re.MULTILINE)
    golden = {int(path.name.rpartition("_")[2]) for path in (ROOT / "tests/golden").glob("format_*")}

    async with Store.local(":memory:") as store:
        await store.sessions.create_session(app_name="a", user_id="u", session_id="s", state={"app:x": 1})
        written = {
            fields["format"]: name
            for name in ("adk_apps", "adk_sessions")
            for fields in (await collection(store, name)).values()
        }

    assert golden == {int(number) for number, _ in lines}
    assert written.keys() == golden
    assert "adk_sessions" == written[max(golden)]
    assert "sessions and segments" in dict(lines)[str(max(golden))]


def test_every_public_name_is_shown_to_type_checkers() -> None:
    """What users annotate and call has a line that mypy reads as a user's program."""
    shown = "".join(path.read_text() for path in (Path(__file__).parents[1] / "typing").glob("*.py"))

    assert [] == [name for name in gcp_adk_store.__all__ if not re.search(rf"\b{name}\b", shown)]


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
