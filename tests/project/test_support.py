"""SUPPORT.md promises what CI tests and pyproject.toml declares."""

import re
import tomllib
from pathlib import Path

import yaml
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
