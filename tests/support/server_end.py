"""Close the services of URIs, as ADK's server does when it ends."""

from fastapi import FastAPI

from gcp_adk_store.adk_server import lifespan


async def close_services() -> None:
    """Close all that this process made for URIs; a later call of a service opens its own again."""
    async with lifespan(FastAPI()):
        pass
