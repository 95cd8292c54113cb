from typing import Optional


def before_model_callback(
    callback_context: CallbackContext, llm_request: LlmRequest
) -> Optional[LlmResponse]:
    """Greet at the start of a session, without the model."""
    said = " ".join(part.text_or_transcript() or "" for part in callback_context.get_last_user_input())
    if "<event>session start</event>" not in said or callback_context.get_variable("greeted", False):
        return None
    callback_context.set_variable("greeted", True)
    return LlmResponse.from_parts(
        parts=[
            Part.from_customized_response(
                content="Welcome to utility support. What is your account number?", disable_barge_in=True
            )
        ]
    )
