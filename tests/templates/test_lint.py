"""Show what looking over a template finds, where, and what it says of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import TemplateSettings
from gcp_adk_store.templates.lint import Finding, lint_template
from gcp_adk_store.templates.parsing import lines_and_columns
from tests.support.hanging import ends
from tests.support.lengths import at_length
from tests.support.loop_work import counted_work

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
