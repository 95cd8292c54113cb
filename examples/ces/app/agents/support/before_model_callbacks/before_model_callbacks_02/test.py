"""The escalation, run in the sandbox as a turn runs it."""


def test_the_second_wish_hands_over(ces_callback) -> None:
    """And ends the session as escalated."""
    ran = ces_callback(said="I want a HUMAN", state={"wants_human": 1})

    text, end = ran.override["content"]["parts"]
    assert "colleague" in text["text"]
    assert end["functionCall"]["args"] == {"reason": "asked for a person", "session_escalated": True}
    assert ran.variables["wants_human"] == 2


def test_the_first_is_asked_back(ces_callback) -> None:
    """With the model's answer left out."""
    ran = ces_callback(said="a person, please")

    assert "What is it about?" in ran.override["content"]["parts"][0]["text"]


def test_anything_else_is_for_the_model(ces_callback) -> None:
    """And counts for nothing."""
    ran = ces_callback(said="my bill, please")

    assert ran.override is None
    assert ran.variables["wants_human"] == 0
