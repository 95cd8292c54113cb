SERVICES = ("electricity", "gas", "water")


def check_services() -> dict:
    """Check all services at the customer's address, side by side.

    Returns:
        Each service with whether it works, and the first outage.
    """
    if not context.state.get("account"):
        return {"status": "error", "error": "no account", "agent_action": "Verify the customer first."}
    pending = [async_tools.check_service({"service": service}) for service in SERVICES]
    found = [answer().json()["result"] for answer in pending]
    outage = next((each for each in found if each["working"] is False), None)
    return {"status": "ok", "services": found, "outage": outage}
