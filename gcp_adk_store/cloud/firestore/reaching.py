"""Wait for a channel's connection before an RPC, so that an RPC without one is known as not sent.

gRPC reports a refused connection and a lost answer alike: the status UNAVAILABLE, with a text that differs
from release to release. The state of the channel before the call is certain: what is not handed to gRPC was
not sent. What is handed to it while the channel is READY counts as sent, even if it ends just then.
"""

import asyncio
import socket

import grpc
from grpc import ChannelConnectivity as State

from gcp_adk_store import machine
from gcp_adk_store.errors import EmulatorMissingError, UnavailableError


async def reached(channel: grpc.aio.Channel, where: str, emulator: str | None, timeout_s: float) -> float:
    """Wait until *channel* has a connection; return the seconds that are left of *timeout_s*.

    Raises:
        EmulatorMissingError: nothing listens at the address of the *emulator*; nothing was sent.
        UnavailableError: no connection for now; nothing was sent.
        grpc.aio.UsageError: the channel is closed.
    """
    state = channel.get_state(try_to_connect=True)
    if state is State.READY:
        return timeout_s
    ends_at = machine.monotonic() + timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            while state in (State.IDLE, State.CONNECTING):
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
            if state is State.TRANSIENT_FAILURE and emulator is not None and await _refuses(emulator):
                raise EmulatorMissingError.at(emulator, "FIRESTORE_EMULATOR_HOST")
    except TimeoutError as exc:
        raise UnavailableError(f"{where}: no connection in time; nothing was sent; try again later") from exc
    if state is State.TRANSIENT_FAILURE:
        raise UnavailableError(f"{where}: no connection; nothing was sent; try again later")
    return max(ends_at - machine.monotonic(), 0.001)


async def _refuses(address: str) -> bool:
    """Return whether a connection to *address* is refused now: a channel in its pause does not tell."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    is_refused = False
    try:
        places = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, place in places:
        with socket.socket(family, kind, protocol) as probe:
            probe.settimeout(0)
            try:
                await loop.sock_connect(probe, place)
            except ConnectionRefusedError:
                is_refused = True
            except OSError:  # such as ::1 of a machine without IPv6
                continue
            else:
                return False
    return is_refused
