from typing import Optional

WORDS = ("human", "person", "representative", "supervisor")


def before_model_callback(
    callback_context: CallbackContext, llm_request: LlmRequest
) -> Optional[LlmResponse]:
    """Hand over to a person who is asked for twice; ask back the first time."""
    said = " ".join(part.text_or_transcript() or "" for part in callback_context.get_last_user_input())
    if not any(word in said.lower() for word in WORDS):
        return None
    asked = callback_context.get_variable("wants_human", 0) + 1
    callback_context.set_variable("wants_human", asked)
    if asked == 1:
        return LlmResponse.from_parts(
            parts=[Part.from_text(text="I can help with most things. What is it about?")]
        )
    return LlmResponse.from_parts(
        parts=[
            Part.from_text(text="I am handing you over to a colleague."),
            Part.from_end_session(reason="asked for a person", escalated=True),
        ]
    )
