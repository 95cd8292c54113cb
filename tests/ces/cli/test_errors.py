"""What a command about agent apps cannot run or read ends it with 2, and it says what to write instead."""

import asyncio
from pathlib import Path

import pytest

from gcp_adk_store import Store
from tests.ces.conversation.apps import ces, write_app, write_files

SHOP = "cxas_app/Shop"
HALF = 'def half(number: int) -> dict:\n    """Half a number."""\n    return {"half": 10 / number}\n'
SKIPS = 'import pytest\n\npytest.skip("the whole file", allow_module_level=True)\n'
GOLDEN = {"conversations": [{"conversation": "greets", "user": "Hi", "agent": "Hello"}]}
TOOL_TESTS = {"tests": [{"name": "a", "tool": "half"}]}
RUN = ("run-tool", "half.py")
NEW = ("--local", "kept", "--session", "shop/ada/s1", "--create", "--said", "hello", "--sandbox", "inprocess")
MODELS = ("--model", "gemini-2.5-flash", "--script", "x")
SCRIPTED = ("--sandbox", "inprocess", "--script", "script.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an app, its evaluations, a script, and files that cannot be read."""
    write_app(tmp_path / SHOP, {"root": {}})
    (tmp_path / "store").mkdir()
    (tmp_path / "store/store.sqlite3").write_bytes(b"no database" * 100)
    (tmp_path / "latin.py").write_bytes(b'def latin() -> str:\n    return "\xe4"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADK_STORE_CES_ENVIRONMENT", "nowhere")
    files = {"half.py": HALF, "deep.json": "[" * 100_000, "file.zip": "text", "script.json": ["Hello."]}
    others = {"misplaced/tool_test.yaml": TOOL_TESTS, "evals/goldens/a.yaml": GOLDEN, "tools/half.py": HALF}
    return write_files(tmp_path, {**files, **others, "evaluations/a/a.json": {"scenario": {"task": "Pay."}}})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("chat", SHOP, *MODELS), "one of --model and --script"),
        (("chat", SHOP), "the app names no model"),
        (("chat", SHOP, "--model", "nothing"), "ADK has no model 'nothing'"),
        (("chat", SHOP, "--script", "missing.yaml"), "cannot be read as a script"),
        (("chat", SHOP, "--session", "s1"), "must be APP/USER/ID"),
        (("eval", ".", *SCRIPTED, "--name", "none"), "no evaluation has such a name or tag"),
        (("eval", ".", *SCRIPTED, "--tests", "evaluations"), "have no golden, and no test of turns"),
        (("eval", ".", *SCRIPTED, "--tests", "missing"), "Directory 'missing' does not exist"),
        (("eval", ".", *SCRIPTED, "--tests", "cxas_app"), "has no evaluations"),
        (("eval", ".", *SCRIPTED, "--app", "Other"), "has not one app of the name Other"),
        (("eval", ".", *MODELS), "cannot be read as a script"),
        (("eval", "."), "the app names no model; give --model"),
        (("eval", ".", "--model", "nothing"), "ADK has no model 'nothing'"),
        (("lint", "nowhere"), "the folder nowhere does not exist"),
        (("lint", "store"), "has no Python of an agent app"),
        (("lint", ".", "--ignore", "CES999"), "unknown code; known: CES001"),
        (("lint", "file.zip"), "is a file; unpack an archive, and name the folder of its app"),
        (("test", "nowhere"), "does not exist"),
        (("test", "misplaced"), "has no tests: put them into tool_tests/*.yaml"),
        (("run-tool", "nowhere.py"), "nowhere.py cannot be read"),
        (("run-tool", "latin.py"), "latin.py is not UTF-8; save it as UTF-8"),
        ((*RUN, "--args", "{"), "not JSON"),
        ((*RUN, "--args", "[]"), "a JSON object is wanted, such as {}, not []"),
        ((*RUN, "--args", "@nowhere"), "nowhere cannot be read: No such file"),
        ((*RUN, "--args", "@deep.json"), "not JSON: maximum recursion depth"),
        ((*RUN, "--args", "-"), "not JSON: Expecting value"),
        ((*RUN, "--shared-variable", "n"), "shared_variables must be a tuple of names that begin with user:"),
        ((*RUN, "--session", "a/b/ ", "--create"), "neither begins nor ends with a space"),
        ((*RUN, "--session", "a/b"), "a/b must be APP/USER/ID"),
        ((*RUN, "--session", "a/b/c", "--variables", "{}"), "add --create"),
        ((*RUN, "--create"), "--create is about a stored session: name one by --session"),
        ((*RUN, "--dry-run"), "--dry-run is about a stored session: name one by --session"),
        ((*RUN, "--session", "a/b/c", "--create", "--dry-run"), "leave out --create"),
        ((*RUN, "--session", "a/b/c", "--local", "store"), "store/store.sqlite3: this is neither a store"),
        ((*RUN, "--setting", "strict"), "write NAME=JSON; known: strict_typing, capture,"),
        ((*RUN, "--setting", "capture"), "write capture=JSON: Invalid JSON"),
        ((*RUN, "--setting", "capture=" + "[" * 20_000), "write capture=JSON: Invalid JSON: recursion"),
        ((*RUN, "--setting", "importable=3"), "write importable=JSON: Input should be a valid array"),
        ((*RUN, "--setting", "max_stdout_chars=1.5"), "write max_stdout_chars=JSON: Input should be a valid"),
        ((*RUN, "--setting", "max_stdout_chars=-1"), "Input should be greater than or equal to 0"),
        ((*RUN, "--sandbox", "none"), "'none' is not one of 'bubblewrap'"),
        ((*RUN, "--tools", ".", "--server", "Bank"), "write TOOLSET=URL"),
        ((*RUN, "--tools", ".", "--credential", "A=NOT_THERE"), "the environment has no variable NOT_THERE"),
        ((*RUN, "--server", "Bank=https://a.test"), "name the app that has the toolset by --tools"),
        ((*RUN, "--credential", "Bank=KEY"), "name the app that has the toolset by --tools"),
        (("run-callback", "after_model", "half.py"), "after_model callbacks need --llm-response"),
        (
            ("run-callback", "before_agent", "half.py", "--tool", "half"),
            "before_agent callbacks take no --tool",
        ),
        # Instead of running the code elsewhere.
        ((*RUN, "--args", '{"number": 4}'), "gcp-adk-store ces install"),
        # Neither is a session made, nor is what the user says stored.
        (("run-tool", "nowhere.py", *NEW), "nowhere.py cannot be read"),
        ((*RUN, "--setting", "strict=1", *NEW), "write NAME=JSON; known: "),
        ((*RUN, "--mocks", '{"mocks": []}', *NEW), "mockConfig is not valid: mocks: Extra inputs are not"),
        (
            (*RUN, "--server", "Bank=https://a.test", "--tools", "tools", *NEW),
            "the app has no toolset 'Bank'",
        ),
        ((*RUN, "--allow-host", "a b", *NEW), "'a b'"),
    ],
)
def test_what_cannot_run_or_be_read_ends_a_command_with_2(
    folder: Path, words: tuple[str, ...], says: str
) -> None:
    """Nothing is printed but why, and no session is made."""
    result = ces(*words)

    assert (2, "") == (result.exit_code, result.stdout), result.output
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert asyncio.run(sessions(folder / "kept")) == []


async def sessions(folder: Path) -> list[str]:
    """Return the ids of the sessions of a store in a folder, which is made if it is missing."""
    async with Store.local(folder) as store:
        listed = await store.sessions.list_sessions(app_name="shop", user_id="ada")
        return [each.id for each in listed.sessions]


@pytest.mark.usefixtures("ces_environment")
def test_tests_that_are_all_skipped_end_the_command_with_2(tmp_path: Path) -> None:
    """Instead of passing."""
    result = ces("test", write_files(tmp_path, {"agents/root/after_agent_callbacks/second/test.py": SKIPS}))

    assert 2 == result.exit_code
    assert "was skipped" in result.stderr
