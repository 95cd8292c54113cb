from typing import Optional


def after_model_callback(
    callback_context: CallbackContext, llm_response: LlmResponse
) -> Optional[LlmResponse]:
    """Say goodbye before the session ends, where the model forgot to."""
    parts = llm_response.content.parts or []
    if not any(part.has_function_call("end_session") for part in parts):
        return None
    if any(part.text for part in parts):
        return None
    name = callback_context.get_variable("account", {}).get("name", "")
    llm_response.content.parts[:] = [Part.from_text(text=f"Goodbye, {name}.".replace(", .", ".")), *parts]
    return None
