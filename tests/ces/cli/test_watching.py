"""``gcp-adk-store ces test --watch`` runs again what a saved file concerns."""

import os
import signal
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from gcp_adk_store.ces import read_app
from gcp_adk_store.ces.testing.concerns import callback_tests_of, tool_tests_of
from gcp_adk_store.cli.ces.check import again_and_again, saved_files
from gcp_adk_store.cli.command import command
from gcp_adk_store.cli.failures import CannotLookError

TOOL = 'def {name}(number: int) -> dict:\n    """Do it."""\n    return {{"found": {does}}}\n'
TESTS = """tests:
  - {{name: {tool} works, tool: {tool}, args: {{number: 1}},
     expectations: {{response: [{{path: $.result.found, operator: equals, value: 1}}]}}}}
"""
CALLBACK = "def before_agent_callback(callback_context: CallbackContext) -> None:\n    {does}\n"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app in which ``outer`` calls ``inner``, one callback calls ``outer``, and one computes names."""
    callbacks = "agents/root/before_agent_callbacks"
    for name, content in {
        "app.json": "{}",
        "tools/inner.py": TOOL.format(name="inner", does="number"),
        "tools/outer.py": TOOL.format(
            name="outer", does="tools.inner({'number': number}).json()['result']['found']"
        ),
        "tools/alone.py": TOOL.format(name="alone", does="2"),
        **{f"tool_tests/{name}.yaml": TESTS.format(tool=name) for name in ("inner", "outer", "alone")},
        f"{callbacks}/calls/python_code.py": CALLBACK.format(does="async_tools.outer({})()"),
        f"{callbacks}/calls/test.py": "",
        f"{callbacks}/computes/python_code.py": CALLBACK.format(does="getattr(tools, 'in' + 'ner')({})"),
        f"{callbacks}/computes/test_it.py": "",
        f"{callbacks}/quiet/python_code.py": CALLBACK.format(does="pass"),
        f"{callbacks}/quiet/helper.py": "",
        "evals/callback_tests/tests/root/before_agent_callbacks/quiet/test.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


ALL = {"inner", "outer", "alone", "calls", "computes", "quiet"}


@pytest.mark.parametrize(
    ("saved", "again"),
    [
        ("tools/inner.py", {"inner", "outer", "calls", "computes"}),
        ("tools/outer.py", {"outer", "calls", "computes"}),
        ("tools/alone.py", {"alone", "computes"}),
        ("tool_tests/alone.yaml", {"alone"}),
        ("agents/root/before_agent_callbacks/calls/python_code.py", {"calls"}),
        ("agents/root/before_agent_callbacks/computes/test_it.py", {"computes"}),
        ("agents/root/before_agent_callbacks/quiet/python_code.py", {"quiet"}),
        ("evals/callback_tests/tests/root/before_agent_callbacks/quiet/test.py", {"quiet"}),
        ("agents/root/before_agent_callbacks/quiet/helper.py", ALL),
        ("app.json", ALL),
        ("tools/removed.py", ALL),
        ("tool_tests/removed.yaml", set()),
    ],
)
def test_a_saved_file_concerns_its_own_tests_and_those_of_callers(
    app: Path, saved: str, again: set[str]
) -> None:
    """Of callers of callers too; a file that all may read concerns all."""
    read, paths = read_app(app), [app / saved]
    found = tool_tests_of(read, sorted((app / "tool_tests").iterdir()), paths)
    names = {path.stem for path in found}
    names |= {path.parent.name for path in callback_tests_of(read, sorted(app.rglob("test*.py")), paths)}

    assert again == names


def test_saved_files_are_told_together_and_reports_are_not(tmp_path: Path) -> None:
    """However an editor writes them; also those that were saved before somebody waited."""
    with saved_files(tmp_path) as saved:
        (tmp_path / "report.xml").write_text("a")
        (tmp_path / "new").mkdir()
        (tmp_path / "app.json").write_text("{}")
        (tmp_path / ".half.py.tmp").write_text("x = 1")
        (tmp_path / ".half.py.tmp").rename(tmp_path / "half.py")

        assert {tmp_path / "app.json", tmp_path / "half.py"} == saved()


def test_a_folder_that_cannot_be_watched_is_named(tmp_path: Path) -> None:
    """With what the system says."""
    with pytest.raises(CannotLookError, match=r"gone cannot be watched"), saved_files(tmp_path / "gone"):
        pass


def test_what_cannot_run_is_said_and_the_next_save_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends it with the status of the last run."""
    seen: list[frozenset[Path] | None] = []
    saves = [frozenset({Path("a")}), frozenset({Path("b")})]

    def once(saved: frozenset[Path] | None) -> bool:
        seen.append(saved)
        if saved is None:
            raise CannotLookError("nothing to test")
        return len(seen) == 2

    def saved() -> frozenset[Path]:
        if not saves:
            raise KeyboardInterrupt
        return saves.pop(0)

    assert again_and_again(once, saved) is False
    assert [None, frozenset({Path("a")}), frozenset({Path("b")})] == seen
    assert "nothing to test\nwaiting until a file is saved" in capsys.readouterr().err


@pytest.mark.usefixtures("ces_environment")
def test_the_command_runs_again_what_was_saved_until_it_is_interrupted(app: Path) -> None:
    """Beginning with everything."""
    report = app.parent / "report"
    os.mkfifo(report)
    pipe = os.open(report, os.O_RDWR)  # open on both sides, so that no run waits for a reader
    reports: list[dict[str, bool]] = []
    main = threading.main_thread().ident
    assert main is not None

    def read_report() -> bytes:
        read = b""
        while not read.rstrip().endswith(b"</testsuites>"):
            read += os.read(pipe, 65536)
        return read

    def use() -> None:
        try:
            for _ in range(2):
                cases = ET.fromstring(read_report()).iter("testcase")  # noqa: S314  # our own
                reports.append({str(each.get("name")): each.find("failure") is None for each in cases})
                (app / "tools/alone.py").write_text(TOOL.format(name="alone", does="1"))
        finally:
            signal.pthread_kill(main, signal.SIGINT)

    user = threading.Thread(target=use)
    user.start()
    words = ["ces", "test", str(app), "--only", "tools", "--watch", "--junit", str(report)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        result = CliRunner().invoke(command, words)
    finally:
        signal.signal(signal.SIGINT, before)
    user.join()
    os.close(pipe)

    assert {"inner works": True, "outer works": True, "alone works": False} == reports[0]
    assert {"alone works": True} == reports[1]
    assert "waiting until a file is saved; Ctrl-C ends" in result.stderr


def test_an_archive_is_not_watched(tmp_path: Path) -> None:
    """Nobody edits in it."""
    (tmp_path / "app.zip").write_bytes(b"")
    result = CliRunner().invoke(command, ["ces", "test", str(tmp_path / "app.zip"), "--watch"])

    assert 2 == result.exit_code
    assert "--watch waits until files in it are saved" in result.stderr
