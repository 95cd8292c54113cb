"""Show how prompts are filled from inputs, for a text, for tasks and for a tree of agents."""

import dataclasses
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcp_adk_store import (
    InvalidInputError,
    PromptTask,
    PromptTemplateError,
    StoreError,
    resolve_agent,
    resolve_tasks,
    resolve_template,
)
from tests.support.lengths import at_length

LOGGER = "gcp_adk_store.templates.inputs"

SENTINEL = "__AGENTENSEMBLE_ESCAPED_x__"
"""What the specification's algorithm would make ``{x}`` of; nothing is marked within the text here."""

NAMES = st.text(st.sampled_from("abXY09_"), min_size=1, max_size=3)
WORDS = st.one_of(
    NAMES.map("{{{}}}".format),
    NAMES.map("{{{{{}}}}}".format),
    st.sampled_from(["{", "}", "{}", "{a b}", "{a-b}", "{a.b}", "{a?}", "{é}", "plain", "$1", "\\", "{a"]),
)


@pytest.mark.parametrize(
    ("template", "inputs", "expected"),
    [
        pytest.param(None, {"a": "b"}, None, id="01 null"),
        pytest.param("", {"a": "b"}, "", id="02 empty"),
        pytest.param("", None, "", id="02 empty, no inputs"),
        pytest.param("   ", {"a": "b"}, "   ", id="03 whitespace only"),
        pytest.param(" \n\t", None, " \n\t", id="03 whitespace only, no inputs"),
        pytest.param("{topic}", {"topic": None}, "", id="14 null value"),
    ],
)
def test_the_edge_case_matrix_that_resolves(
    template: str | None, inputs: Mapping[str, Any], expected: str | None
) -> None:
    """Rows 1 to 3 and 14 of the specification's matrix; a property holds the others."""
    assert expected == resolve_template(template, inputs)


@pytest.mark.parametrize(
    ("template", "inputs", "expected"),
    [
        ("{a}, {b}, {c}, {d}", {"a": 3, "b": 0.5, "c": True, "d": [1]}, "3, 0.5, True, [1]"),
        ("{a} {b}", {"a": "{b}", "b": "{a}"}, "{b} {a}"),
        ("{a} {{b}}", {"a": "{{b}}", "b": "Y"}, "{{b}} {b}"),
        ("{{a}}{{b}}", {}, "{a}{b}"),
        ("{a} {{x}}", {"a": SENTINEL, "x": "Y"}, f"{SENTINEL} {{x}}"),
        *(("<{a}>", {"a": sign}, f"<{sign}>") for sign in (r"\1", r"\g<0>", "$1", "%s", "{0}", "\\")),
    ],
)
def test_a_value_is_put_in_once_as_its_text(template: str, inputs: Mapping[str, Any], expected: str) -> None:
    """Whatever a template, a regular expression or a format would make of it."""
    assert expected == resolve_template(template, inputs)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        *(("{{{a}}}", "{{a}}"), ("{{a}", "{X"), ("{a}}", "X}"), ("{ {a} }", "{ X }"), ("{{{a}", "{{X")),
        *(
            (stays, stays)
            for stays in (
                "{}",
                "{ a }",
                "{a b}",
                "{a-b}",
                "{a.b}",
                "{user:a}",
                "{a?}",
                "{größe}",
                '{"a": 1}',
                "{a",
            )
        ),
    ],
)
def test_odd_braces_are_read_from_the_left_and_other_text_stays(template: str, expected: str) -> None:
    """Two pairs around a name escape it. A variable is one or more of ``A-Z a-z 0-9 _``, without blanks."""
    assert expected == resolve_template(template, {"a": "X", "b": "Y"})


