"""Show what looking over a template finds, where, and what it says of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcp_adk_store import TemplateSettings
from gcp_adk_store.templates.lint import Finding, lint_template
from gcp_adk_store.templates.parsing import lines_and_columns
from tests.support.hanging import ends
from tests.support.loop_work import counted_work

TEMPLATES = st.text(st.sampled_from("{}{}$\\ ?:.ab-\n\"'"), max_size=30)


def kinds(template: str, **options: object) -> list[tuple[str, str]]:
    """Return text and kind of what is found."""
    return [(found.text, found.kind) for found in lint_template(template, **options)]  # type: ignore[arg-type]


def test_placeholders_are_listed_with_line_and_column() -> None:
    """In order, both counted from 1."""
    found = lint_template("Hello {user:name},\n\n  read {artifact.notes.txt?} and {{ topic }}.")

    assert [
        (1, 7, "{user:name}", "state"),
        (3, 8, "{artifact.notes.txt?}", "artifact"),
        (3, 34, "{{ topic }}", "state"),
    ] == [(finding.line, finding.column, finding.text, finding.kind) for finding in found]


def test_a_finding_says_what_it_stands_for() -> None:
    """The name that will be looked for, and whether it may be missing."""
    assert [
        Finding(line=1, column=1, text="{a}", kind="state", says="state 'a'"),
        Finding(
            line=1, column=5, text="{artifact.b.txt?}", kind="artifact", says="artifact 'b.txt' (optional)"
        ),
    ] == lint_template("{a} {artifact.b.txt?}")


@pytest.mark.parametrize("template", ["", "plain text", "a } b", "}{"])
def test_a_template_without_pairs_of_braces_has_nothing_to_find(template: str) -> None:
    """There is nothing in it that could be meant as a placeholder."""
    assert [] == lint_template(template)


def test_names_that_there_are_not_are_unknown() -> None:
    """Of the state and of the artifacts, each beside those that there are."""
    assert [
        ("{a}", "state"),
        ("{b}", "unknown"),
        ("{user:a}", "unknown"),
        ("{artifact.x}", "artifact"),
        ("{artifact.y}", "unknown"),
    ] == kinds("{a}{b}{user:a}{artifact.x}{artifact.y}", state_keys={"a"}, filenames={"x"})


def test_nothing_is_unknown_where_nothing_is_known() -> None:
    """Without a session there is nothing to compare with; an empty one knows no name."""
    assert [("{a}", "state"), ("{artifact.x}", "artifact")] == kinds("{a}{artifact.x}")
    assert [("{a}", "unknown"), ("{artifact.x}", "unknown")] == kinds(
        "{a}{artifact.x}", state_keys=(), filenames=()
    )


def test_an_unknown_name_says_what_will_come_of_it() -> None:
    """An error, or nothing where it is optional."""
    assert [
        "the state 'a' is missing: it is an error when it is filled",
        "the state 'b' is missing: it is left empty",
        "the artifact 'c' is missing: it is an error when it is filled",
    ] == [found.says for found in lint_template("{a}{b?}{artifact.c}", state_keys=(), filenames=())]


def test_an_unknown_name_behind_several_braces_is_not_said_to_be_an_error() -> None:
    """By default such a placeholder stays as it is written when it is filled."""
    (found,) = lint_template("{{a}}", state_keys=())

    assert "error" not in found.says


@pytest.mark.parametrize("missing", ["keep", "empty"])
def test_an_unknown_name_is_no_error_where_the_settings_say_so(missing: str) -> None:
    """With ``missing`` of ``keep`` or ``empty`` nothing is raised for it."""
    (found,) = lint_template("{a}", state_keys=(), settings=TemplateSettings(missing=missing))  # type: ignore[arg-type]

    assert "error" not in found.says


@pytest.mark.parametrize(
    "text",
    ["{}", "{a-b}", "{a b}", "{1}", "{other:a}", "{a.b}", "{tone|friendly}", "${a}", r"\{a}", "${a-b}"],
)
def test_what_would_stay_is_literal(text: str) -> None:
    """Names that are none, and braces behind a dollar or backslash."""
    assert [(text, "literal")] == kinds(text)


@pytest.mark.parametrize(("text", "sign"), [("${a}", "$"), (r"\{a}", "\\")])
def test_a_sign_that_keeps_a_brace_is_named(text: str, sign: str) -> None:
    """Who wrote it may have meant the placeholder."""
    (found,) = lint_template(text)

    assert f"{sign} before the brace keeps it as it is" == found.says


def test_several_braces_are_literal_where_the_settings_say_so() -> None:
    """One pair is still filled."""
    assert [("{a}", "state"), ("{{a}}", "literal")] == kinds(
        "{a}{{a}}", settings=TemplateSettings(double_braces="literal")
    )


def test_extended_placeholders_are_read_where_the_settings_say_so() -> None:
    """A default makes up for a name that there is not."""
    assert [("{order.id}", "state"), ("{tone|friendly}", "state"), ("{x.y}", "unknown")] == kinds(
        "{order.id}{tone|friendly}{x.y}", state_keys={"order"}, settings=TemplateSettings(extended=True)
    )


def test_names_that_are_not_allowed_are_unknown() -> None:
    """Whether or not there is such a key."""
    assert [("{a}", "state"), ("{b}", "unknown"), ("{artifact.x}", "unknown")] == kinds(
        "{a}{b}{artifact.x}", state_keys={"a", "b"}, settings=TemplateSettings(allowed_keys=["a"])
    )


@pytest.mark.parametrize("text", ['{"a": 1}', "{'a': 1}", '{\n  "a": 1\n}', '{"a"}'])
def test_json_is_pointed_out(text: str) -> None:
    """It stays, which an example of an answer is meant to."""
    assert [(text, "json")] == kinds(text)


def test_a_placeholder_inside_json_is_found() -> None:
    """It would be filled, which may surprise."""
    assert [("{b}", "state")] == kinds('{"a": "{b}", "c": 1}')


def test_a_placeholder_that_takes_the_closing_brace_of_json_is_pointed_out() -> None:
    """``{"a": {b}}`` loses its last brace when it is filled: ``}}`` closes the placeholder."""
    assert lint_template("{b}")[0].says != lint_template('{"a": {b}}')[0].says


def test_json_in_doubled_braces_is_pointed_out() -> None:
    """As templates of other libraries escape it: here both pairs reach the model."""
    assert [('{{"a": 1}}', "json")] == kinds('{{"a": 1}}')


@settings(deadline=None, print_blob=True)
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
    """Eight times the template takes eight times as many calls, and one of up to 384,000 characters ends."""

    def calls(count: int) -> int:
        with counted_work() as work:
            lint_template(unit * count)
        return work.calls

    with ends():
        assert calls(64_000) < 9 * calls(8_000) + 100


def test_doubled_braces_without_a_value_stay_as_filling_leaves_them() -> None:
    """``missing="empty"`` is for one pair of braces, unless the rules are strict."""
    lenient, strict = (TemplateSettings(missing="empty", strict=strict) for strict in (False, True))

    assert [("{{gone}}", "literal")] == kinds("{{gone}}", state_keys=(), settings=lenient)
    assert [("{{gone}}", "state")] == kinds("{{gone}}", state_keys=(), settings=strict)
