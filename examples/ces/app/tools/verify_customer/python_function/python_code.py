def verify_customer(account_number: str, postal_code: str) -> dict:
    """Verify who the customer is, before anything is said of an account.

    Args:
        account_number: Eight digits, as on the bill.
        postal_code: Of the address that is supplied.

    Returns:
        Whether the customer is verified, or an error and what to do about it.
    """
    number = account_number.replace(" ", "")
    if len(number) != 8 or not number.isdigit():
        return {"status": "error", "error": "no account number", "agent_action": "Ask for the eight digits."}
    found = tools.look_up_account({"account_number": number}).json()["result"]
    if found["status"] != "ok":
        return found
    if found["account"]["postal_code"] != postal_code.strip():
        print(f"postal code of {number} does not match")
        return {"status": "error", "error": "not verified", "agent_action": "Ask for the postal code again."}
    set_variable("customer_id", number)
    set_variable("verified", True)
    return {"status": "ok", "verified": True, "name": found["account"]["name"]}
