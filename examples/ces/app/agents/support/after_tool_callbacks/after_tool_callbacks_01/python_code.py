from typing import Optional


def after_tool_callback(
    tool: Tool, input: dict, callback_context: CallbackContext, tool_response: dict
) -> Optional[dict]:
    """Remember an outage that was found, and let the model offer a message when it is over."""
    if tool.name != "check_services":
        return None
    found = tool_response.get("result", tool_response)
    outage = found.get("outage")
    if not outage:
        return None
    callback_context.set_variable("outage", {"service": outage["service"], "until": outage["until"]})
    found["agent_action"] = f"Say that {outage['service']} is out until {outage['until']}; offer a message."
    return None
