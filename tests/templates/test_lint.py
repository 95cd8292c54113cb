"""Show what looking over a template finds, where, and what it says of it.

Show what ``gcp-adk-store template lint`` reads, prints, and ends with.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import TemplateSettings
from gcp_adk_store.cli.command import command
from gcp_adk_store.templates.lint import Finding, lint_template
from gcp_adk_store.templates.parsing import lines_and_columns
from tests.support.hanging import ends
from tests.support.lengths import at_length
from tests.support.loop_work import counted_work
from tests.support.stored import at_once

TEMPLATES = st.text(st.sampled_from("{}{}$\\ ?:.ab-\n\"'"), max_size=30)


NOTHING: dict[str, Any] = {"state_keys": (), "filenames": ()}
"""What an empty session has; without a session nothing is unknown."""


def test_placeholders_are_listed_with_line_and_column() -> None:
    """In order, both counted from 1; with the name that will be looked for, and whether it may be missing."""
    found = lint_template("Hello {user:name},\n\n  read {artifact.notes.txt?} and {{ topic }}.")

    assert [
        (1, 7, "{user:name}", "state"),
        (3, 8, "{artifact.notes.txt?}", "artifact"),
        (3, 34, "{{ topic }}", "state"),
    ] == [(finding.line, finding.column, finding.text, finding.kind) for finding in found]

    assert [
        Finding(line=1, column=1, text="{a}", kind="state", says="state 'a'"),
        Finding(
            line=1, column=5, text="{artifact.b.txt?}", kind="artifact", says="artifact 'b.txt' (optional)"
        ),
    ] == lint_template("{a} {artifact.b.txt?}")


@pytest.mark.parametrize(
    ("template", "options", "found"),
    [
        *((plain, {}, []) for plain in ("", "plain text", "a } b", "}{")),
        *(
            (text, {}, [(text, "literal")])
            for text in (
                "{}",
                "{a-b}",
                "{a b}",
                "{1}",
                "{other:a}",
                "{a.b}",
                "{tone|friendly}",
                "${a}",
                "${a-b}",
            )
        ),
        (r"\{a}", {}, [(r"\{a}", "literal")]),
        *((text, {}, [(text, "json")]) for text in ('{"a": 1}', "{'a': 1}", '{\n  "a": 1\n}', '{"a"}')),
        # As templates of other libraries escape it: here both pairs reach the model.
        ('{{"a": 1}}', {}, [('{{"a": 1}}', "json")]),
        # It would be filled, which may surprise.
        ('{"a": "{b}", "c": 1}', {}, [("{b}", "state")]),
        ("{a}{artifact.x}", {}, [("{a}", "state"), ("{artifact.x}", "artifact")]),
        ("{a}{artifact.x}", NOTHING, [("{a}", "unknown"), ("{artifact.x}", "unknown")]),
        (
            "{a}{b}{user:a}{artifact.x}{artifact.y}",
            {"state_keys": {"a"}, "filenames": {"x"}},
            [
                *(("{a}", "state"), ("{b}", "unknown"), ("{user:a}", "unknown")),
                *(("{artifact.x}", "artifact"), ("{artifact.y}", "unknown")),
            ],
        ),
        (
            "{a}{{a}}",
            {"settings": TemplateSettings(double_braces="literal")},
            [("{a}", "state"), ("{{a}}", "literal")],
        ),
        # A default makes up for a name that there is not.
        (
            "{order.id}{tone|friendly}{x.y}",
            {"state_keys": {"order"}, "settings": TemplateSettings(extended=True)},
            [("{order.id}", "state"), ("{tone|friendly}", "state"), ("{x.y}", "unknown")],
        ),
        # Whether or not there is a key that is not allowed.
        (
            "{a}{b}{artifact.x}",
            {"state_keys": {"a", "b"}, "settings": TemplateSettings(allowed_keys=["a"])},
            [("{a}", "state"), ("{b}", "unknown"), ("{artifact.x}", "unknown")],
        ),
        # What is left empty is one pair of braces, unless the rules are strict.
        (
            "{{gone}}",
            {"state_keys": (), "settings": TemplateSettings(missing="empty")},
            [("{{gone}}", "literal")],
        ),
        (
            "{{gone}}",
            {"state_keys": (), "settings": TemplateSettings(missing="empty", strict=True)},
            [("{{gone}}", "state")],
        ),
    ],
)
def test_each_pair_of_braces_has_its_kind(
    template: str, options: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    """By its name, the names that there are, and the settings."""
    assert found == [(each.text, each.kind) for each in lint_template(template, **options)]


def test_a_finding_says_what_will_come_of_it() -> None:
    """An error, or nothing where it is optional, has several braces, or is none by the settings."""
    assert [
        "the state 'a' is missing: it is an error when it is filled",
        "the state 'b' is missing: it is left empty",
        "the artifact 'c' is missing: it is an error when it is filled",
    ] == [found.says for found in lint_template("{a}{b?}{artifact.c}", **NOTHING)]
    kept, empty = (TemplateSettings(missing=missing) for missing in ("keep", "empty"))
    for template, rules in (("{{a}}", TemplateSettings()), ("{a}", kept), ("{a}", empty)):
        (found,) = lint_template(template, state_keys=(), settings=rules)
        assert "error" not in found.says
    for text, sign in (("${a}", "$"), (r"\{a}", "\\")):
        (found,) = lint_template(text)
        assert f"{sign} before the brace keeps it as it is" == found.says
    # JSON loses its last brace when this is filled: ``}}`` closes the placeholder.
    assert lint_template("{b}")[0].says != lint_template('{"a": {b}}')[0].says


@given(TEMPLATES)
def test_every_finding_stands_where_it_says(template: str) -> None:
    """Its text is in the template at its line and column, and findings come in order."""
    found = lint_template(template)
    every = range(len(template))
    places = dict(zip(lines_and_columns(template, every), every, strict=True))
    starts = [places[finding.line, finding.column] for finding in found]

    assert sorted(set(starts)) == starts
    assert [finding.text for finding in found] == [
        template[start : start + len(finding.text)] for start, finding in zip(starts, found, strict=True)
    ]


@pytest.mark.parametrize("unit", ["{-}", "{", "{a", "{ ", "{a.", "{a|", "{${\\{"])
def test_looking_over_takes_work_in_proportion_to_the_length(unit: str) -> None:
    """Eight times the template takes eight times as many calls, and one of 384,000 characters ends."""

    def calls(count: int) -> int:
        with counted_work() as work:
            lint_template(unit * count)
        return work.calls

    count = at_length(1_000, 8_000)
    with ends():
        assert calls(8 * count) < 9 * calls(count) + 100


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
        "from gcp_adk_store import TemplateSettings, session_instruction\n"
        "rules = TemplateSettings(extended=True)\n"
        'filled = LlmAgent(name="f", instruction=session_instruction("{a.b|c}", settings=rules))\n'
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
        ("filled", "{a.b|c}"),
    ],
)
def test_an_attribute_of_a_module_is_read(module: str, attribute: str, text: str) -> None:
    """A text, one within a class, or an agent, whose instruction it is, with the rules that fill it."""
    result = lint(f"{module}:{attribute}", "--json")

    assert 0 == result.exit_code, result.output
    assert [(text, "state")] == [(found["text"], found["kind"]) for found in json.loads(result.output)]


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


def test_a_session_that_artifacts_cannot_have_is_compared_by_its_state(tmp_path: Path, file: Path) -> None:
    """And by the artifacts of its user; each other one that the template names is missing there."""
    of: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": ".."}
    state = {"user:name": "Ada"}
    at_once(tmp_path / "store", lambda store: store.sessions.create_session(**of, state=state))
    photo = types.Part(text="of Ada")
    at_once(
        tmp_path / "store",
        lambda store: store.artifacts.save_artifact(**of, filename="user:photo", artifact=photo),
    )
    file.write_text("{user:name} {artifact.user:photo}", encoding="utf-8")
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