def test_the_error_says_what_is_missing_and_shows_the_template() -> None:
    """The words of the specification, and a hundred characters; it carries all, and is a ``ValueError``."""
    for template, shown in (
        (
            "{a} and {b}",
            "Missing template variables: [a, b]. Provide them in inputs. Template: '{a} and {b}'",
        ),
        ("{a}" + "x" * 97, "{a}" + "x" * 97 + "'"),
        ("{a}" + "x" * 98, "{a}" + "x" * 97 + "...'"),
        ("x" * 5_000 + "{a}", "'" + "x" * 100 + "...'"),
    ):
        with pytest.raises(PromptTemplateError) as raised:
            resolve_template(template, {})

        assert str(raised.value).endswith(shown)
        assert template == raised.value.template
    assert isinstance(raised.value, StoreError)
    assert isinstance(raised.value, ValueError)


def test_resolving_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """The two lines of the specification: sizes and counts, and never texts; a failure is only begun."""
    with caplog.at_level(logging.DEBUG, logger=LOGGER):
        resolve_template("{a} and {a}, {{c}}", {"a": "secret", "b": "Y"})
        with pytest.raises(PromptTemplateError):
            resolve_template("{a}", None)

    assert [
        "Resolving template (18 chars) with 2 variables",
        "Resolved 1 variables in template",
        "Resolving template (3 chars) with 0 variables",
    ] == caplog.messages
    assert {(LOGGER, logging.DEBUG)} == {each[:2] for each in caplog.record_tuples}


def seeds_algorithm(template: str, inputs: Mapping[str, str]) -> str | tuple[str, ...]:
    """Resolve as the specification's steps 4 to 9 do, or return what is missing."""
    working = re.sub(r"(?a)\{\{(\w+)\}\}", r"__AGENTENSEMBLE_ESCAPED_\1__", template)
    names = tuple(dict.fromkeys(re.findall(r"(?a)\{(\w+)\}", working)))
    if missing := tuple(name for name in names if name not in inputs):
        return missing
    for name in names:
        working = working.replace(f"{{{name}}}", inputs[name])
    return re.sub(r"(?a)__AGENTENSEMBLE_ESCAPED_(\w+)__", r"{\1}", working)


@settings(max_examples=at_length(400, 4_000))
@example("Hello {name}!", {})
@example("{b}{a}{b}{{c}}", {})
@example("{a} and {b} {a}", {"a": "X"})
@given(
    st.lists(WORDS, max_size=6).map(" ".join),
    st.dictionaries(NAMES, st.text(st.sampled_from("xyz $\\1"), max_size=4), max_size=8),
)
def test_resolving_is_the_algorithm_of_the_specification(template: str, inputs: dict[str, str]) -> None:
    """Wherever its sentinels do not run into each other and no value holds braces.

    One error names all that is missing, in the order of appearance.
    """
    try:
        actual: str | tuple[str, ...] = resolve_template(template, inputs)
    except PromptTemplateError as exc:
        actual = exc.missing_variables

    expected = seeds_algorithm(template, inputs) if template.strip() else template
    assert expected == actual


TASKS = (
    PromptTask(
        description="Research {topic}",
        expected_output="A report on {topic} of {period}",
        name="{topic}",
        agent="researcher",
        metadata={"note": "{topic}"},
    ),
    PromptTask(description="Write it up"),
)


def test_tasks_are_resolved_in_order() -> None:
    """Description and expected output; the rest is taken along. The tasks serve again with other inputs."""
    before = [dataclasses.asdict(dataclasses.replace(task, metadata={})) for task in TASKS]
    first, second = resolve_tasks(TASKS, {"topic": "AI", "period": "May"})
    again, _ = resolve_tasks(iter(TASKS), {"topic": "tea", "period": "June"})

    of_may = "A report on AI of May"
    assert first == dataclasses.replace(TASKS[0], description="Research AI", expected_output=of_may)
    assert (TASKS[1], "Research tea") == (second, again.description)
    assert before == [dataclasses.asdict(dataclasses.replace(task, metadata={})) for task in TASKS]
    with pytest.raises(dataclasses.FrozenInstanceError):
        TASKS[0].description = "other"  # type: ignore[misc]


