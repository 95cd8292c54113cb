"""The farewell, called directly, with the helper names of other test suites."""

import python_code
from python_code import CallbackContext, LlmResponse, Part


def test_an_end_without_a_word_gets_one() -> None:
    """Before the session ends."""
    response = LlmResponse.from_parts([Part.from_end_session(reason="done")])
    returned = python_code.after_model_callback(CallbackContext(state={"account": {"name": "Ada"}}), response)

    assert returned is None
    assert [part.text for part in response.content.parts] == ["Goodbye, Ada.", None]


def test_an_end_with_words_is_left_alone() -> None:
    """So is whatever does not end."""
    for parts in (
        [Part.from_text(text="Bye."), Part.from_end_session(reason="done")],
        [Part.from_text(text="Hi.")],
    ):
        response = LlmResponse.from_parts(parts)
        python_code.after_model_callback(CallbackContext(), response)

        assert len(response.content.parts) == len(parts)
