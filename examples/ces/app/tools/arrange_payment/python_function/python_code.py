def arrange_payment(months: int) -> dict:
    """Arrange that what is owed is paid in equal parts, a month each; only for a verified customer.

    Args:
        months: How many parts, 2 to 12.

    Returns:
        The parts in cents, or an error and what to do about it.
    """
    if not get_variable("verified"):
        return {"status": "error", "error": "not verified", "agent_action": "Verify the customer first."}
    months = int(months)  # numbers may arrive as 3.0
    if not 2 <= months <= 12:
        return {"status": "error", "error": "2 to 12 months", "agent_action": "Offer 2 to 12 months."}
    owed = context.variables["account"]["owed_cents"]
    part, rest = divmod(owed, months)
    parts = [part + 1] * rest + [part] * (months - rest)
    set_variable("arrangement", {"months": months, "parts_cents": parts})
    return {"status": "ok", "parts_cents": parts, "total_cents": sum(parts)}
