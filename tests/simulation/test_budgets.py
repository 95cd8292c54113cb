"""No operation takes another number of round trips, requests or billed operations than is agreed."""

import json

from tests.simulation import budgets


def test_each_operation_takes_what_is_agreed() -> None:
    """``make budgets`` prints the table."""
    assert [] == budgets.differences(budgets.measured(), json.loads(budgets.AGREED.read_text()))


def test_another_figure_is_named() -> None:
    """A lower one, a new operation and one that is gone, too."""
    found = {"one": {"trips": 2, "get": 1}, "new": {"trips": 1}}

    assert [
        "gone: commit 0, agreed 1",
        "new: trips 1, agreed 0",
        "one: get 1, agreed 2",
    ] == budgets.differences(found, {"one": {"trips": 2, "get": 2}, "gone": {"commit": 1}})
