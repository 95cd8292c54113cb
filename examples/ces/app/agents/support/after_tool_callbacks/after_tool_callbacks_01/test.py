"""What follows from an outage, run in the sandbox."""

RESULT = {"result": {"status": "ok", "outage": {"service": "gas", "until": "18:00", "working": False}}}


def test_an_outage_is_remembered_and_the_model_told(ces_callback) -> None:
    """In place: the response is the tool's own, with something added."""
    ran = ces_callback(tool="check_services", args={}, tool_response=RESULT)

    assert ran.override is None
    assert ran.variables["outage"] == {"service": "gas", "until": "18:00"}
    assert "gas is out until 18:00" in ran.tool_response["result"]["agent_action"]


def test_other_tools_are_left_alone(ces_callback) -> None:
    """Whatever they answer."""
    ran = ces_callback(tool="check_service", args={}, tool_response=RESULT)

    assert ran.variables["outage"] == {}
    assert not ran.changed
