from typing import Optional

SILENCE = "no user activity detected"
MOST = 3


def before_model_callback(
    callback_context: CallbackContext, llm_request: LlmRequest
) -> Optional[LlmResponse]:
    """Ask twice whether the customer is still there, then end the session."""
    said = " ".join(part.text_or_transcript() or "" for part in callback_context.get_last_user_input())
    if SILENCE not in said:
        if callback_context.get_variable("silences", 0):
            callback_context.set_variable("silences", 0)
        return None
    silences = callback_context.get_variable("silences", 0) + 1
    callback_context.set_variable("silences", silences)
    if silences < MOST:
        return LlmResponse.from_parts(parts=[Part.from_text(text="Are you still there?")])
    return LlmResponse.from_parts(
        parts=[
            Part.from_text(text="I cannot hear you. Please call again."),
            Part.from_end_session(reason="silence"),
        ]
    )