def test_one_task_or_agent_without_input_fails_all() -> None:
    """All are resolved before any is run, wherever in a tree it is missing."""
    with pytest.raises(PromptTemplateError) as of_tasks:
        resolve_tasks([TASKS[1], TASKS[0]], {"topic": "AI"})
    with pytest.raises(PromptTemplateError) as of_tree:
        resolve_agent(tree(), {"topic": "tea"})

    assert [("period",), ("team",)] == [each.value.missing_variables for each in (of_tasks, of_tree)]


def no_text(context: ReadonlyContext) -> str:
    """Return an instruction that is made when it is asked for."""
    return f"{{topic}} for {context.agent_name}"


class Team(BaseAgent):
    """An agent of an application's own kind."""

    size: int = 1


def tree() -> Team:
    """Return a tree of three levels whose texts have variables."""
    writer = LlmAgent(name="writer", description="Writes on {topic}", instruction="Write on {topic}.")
    leads = "Lead {team}, in the tone {user:tone?}, on {{topic}}."
    lead = LlmAgent(name="lead", description="Leads", instruction=leads, sub_agents=[writer])
    provider = LlmAgent(name="provider", instruction=no_text)
    return Team(name="root", size=3, description="Works on {topic}", sub_agents=[lead, provider])


def texts(agent: Any) -> list[tuple[str, str, Any]]:
    """Return name, description and instruction of *agent* and of all below it."""
    own = (agent.name, agent.description, getattr(agent, "instruction", None))
    return [own, *(line for below in agent.sub_agents for line in texts(below))]


def parents(agent: Any) -> list[tuple[str, bool]]:
    """Return for all below *agent* whether they know who they are below."""
    return [
        line
        for below in agent.sub_agents
        for line in [(below.name, below.parent_agent is agent), *parents(below)]
    ]


def test_a_tree_of_agents_is_resolved_down_to_its_leaves() -> None:
    """Descriptions and instructions; what the session's state will fill is left for it.

    The original tree stays as it is, with who is below whom. Agents stay of their kinds, and keep what else
    they have. One below others is resolved alone: its copy is the root of a tree.
    """
    original = tree()
    below = list(original.sub_agents)
    resolved = resolve_agent(original, {"topic": "tea", "team": "us"})

    assert [
        ("root", "Works on tea", None),
        ("lead", "Leads", "Lead us, in the tone {user:tone?}, on {topic}."),
        ("writer", "Writes on tea", "Write on tea."),
        ("provider", "", no_text),
    ] == texts(resolved)
    assert texts(tree()) == texts(original)
    assert all(was is now for was, now in zip(below, original.sub_agents, strict=True))
    for each in (original, resolved):
        assert [("lead", True), ("writer", True), ("provider", True)] == parents(each)
    assert [Team, LlmAgent, LlmAgent] == [type(each) for each in (resolved, *resolved.sub_agents)]
    assert 3 == resolved.size
    alone = resolve_agent(original.sub_agents[0], {"topic": "tea", "team": "us"})
    assert (None, original) == (alone.parent_agent, original.sub_agents[0].parent_agent)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: resolve_template("{a}", 5), "inputs must be a mapping or None, not int"),  # type: ignore[call-overload]
        (lambda: resolve_template("{a}", ["a"]), "inputs must be a mapping or None, not list"),  # type: ignore[call-overload]
        (lambda: resolve_tasks([PromptTask()], "a"), "inputs must be a mapping or None, not str"),  # type: ignore[arg-type]
        (lambda: resolve_tasks("ab", {}), "each of tasks must be a PromptTask, not str"),  # type: ignore[arg-type]
        (lambda: resolve_tasks(None, {}), "tasks must be an Iterable, not NoneType"),  # type: ignore[arg-type]
        (lambda: resolve_agent("a", {}), "agent must be an agent of ADK, not str"),  # type: ignore[type-var]
        (lambda: resolve_agent(LlmAgent(name="a"), 5), "inputs must be a mapping or None, not int"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_another_kind_are_refused(call: Callable[[], object], says: str) -> None:
    """By name, and with their kind."""
    with pytest.raises(InvalidInputError, match=says):
        call()
