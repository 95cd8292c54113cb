"""Serve the inspector behind Identity-Aware Proxy on Cloud Run, on the store that the environment names.

``INSPECTOR_AUDIENCE`` is the audience of the proxy's signed header,
``/projects/NUMBER/locations/REGION/services/NAME``, and ``INSPECTOR_HOST`` the host of the service's address.
Requests that the proxy did not sign are refused, also those of callers that reach the service around it.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from gcp_adk_store import Store
from gcp_adk_store.inspector import IapAuthorization, create_app

store = Store.from_env()


@asynccontextmanager
async def closing(app: FastAPI) -> AsyncIterator[None]:
    """Close the connections of the store with the server."""
    del app
    async with store:
        yield


app = FastAPI(lifespan=closing, docs_url=None, redoc_url=None, openapi_url=None)
app.mount(
    "/",
    create_app(
        store,
        authorize=IapAuthorization(os.environ["INSPECTOR_AUDIENCE"]),
        hosts=[os.environ["INSPECTOR_HOST"]],
    ),
)
# Cloud Run ends TLS, and says so in a header: without it, cookies would not be for https alone.
app.add_middleware(ProxyHeadersMiddleware, trusted_hosts="*")

if __name__ == "__main__":
    uvicorn.run(
        app,
        host="0.0.0.0",  # noqa: S104  # Cloud Run's proxy is the only way in
        port=int(os.environ.get("PORT", "8080")),
    )
