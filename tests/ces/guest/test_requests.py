"""Code makes requests through the host: which ones, what they may carry, and what comes back."""

import pytest

from tests.ces.guest.runs import Host, of_tool, result_of


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


@pytest.mark.parametrize("keyword", ["timeout", "allow_redirects", "verify", "auth", "files", "cookies"])
def test_any_other_keyword_is_a_type_error_in_the_platforms_words(keyword: str) -> None:
    """Such as timeout, which the package requests has."""
    answer = of_tool(f"def tool():\n    ces_requests.get('https://a.example', {keyword}=1)")

    assert answer["error"]["type"] == "TypeError"
    assert answer["error"]["message"] == f"Requests.request() got an unexpected keyword argument {keyword!r}"


@pytest.mark.parametrize(
    "given",
    ["'https://a.example', data=b'x'", "'https://a.example', json=b'x'", "'a', params=b'x'", "b'https://a'"],
)
def test_bytes_cannot_be_sent(given: str) -> None:
    """The code may catch it."""
    found = result_of(
        f"""
        try:
            ces_requests.request("POST", {given})
        except TypeError as error:
            return str(error)
        """
    )

    assert found == "Object of type bytes is not JSON serializable"


@pytest.mark.parametrize(
    "call", ["tools.look_up({'a': value})", "ces_requests.get('https://a', params={'a': value})"]
)
@pytest.mark.parametrize(
    ("value", "message"),
    [("'\\ud800'", "surrogates not allowed"), ("float('nan')", "Out of range float values are not JSON")],
)
def test_what_json_and_utf_8_cannot_hold_is_not_sent(call: str, value: str, message: str) -> None:
    """The code may catch it, and the host is not asked."""
    host = Host()
    found = result_of(
        f"""
        value = {value}
        try:
            {call}
        except ValueError as error:
            return str(error)
        """,
        host=host,
        tools=["look_up"],
    )

    assert message in found
    assert host.calls == []
