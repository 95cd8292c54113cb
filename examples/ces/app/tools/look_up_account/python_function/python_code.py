def look_up_account(account_number: str) -> dict:
    """Look up an account: whose it is, where, and what is owed.

    Args:
        account_number: Eight digits.

    Returns:
        The account, or an error and what to do about it.
    """
    response = ces_requests.get(
        f"{get_variable('api_url')}/accounts/{account_number}", headers={"Accept": "application/json"}
    )
    if response.status_code == 0:  # no answer at all raises nothing, and is ok
        return {"status": "error", "error": response.reason, "agent_action": "Apologise, and try once more."}
    if response.status_code == 404:
        return {"status": "error", "error": "no such account", "agent_action": "Ask for the number again."}
    try:
        response.raise_for_status()
    except StatusError as error:
        return {"status": "error", "error": error.reason, "agent_action": "Offer to call back."}
    account = response.json()
    set_variable("account", account)
    return {"status": "ok", "account": account}
