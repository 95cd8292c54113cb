"""``gcp-adk-store adk`` reports a mistake of the URIs in one line, before anything is served."""

import asyncio
import itertools
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.adk.cli.service_registry import ServiceRegistry, get_service_registry

from gcp_adk_store.adk_server import missing_bucket
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.emulators import STORAGE_VARIABLE, Emulator, create_bucket
from tests.support.documents import ROOT
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

SERVERS = ("api_server", "web", "run")
ECHO = """
from google.adk.agents import BaseAgent
from google.adk.events import Event

class Echo(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=ctx.user_content)

root_agent = Echo(name="echo")
"""


@pytest.fixture(autouse=True)
def _alone(registry: ServiceRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of the test's own, and a folder of agents with one that repeats what the user says."""
    assert registry is get_service_registry()
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo/agent.py").write_text(ECHO)
    (tmp_path / ".adk").mkdir()
    (tmp_path / ".adk/config.json").write_text(json.dumps({"telemetry": False}))  # or it asks for it first
    monkeypatch.chdir(tmp_path)


def adk(*arguments: str) -> Result:
    """Run the command as far as it does not come to serve anything."""
    return CliRunner().invoke(command, ["adk", *arguments])


def adk_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Let the command run an agent, in a process of its own: ADK's changes the logs of all."""
    return ran(
        [ready_programs() / "gcp-adk-store", "adk", "run", *arguments, "echo", "hello"],
        env=os.environ | {"HOME": str(Path.cwd()), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
    )


def test_the_schemes_are_those_of_adk_and_of_this_store() -> None:
    """As ADK has them registered; an older ADK has fewer for memories."""
    own = {"session": {"firestore", "firestore+local"}, "artifact": {"gs+local"}, "memory": set[str]()}
    registry = get_service_registry()
    registered = {
        "session": {*registry._session_factories},
        "artifact": {*registry._artifact_factories},
        "memory": {*registry._memory_factories},
    }

    for kind, names in registered.items():
        refused = adk("run", f"--{kind}_service_uri=no-uri", "echo", "hello")
        known = {*re.findall(r"([a-z+]+)://", refused.output)}
        assert known - own[kind] == names | ({"sqlite"} if kind == "memory" else set())


@pytest.mark.parametrize(
    ("option", "uri", "scheme"),
    [
        ("--session_service_uri", "firestor://p/(default)", "firestor://; did you mean firestore://?"),
        ("--session_service_uri", "Fire-Store://p", "fire-store://; did you mean firestore://?"),
        ("--session_service_uri", "agentengin://1", "agentengin://; did you mean agentengine://?"),
        ("--session_service_uri", "postgres://host/db", "postgres://; did you mean postgresql://?"),
        ("--session_service_uri", "gs://my-bucket", "gs://; known schemes: agentengine://, firestore://, "),
        (
            "--session_service_uri",
            "firestore+locl:///p",
            "firestore+locl://; did you mean firestore+local://?",
        ),
        ("--session_service_uri", "Firestore+Sqlite:///p", "firestore+sqlite://; did you mean firestore"),
        ("--artifact_service_uri", "gs+locl:///p", "gs+locl://; did you mean gs+local://?"),
        ("--artifact_service_uri", "g://my-bucket", "g://; did you mean gs://?"),
        (
            "--artifact_service_uri",
            "firestore://p",
            "firestore://; known schemes: file://, gs://, ",
        ),
        ("--memory_service_uri", "memry://", "memry://; did you mean memory://?"),
    ],
)
def test_a_scheme_that_nobody_knows_is_one_line_with_the_right_one(
    option: str, uri: str, scheme: str
) -> None:
    """And no traceback about SQL databases; what it shows steers no terminal."""
    for server in SERVERS:
        run = adk(server, f"{option}={uri}", "echo")

        assert 2 == run.exit_code, server
        assert f"Error: {option}: unknown scheme {scheme}" in run.output
        assert 1 == len(run.output.splitlines())


def test_a_folder_has_no_bucket_to_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's start asks no cloud about it, and makes no folder."""
    monkeypatch.setenv(STORAGE_VARIABLE, "http://127.0.0.1:9")
    place = tmp_path / "store"
    uris = {"session_uri": f"firestore+local://{place}", "artifact_uri": f"GS+local://{place}"}

    assert asyncio.run(missing_bucket(**uris)) is None
    assert not place.exists()


def test_what_is_no_uri_is_one_line_too() -> None:
    """ADK's run would keep artifacts in memory; what the user gave is not shown: it may steer a terminal."""
    for uri in ("my-bucket", "/a/b", "x\x1b[2J\n://p", "://", "9x://y"):
        run = adk("run", f"--artifact_service_uri={uri}", "echo", "hello")

        assert 2 == run.exit_code, uri
        assert (
            "Error: --artifact_service_uri: the scheme is missing; known schemes: file://, gs://, "
            "gs+local://, memory://\n" == run.output
        )


def test_a_folder_that_is_not_an_absolute_path_is_reported() -> None:
    """Before anything is served; nothing is created."""
    for server, path in itertools.product(("api_server", "web"), ("store", "/")):
        run = adk(server, f"--session_service_uri=firestore+local://{path}", "echo")

        assert 2 == run.exit_code, run.output
        assert "must go on with an absolute path: firestore+local:///PATH" in run.output
        assert not Path("store").exists()


@pytest.mark.parametrize("name", ["services.yaml", "services.yml", "services.py"])
def test_schemes_of_the_agents_own_are_left_to_adk(name: str, tmp_path: Path) -> None:
    """Who has such a file may have registered any scheme in it."""
    (tmp_path / name).write_text("" if name.endswith("py") else "services: []\n")
    run = adk("api_server", "--session_service_uri=firestor://p", str(tmp_path))

    assert "unknown scheme" not in run.output
    assert "Invalid database URL format or argument 'firestor://p'" in str(run.exception)


@pytest.mark.parametrize("scheme", ["mssql", "Oracle", "mysql+pymysql"])
def test_sql_databases_are_left_to_adk(scheme: str) -> None:
    """It takes every scheme that SQLAlchemy knows, with or without a driver, and says what is missing."""
    run = adk("api_server", f"--session_service_uri={scheme}://host/db")

    assert "unknown scheme" not in run.output
    assert "database" in str(run.exception).lower(), run.exception


@pytest.mark.parametrize(
    "options",
    [
        ["--artifact_service_uri=gs://no-such-bucket?project=p"],
        ["--session_service_uri", "firestore://p/(default)?bucket=no-such-bucket"],
        [
            "--artifact_service_uri=gs://my-bucket",
            "--session_service_uri=firestore://p/(default)?bucket=no-such-bucket",
        ],
    ],
)
def test_a_missing_bucket_is_reported_before_anything_is_served(
    options: list[str], storage_emulator: Emulator
) -> None:
    """That of artifacts and that of payloads; with the command that makes it on the emulator."""
    create_bucket("my-bucket", storage_emulator.address)
    for server in SERVERS:
        run = adk(server, *options, "echo")

        assert 2 == run.exit_code, server
        (line,) = run.output.splitlines()
        assert "Error: gs://no-such-bucket does not exist; make it: curl " in line
        assert f"{storage_emulator.address}/storage/v1/b" in line


def test_the_bucket_is_there_after_the_command_that_makes_it(
    storage_emulator: Emulator, tmp_path: Path
) -> None:
    """As the line says, in a shell."""
    uri = "--artifact_service_uri=gs://made-by-command"
    shown = adk("run", uri, "echo").output.strip().partition("make it: ")[2]
    subprocess.run(["sh", "-c", shown], cwd=tmp_path, check=True, capture_output=True)  # noqa: S607  # the reader's
    run = adk_run(uri, "--session_service_uri=memory://")

    assert storage_emulator.address in shown
    assert 0 == run.returncode, run.stderr
    assert "Warning" not in run.stderr
    assert "[echo]: hello" in run.stdout


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def gone() -> str:
    """The address of a server that is there no more."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("network", "warning"),
    [
        ("silent", r"bucket 'b-1' on the emulator at .* did not answer \(.*"),
        ("gone", "nothing listens at .*; start `gcp-adk-store emulators`, or unset STORAGE_EMULATOR_HOST"),
    ],
)
def test_a_bucket_that_does_not_answer_is_a_warning_and_the_agent_runs(
    network: str, warning: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage while a server starts is reported, and ends nothing: sessions may be elsewhere."""
    monkeypatch.setenv(STORAGE_VARIABLE, request.getfixturevalue(network))
    run = adk_run("--artifact_service_uri=gs://b-1", "--session_service_uri=memory://")

    assert 0 == run.returncode, run.stderr
    assert re.search(rf"^Warning: {warning}; adk starts anyway$", run.stderr, re.MULTILINE)
    assert "[echo]: hello" in run.stdout
