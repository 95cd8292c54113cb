"""Code makes requests through the host: which ones, what they may carry, and what comes back."""

import pytest

from tests.ces.guest.runs import Host, result_of


@pytest.mark.parametrize("method", ["get", "post", "put", "delete", "patch", "head", "options"])
@pytest.mark.parametrize("prefix", ["", "async_"])
def test_a_request_has_its_method_and_what_it_was_given(method: str, prefix: str) -> None:
    """The four accepted keywords; what is None is left out."""
    host = Host()
    wait = "()" if prefix else ""
    result_of(
        f"""
        return ces_requests.{prefix}{method}(
            url="https://a.example", headers={{"A": "b"}}, params={{"q": [1]}}, data="x", json={{"j": None}}
        ){wait}.status_code
        """,
        host=host,
    )

    assert host.calls[0] == {
        "call": "http",
        "id": 1,
        "method": method.upper(),
        "url": "https://a.example",
        "headers": {"A": "b"},
        "params": {"q": [1]},
        "data": "x",
        "json": {"j": None},
        **({"background": True} if prefix else {}),
    }


def test_a_request_may_name_its_method() -> None:
    """As text or as HttpMethod."""
    host = Host()
    result_of(
        """
        ces_requests.request("get", "https://a.example")
        ces_requests.request(HttpMethod.PUT, "https://a.example")
        ces_requests.async_request(method="POST", url="https://a.example")()
        ces_requests.get("https://a.example", {"q": 1})
        """,
        host=host,
    )

    assert [call.get("method") for call in host.calls] == ["GET", "PUT", "POST", None, "GET"]
    assert host.calls[-1]["params"] == {"q": 1}
