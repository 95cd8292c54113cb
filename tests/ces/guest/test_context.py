"""Code reads its session, and changes its variables."""

from typing import Any

import pytest

from tests.ces.guest.runs import as_tool, of_tool, result_of


def said(author: str, *texts: str, **more: Any) -> dict[str, Any]:
    """Return an event in which *author* says *texts*."""
    parts = [{"text": text} for text in texts]
    event = {"id": "e", "invocationId": "i", "author": author, "timestamp": 1.75, "content": {"parts": parts}}
    return {**event, **more}


USER_THEN_AGENT = [
    *(said("user", "old"), said("root", "old answer"), said("user", "a", "b"), said("user", "c")),
    *(said("root", "x"), said("helper", "y", "z")),
]


@pytest.mark.parametrize(
    ("events", "user", "agent"),
    [
        ([], [], []),
        ([said("root", "x")], [], ["x"]),
        ([said("user", "a")], ["a"], []),
        (USER_THEN_AGENT, ["a", "b", "c"], ["x", "y", "z"]),
        ([*USER_THEN_AGENT, said("user", "new")], ["new"], ["x", "y", "z"]),
        ([said("user", "a"), said("root", "x", content=None)], ["a"], []),
    ],
)
def test_the_last_input_and_output_are_whole_blocks_in_order(
    events: list[dict[str, Any]], user: list[str], agent: list[str]
) -> None:
    """Of the user's latest run of events and of the agents', whoever spoke last."""
    found = result_of(
        """
        texts = lambda parts: [part.text for part in parts]
        return [texts(context.get_last_user_input()), texts(context.get_last_agent_output())]
        """,
        context={"events": events},
    )

    assert found == [user, agent]


def test_the_user_is_no_agent() -> None:
    """Whatever is asked for by name; an error code that is empty is none; times are whole seconds, passed."""
    found = result_of(
        """
        user, agent, silent, failed = context.events
        asked = user.is_agent("user"), agent.is_agent("user"), agent.is_agent(""), agent.is_agent("root")
        times = [event.timestamp for event in context.events]
        return [asked, silent.parts(), user.has_error(), failed.has_error(), times]
        """,
        context={
            "events": [
                said("user", errorCode=""),
                said("root", timestamp=-1.5),
                said("user", content={"role": "user"}, timestamp=7),
                said("user", errorCode="E"),
            ]
        },
    )

    assert found == [[False, False, False, True], [], False, True, [1, -2, 7, 1]]


def test_state_and_variables_are_the_same_plain_dict() -> None:
    """Either can be replaced; all functions work on it. Changed actions are reported."""
    found = result_of(
        """
        same = context.state is context.variables and type(context.state) is dict
        context.variables = {"b": 2}
        set_variable("c", 3)
        context.set_variable("d", 4)
        return [same, context.state, get_variable("b"), get_variable("a"), get_variable("a", 0),
                context.get_variable("a", 1)]
        """,
        state={"a": 1},
    )

    assert found == [True, {"b": 2, "c": 3, "d": 4}, 2, None, 0, 1]

    changed = of_tool("def tool():\n    context.actions.transfer_to_agent = 'billing'")
    unchanged = of_tool("def tool(): pass", context={"actions": {"escalate": True}})

    assert changed["actions"] == {
        "stateDelta": {},
        "artifactDelta": {},
        "requestedAuthConfigs": {},
        **dict.fromkeys(["skipSummarization", "escalate", "endInvocation"], False),
        "transferToAgent": "billing",
    }
    assert unchanged["actions"] is None


def test_the_delta_is_what_changed() -> None:
    """Set to what it was is no change; a number that becomes a truth value is one, as is a nested change."""
    same = [1, {"x": None}]
    body = f"""
        set_variable("same", {same})
        set_variable("new", "n")
        set_variable("one", True)
        set_variable("inner", {{"one": True}})
        remove_variable("gone")
        context.state["nested"]["deep"].append(2)
        set_variable("again", 1)
        remove_variable("again")
    """
    before = {"same": same, "one": 1, "inner": {"one": 1}, "gone": 1, "nested": {"deep": [1]}, "kept": 0}
    answer = of_tool(as_tool(body), state=before)

    assert answer["state_delta"] == {
        "changed": {"new": "n", "one": True, "inner": {"one": True}, "nested": {"deep": [1, 2]}},
        "removed": ["gone"],
    }
    assert any("'nested' was changed inside" in text for text in answer["warnings"])


def test_a_variable_over_the_platforms_limit_is_an_error() -> None:
    """Of its JSON in UTF-8; the setting lifts it. One that was there before, and stays, is reported."""
    source = "def tool():\n    set_variable('big', 'é' * {})"
    error = of_tool(source.format(131_072))["error"]
    state = {"large": "x" * 262_143, "small": "x" * 262_142}
    before = of_tool("def tool():\n    return 1\n", context={"state": state})

    assert of_tool(source.format(131_070))["error"] is None
    assert error["type"] == "VariableTooLargeError"
    assert "the platform ends such a turn with FAILED_PRECONDITION" in error["message"]
    assert "262,146 bytes" in error["message"]
    assert of_tool(source.format(131_072), settings={"max_variable_bytes": None})["error"] is None
    assert before["error"] is None
    assert [text.split()[1] for text in before["warnings"]] == ["'large'"]
