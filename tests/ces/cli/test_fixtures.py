"""The pytest plugin has a runtime of customer-engagement agents, and nothing of it where nobody asks."""

import subprocess
import sys
from pathlib import Path

import pytest

from gcp_adk_store import Store
from gcp_adk_store.ces import PythonRuntime

ROOT = Path(__file__).parents[3]


@pytest.mark.usefixtures("ces_environment")
async def test_the_runtime_runs_on_the_tests_store(adk_store: Store, ces_runtime: PythonRuntime) -> None:
    """In the loop of the test, with the test's own session."""
    await adk_store.sessions.create_session(app_name="a", user_id="u", session_id="s", state={"n": 1})
    ran = await ces_runtime.run_tool("def more() -> int:\n    context.state['n'] += 1\n", "more", {}, "a/u/s")
    found = await adk_store.sessions.get_session(app_name="a", user_id="u", session_id="s")

    assert ran.ok
    assert found is not None
    assert {"n": 2} == found.state


def test_the_plugin_brings_no_runtime_where_nobody_asks() -> None:
    """It is loaded by every pytest of the environment."""
    code = (
        "import sys, gcp_adk_store.testing.plugin; "
        "print([name for name in sys.modules if name.startswith('gcp_adk_store.ces')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert "[]\n" == done.stdout


@pytest.mark.long
def test_what_is_missing_fails_the_test_and_says_so(tmp_path: Path) -> None:
    """Once, instead of skipping it."""
    (tmp_path / "test_own.py").write_text(
        "def test_own(ces_sandbox):\n    pass\n\ndef test_emulator(firestore_emulator):\n    pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            "ADK_STORE_CES_ENVIRONMENT": str(tmp_path / "nowhere"),
            "ADK_STORE_FIRESTORE_EMULATOR_JAR": "no.jar",
            "PYTHONPATH": str(ROOT),
        },
    )

    assert 1 == done.returncode
    assert 1 == done.stdout.count("gcp-adk-store ces install")
    assert 1 == done.stdout.count("\nADK_STORE_FIRESTORE_EMULATOR_JAR names no.jar, which is not a file")
    assert "2 errors" in done.stdout
