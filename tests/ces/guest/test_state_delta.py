"""The delta of a run leads from the variables before to those after, whatever JSON they are."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ces.guest.runs import of_tool

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
