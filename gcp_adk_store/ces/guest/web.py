"""Let code make HTTP requests through the host."""

import enum
from collections.abc import Callable
from typing import Any

from .external import ExternalResponse
from .host_calls import HostCalls, response_of

Awaited = Callable[[], ExternalResponse]


class HttpMethod(enum.StrEnum):
    """What is asked of a URL."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"
    PATCH = "PATCH"
    HEAD = "HEAD"
    OPTIONS = "OPTIONS"


class Requests:
    """HTTP in the manner of the package requests.

    The keywords are ``params``, ``data``, ``json`` and ``headers``; any other is a TypeError, as is data of
    bytes. An answer that did not come raises nothing: its status code is 0. Each method has one of the name
    ``async_...``, which begins the request and returns a function that waits for the answer.
    """

    def __init__(self, calls: HostCalls) -> None:
        self._calls = calls

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Any = None,
        data: Any = None,
        headers: Any = None,
        json: Any = None,
    ) -> ExternalResponse:
        """Return the answer to a request."""
        return response_of(
            self._calls.ask(_call(method, url, params=params, data=data, headers=headers, json=json))
        )

    def get(self, url: str, params: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a GET."""
        return self.request(HttpMethod.GET, url, params=params, **kwargs)

    def post(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a POST."""
        return self.request(HttpMethod.POST, url, data=data, json=json, **kwargs)

    def put(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a PUT."""
        return self.request(HttpMethod.PUT, url, data=data, json=json, **kwargs)

    def delete(self, url: str, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a DELETE."""
        return self.request(HttpMethod.DELETE, url, **kwargs)

    def patch(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a PATCH."""
        return self.request(HttpMethod.PATCH, url, data=data, json=json, **kwargs)

    def head(self, url: str, **kwargs: Any) -> ExternalResponse:
        """Return the answer to a HEAD."""
        return self.request(HttpMethod.HEAD, url, **kwargs)

    def options(self, url: str, **kwargs: Any) -> ExternalResponse:
        """Return the answer to OPTIONS."""
        return self.request(HttpMethod.OPTIONS, url, **kwargs)

    def async_request(
        self,
        method: str,
        url: str,
        *,
        params: Any = None,
        data: Any = None,
        headers: Any = None,
        json: Any = None,
    ) -> Awaited:
        """Begin a request."""
        reply = self._calls.begin(_call(method, url, params=params, data=data, headers=headers, json=json))
        return lambda: response_of(reply())

    def async_get(self, url: str, params: Any = None, **kwargs: Any) -> Awaited:
        """Begin a GET."""
        return self.async_request(HttpMethod.GET, url, params=params, **kwargs)

    def async_post(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Awaited:
        """Begin a POST."""
        return self.async_request(HttpMethod.POST, url, data=data, json=json, **kwargs)

    def async_put(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Awaited:
        """Begin a PUT."""
        return self.async_request(HttpMethod.PUT, url, data=data, json=json, **kwargs)

    def async_delete(self, url: str, **kwargs: Any) -> Awaited:
        """Begin a DELETE."""
        return self.async_request(HttpMethod.DELETE, url, **kwargs)

    def async_patch(self, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Awaited:
        """Begin a PATCH."""
        return self.async_request(HttpMethod.PATCH, url, data=data, json=json, **kwargs)

    def async_head(self, url: str, **kwargs: Any) -> Awaited:
        """Begin a HEAD."""
        return self.async_request(HttpMethod.HEAD, url, **kwargs)

    def async_options(self, url: str, **kwargs: Any) -> Awaited:
        """Begin OPTIONS."""
        return self.async_request(HttpMethod.OPTIONS, url, **kwargs)


def _call(method: str, url: object, **given: Any) -> dict[str, Any]:
    present = {name: value for name, value in given.items() if value is not None}
    # Bytes stay bytes, so that they are refused as not JSON, instead of sent as the URL "b'...'".
    asked = url if isinstance(url, bytes) else str(url)
    return {"call": "http", "method": str(method).upper(), "url": asked, **present}
