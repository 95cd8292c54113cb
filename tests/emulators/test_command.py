"""``gcp-adk-store emulators`` runs both by hand; what it prints leads Google's clients and ADK to them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE
from tests.support.lengths import at_length
from tests.support.ready_programs import ready_programs

AGENT: Final = """
from google.adk.agents import LlmAgent
root_agent = LlmAgent(name="support", model="gemini-2.5-flash")
"""


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """What the command prints for programs; it runs as long as they do, and ends with 0.

    In the short form, the Firestore emulator is one that runs already: test_launch.py starts it.
    """
    runs: dict[str, str] = at_length({FIRESTORE_VARIABLE: "127.0.0.1:8080"}, {})
    started = {FIRESTORE_VARIABLE, STORAGE_VARIABLE}
    environ = {name: value for name, value in os.environ.items() if name not in started} | runs
    emulators = [sys.executable, "-m", "gcp_adk_store.cli", "emulators", "--json", "--bucket", "my-bucket"]
    with subprocess.Popen(emulators, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert 0 == process.returncode


@pytest.mark.long
def test_the_exports_are_all_that_adk_needs_to_keep_evaluations(
    variables: dict[str, str], tmp_path: Path
) -> None:
    """``adk eval_set create`` puts a set into the emulator's bucket, with nothing else set."""
    agent = tmp_path / "agents/support"
    agent.mkdir(parents=True)
    (agent / "agent.py").write_text(AGENT)
    (agent / "__init__.py").write_text("from . import agent\n")
    create = ["adk", "eval_set", "create", str(agent), "greetings", "--eval_storage_uri", "gs://my-bucket"]
    environ = {**variables, "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    made = subprocess.run(
        [ready_programs() / "gcp-adk-store", *create],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == made.returncode, made.stderr
    client = Client(
        project="demo-adk-store",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": variables[STORAGE_VARIABLE]},
    )
    names = [blob.name for blob in client.list_blobs("my-bucket")]
    client.close()

    assert ["support/evals/eval_sets/greetings.evalset.json"] == names


def test_programs_get_the_variables_as_one_line(variables: dict[str, str]) -> None:
    """The same that a shell gets."""
    assert {
        FIRESTORE_VARIABLE: variables[FIRESTORE_VARIABLE],
        STORAGE_VARIABLE: variables[STORAGE_VARIABLE],
        "GOOGLE_CLOUD_PROJECT": "demo-adk-store",
        "ADK_STORE_PROJECT": "demo-adk-store",
        "ADK_STORE_DATABASE": "(default)",
        "ADK_STORE_BUCKET": "my-bucket",
        "ADK_STORE_PREFIX": "adk",
    } == variables


@pytest.mark.parametrize("options", [["--check", "--install"], ["--check", "--json"]])
def test_options_that_exclude_each_other_are_refused(options: list[str]) -> None:
    """Instead of one of them being ignored."""
    result = CliRunner().invoke(command, ["emulators", *options])

    assert 2 == result.exit_code
    assert "--check, --install and --json exclude each other" in result.stderr
