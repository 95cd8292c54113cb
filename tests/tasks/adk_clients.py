"""Clients of agents that ADK serves over A2A."""

from pathlib import Path
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest
from google.adk.cli.fast_api import get_fast_api_app
from google.protobuf.json_format import MessageToJson

from tests.tasks.agent_server import card_at


def client_of_adk(name: str, **uris: Any) -> Client:
    """Serve the agent of a *name* in the folder ``agents`` by ADK; return the SDK's client of it."""
    card = card_at(f"http://server/a2a/{name}")
    card.name = name
    card.capabilities.Clear()
    Path("agents", name, "agent.json").write_text(MessageToJson(card))
    app = get_fast_api_app(agents_dir="agents", web=False, a2a=True, **uris)
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")
    return ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)


def said(text: str) -> SendMessageRequest:
    """Return a message of the user."""
    return SendMessageRequest(message=Message(role=Role.ROLE_USER, message_id="m", parts=[Part(text=text)]))
