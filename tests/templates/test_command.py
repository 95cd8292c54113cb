"""Show what ``gcp-adk-store template lint`` reads, prints, and ends with."""

import asyncio
import itertools
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from tests.support.programs import ran

TEMPLATE = 'Hi {user:name},\nread {artifact.a.txt?}, answer {"a": 1} or ${x}.'
_numbers = itertools.count()


def lint(*arguments: str) -> Result:
    """Run the command on a wide terminal."""
    return CliRunner().invoke(command, ["template", "lint", *arguments], env={"COLUMNS": "200"})


def assert_refused(result: Result, says: str) -> None:
    """Check that the command ended with 2, and a message that begins so."""
    assert 2 == result.exit_code, result.output
    assert result.output.startswith(f"Error: {says}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one template of every kind."""
    path = tmp_path / "instruction.txt"
    path.write_text(TEMPLATE, encoding="utf-8")
    return path


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, of a name that no other test has."""
    name = f"linted_module_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(
        "from google.adk.agents.llm_agent import LlmAgent\n"
        'TEMPLATE = "Hello {topic}"\n'
        "NUMBER = 3\n"
        'root_agent = LlmAgent(name="clerk", instruction="Serve {user:name}")\n'
        'provided = LlmAgent(name="provided", instruction=lambda context: "x")\n'
        "class Texts:\n"
        '    inner = "In {a}"\n',
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_file_is_shown_as_a_table_or_as_json(file: Path) -> None:
    """One line for each finding, in order, below what the columns are; for programs the same fields."""
    result, as_json = lint(str(file)), lint(str(file), "--json")

    assert (0, 0) == (result.exit_code, as_json.exit_code), result.output + as_json.output
    assert [
        ["line", "column", "text", "kind"],
        ["1", "4", "{user:name}", "state"],
        ["2", "6", "{artifact.a.txt?}", "artifact"],
        ["2", "32", '{"a":', "1}"],
        ["2", "44", "${x}", "literal"],
    ] == [line.split()[:4] for line in result.output.splitlines()]
    assert [
        (1, 4, "{user:name}", "state", "state 'user:name'"),
        (2, 6, "{artifact.a.txt?}", "artifact", "artifact 'a.txt' (optional)"),
        (2, 32, '{"a": 1}', "json", "reads as JSON and stays; {name} inside it would be filled"),
        (2, 44, "${x}", "literal", "$ before the brace keeps it as it is"),
    ] == [
        tuple(found[name] for name in ("line", "column", "text", "kind", "says"))
        for found in json.loads(as_json.output)
    ]


def test_a_template_without_braces_says_so(tmp_path: Path) -> None:
    """As a table in words, as JSON an empty list. Signs of markup are shown as they are."""
    path = tmp_path / "plain.txt"
    path.write_text("plain", encoding="utf-8")
    table, as_json = lint(str(path)), lint(str(path), "--json")

    assert (0, "no braces: the template is sent as it is\n") == (table.exit_code, table.output)
    assert (0, "[]\n") == (as_json.exit_code, as_json.output)
    path.write_text("{[bold]é[/bold]}", encoding="utf-8")
    assert "{[bold]é[/bold]}" in lint(str(path)).output


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ([], ["state", "literal", "literal"]),
        (["--extended"], ["state", "state", "state"]),
        (["--literal-braces"], ["literal", "literal", "literal"]),
        (["--extended", "--literal-braces"], ["literal", "state", "state"]),
    ],
)
def test_options_say_how_placeholders_are_read(tmp_path: Path, options: list[str], kinds: list[str]) -> None:
    """Dotted paths and defaults, and several braces that stand for themselves."""
    path = tmp_path / "template.txt"
    path.write_text("{{a}} {b.c} {d|e}", encoding="utf-8")

    assert kinds == [found["kind"] for found in json.loads(lint(str(path), "--json", *options).output)]


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("TEMPLATE", "{topic}"),
        ("root_agent", "{user:name}"),
        ("Texts.inner", "{a}"),
        ("root_agent.instruction", "{user:name}"),
    ],
)
def test_an_attribute_of_a_module_is_read(module: str, attribute: str, text: str) -> None:
    """A text, one within a class, or an agent, whose instruction it is."""
    result = lint(f"{module}:{attribute}", "--json")

    assert 0 == result.exit_code, result.output
    assert [text] == [found["text"] for found in json.loads(result.output)]


def test_a_module_of_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``python -m`` finds it."""
    name = f"linted_module_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text('TEXT = "{a}"\n', encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    result = lint(f"{name}:TEXT")

    assert 0 == result.exit_code, result.output
    assert "{a}" in result.output


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        (":provided", "is not a text but a function"),
        (":NUMBER", "is not a text but a int"),
        *((attribute, "cannot be imported") for attribute in (":missing", ":Texts.missing", ":")),
        ("_not:TEXT", "cannot be imported: No module named"),
    ],
)
def test_an_attribute_that_is_no_text_is_an_error(module: str, attribute: str, says: str) -> None:
    """An instruction that is a function is made only when an agent runs."""
    assert_refused(lint(f"{module}{attribute}"), f"{module}{attribute} {says}")


