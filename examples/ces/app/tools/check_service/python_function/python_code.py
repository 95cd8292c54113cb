def check_service(service: str) -> dict:
    """Check one service at the customer's address.

    Args:
        service: electricity, gas or water.

    Returns:
        Whether it works; of an outage also when it will be over.
    """
    url = f"{get_variable('api_url')}/services/{service}"
    response = ces_requests.get(url, params={"postal_code": context.state["account"]["postal_code"]})
    if response.status_code != 200:
        return {"service": service, "working": None, "error": response.reason or "unknown service"}
    return response.json()
