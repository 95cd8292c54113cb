"""Read private attributes of lent clients; no other module reads those of Google's clients.

A client that the library makes itself gets its session from the library instead.
"""

from typing import Any

import grpc
import requests
from google.auth.credentials import Credentials
from google.cloud.firestore import AsyncClient
from google.cloud.storage import Client


def channel_of(client: AsyncClient) -> tuple[grpc.aio.Channel, str, list[tuple[str, str]], str | None]:
    """Return the client's channel, its database's id, the metadata that it sends, and its emulator's address.

    A second channel would lack the client's credentials, interceptors and endpoint.
    """
    return (
        client._firestore_api.transport.grpc_channel,  # noqa: SLF001
        client._database,  # noqa: SLF001
        client._rpc_metadata,  # noqa: SLF001
        client._emulator_host or None,  # noqa: SLF001
    )


def session_of(client: Client) -> requests.Session:
    """Return the session: the client cannot send a single piece of an upload."""
    session: requests.Session = client._http  # noqa: SLF001
    return session


def credentials_of(client: Client) -> Any:
    """Return the credentials: the client signs with a key only, and IAM signs with these."""
    credentials: Credentials = client._credentials  # noqa: SLF001
    return credentials