def test_what_is_no_text_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message, not a traceback, that says what can be named instead; also where no file has such a name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "image.png"
    path.write_bytes(b"\x89PNG")
    gone = tmp_path / "gone.txt"
    for source in (":TEXT", ".relative:TEXT", str(path)):
        assert lint(source).output.startswith("Error: ")
    for text in (str(gone), str(tmp_path), "You are a cook. " * 40 + "{dish}", "cook\n{dish}"):
        result = lint(text)
        assert_refused(result, f"the file {text[:200]}")
        assert result.output.endswith(" does not exist; name a file, or MODULE:ATTRIBUTE\n")


@pytest.mark.parametrize("session", ["", "s1", "ann/s1", "shop/ann/s/1"])
def test_a_session_that_is_not_named_by_three_parts_is_an_error(file: Path, session: str) -> None:
    """It says how it is written, before anything is connected to."""
    says = f"--session {session} must be APP/USER/ID; write a / in an id as %2F\n"
    assert_refused(lint(str(file), "--session", session), says)


def test_a_command_brings_no_more_than_it_needs() -> None:
    """What costs are is said without ADK and Google's clients, which take longer to import than all else."""
    code = "import sys; from gcp_adk_store.cli import main\n"
    code += "try:\n    main()\nfinally:\n    print(*sys.modules, sep='\\n')"
    run = ran([sys.executable, "-c", code, "cost", "--help"])

    assert (0, "") == (run.returncode, run.stderr)
    assert "gcp_adk_store.cli.cost" in run.stdout.splitlines()
    assert {"google.adk.sessions", "google.genai", "grpc"}.isdisjoint(run.stdout.splitlines())


def test_a_session_that_artifacts_cannot_have_is_compared_by_its_state(tmp_path: Path, file: Path) -> None:
    """Each artifact that the template names is missing there."""

    async def make() -> None:
        async with Store.local(tmp_path / "store") as store:
            await store.sessions.create_session(
                app_name="a", user_id="u", session_id="..", state={"user:name": "Ada"}
            )

    asyncio.run(make())
    result = lint(str(file), "--session", "a/u/..", "--local", str(tmp_path / "store"))

    assert 0 == result.exit_code, result.output
    assert "state 'user:name'" in result.output


@pytest.mark.parametrize("code", ["x = (", "raise KeyError('k')", "raise SystemExit(0)"])
def test_a_module_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """With 2, and not with the 1 of an unknown placeholder."""
    name = f"failing_module_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = lint(f"{name}:TEMPLATE")

    assert 2 == result.exit_code, result.output
    assert "cannot be imported" in result.stderr
