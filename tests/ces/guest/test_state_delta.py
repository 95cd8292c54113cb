"""The delta of a run leads from the variables before to those after, whatever JSON they are."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ces.guest.runs import as_tool, of_tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=st.dictionaries(st.text(), JSON, max_size=4), after=st.dictionaries(st.text(), JSON, max_size=4)
)
def test_the_delta_leads_from_one_state_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whatever JSON it is; what was read and not changed is no part of it."""
    source = "def tool(after: dict):\n    context.variables = {**context.variables, **after}"
    answer = of_tool(source, state=before, args={"after": after})
    delta = answer["state_delta"]

    whole = {**before, **delta["changed"]}
    assert whole == {**before, **after}
    assert delta["removed"] == []
    assert set(delta["changed"]) <= set(after)
    assert of_tool(source, state=whole, args={"after": after})["state_delta"]["changed"] == {}


@pytest.mark.parametrize(
    ("body", "delta"),
    [
        ('remove_variable("large")', {"changed": {}, "removed": ["large"]}),
        ('context.remove_variable("large")', {"changed": {}, "removed": ["large"]}),
        ('set_variable("large", 1)', {"changed": {"large": 1}, "removed": []}),
        ('set_variable("large", 1); remove_variable("large")', {"changed": {}, "removed": ["large"]}),
        ('remove_variable("large"); set_variable("large", 1)', {"changed": {"large": 1}, "removed": []}),
        ('get_variable("large")', {"changed": {}, "removed": []}),
    ],
)
def test_a_variable_that_was_not_sent_can_be_removed_and_set(body: str, delta: dict[str, Any]) -> None:
    """Once: then it is gone, as others are."""
    context = {"withheld": ["large"]}

    assert delta == of_tool(as_tool(body), state={"a": 1}, context=context)["state_delta"]
    twice = of_tool(as_tool('remove_variable("large"); remove_variable("large")'), context=context)
    assert twice["error"]["type"] == "KeyError"
