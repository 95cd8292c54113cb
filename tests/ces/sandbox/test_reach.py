"""Attack from inside, whatever else there is: no network, process, signal or memory of others is reached."""

import os
import socket

import pytest

from gcp_adk_store.ces.sandbox import BubblewrapSandbox
from tests.ces.sandbox.attacks import CALLS, OUTCOME
from tests.ces.sandbox.conftest import Run, number_of, outside, processes_of_runs, run_in


async def test_no_network_is_reached(run: Run) -> None:
    """Not even a server of this machine, nor a socket of a name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            OUTCOME
            + f"""
import socket
def abstract():
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("\\0gcp-adk-store-attack")
result = [
    outcome(lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5).close()),
    outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()),
    outcome(abstract),
]
"""
        )

        assert ["done"] * 3 == outside(code)
        server.settimeout(5)
        server.accept()[0].close()
        assert ["PermissionError"] * 3 == await run(code)
        server.setblocking(False)  # noqa: FBT003
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_without_the_filter_there_is_still_no_network(unfiltered: BubblewrapSandbox) -> None:
    """The namespace has a loopback of its own, and no way out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = await run_in(
            unfiltered,
            OUTCOME
            + f"""
import socket
to = lambda host, port: socket.create_connection((host, port), 5)
result = [outcome(lambda: to("127.0.0.1", {server.getsockname()[1]})), outcome(lambda: to("192.0.2.1", 80))]
result.append([name for _, name in socket.if_nameindex()])
""",
        )

    assert ["ConnectionRefusedError", "OSError", ["lo"]] == found


async def test_a_bomb_of_forks_ends_with_its_run(unfiltered: BubblewrapSandbox) -> None:
    """Where forks are not filtered their number is limited; all end with the first, in whichever session."""
    code = """
import os, time
made, failed = 0, 0
while not failed and made < 500:
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        made += 1
    except BlockingIOError:
        failed = 1
result = made
"""

    before = processes_of_runs()

    assert 1 <= await run_in(unfiltered, code, threads=20) < 20
    assert before == processes_of_runs()


async def test_signals_reach_nobody_else(run: Run, unfiltered: BubblewrapSandbox) -> None:
    """Neither the zygote, nor the keeper, nor a process group; filtered, and by the namespace alone."""
    code = (
        OUTCOME
        + """
import os, signal
targets = [0, -1, 2, 3, os.getppid(), -2, {host}]
result = [outcome(lambda: os.kill(target, {signal})) for target in targets]
"""
    )
    host = os.getpid()

    assert "done" == outside(code.format(host=host, signal=0))[-1]
    assert ["PermissionError"] * 7 == await run(code.format(host=host, signal=9))
    found = await run_in(unfiltered, code.format(host=host, signal=9))
    # kill(0) would be its own group, which as the first of its namespace it survives.
    assert ["done", "ProcessLookupError", "ProcessLookupError", "ProcessLookupError", "done"] == found[:5]
    assert ["ProcessLookupError"] * 2 == found[5:]


async def test_the_zygote_cannot_be_seen_even_without_the_filter(unfiltered: BubblewrapSandbox) -> None:
    """No /proc, no process to attach to, no memory to read or write by its number."""
    ptrace, write = number_of("ptrace"), number_of("process_vm_writev")
    code = (
        CALLS
        + f"""
import os
attach = {{errno_of({ptrace}, 16, pid, 0, 0) for pid in range(2, 400)}}
room = ctypes.create_string_buffer(8)
vector = (ctypes.c_long * 2)(ctypes.addressof(room), 8)
there = ctypes.addressof(vector)
write = {{errno_of({write}, pid, there, 1, there, 1, 0) for pid in range(2, 400)}}
result = [sorted(attach), sorted(write), os.listdir("/proc"), os.getpid(), os.getppid()]
"""
    )

    assert [[3], [3], [], 1, 0] == await run_in(unfiltered, code)


async def test_runs_do_not_share_random_numbers(run: Run) -> None:
    """The zygote's generators are seeded anew in each: Python's, numpy's, OpenSSL's, the kernel's."""
    code = """
import random, secrets, ssl, uuid, numpy
result = [random.random(), numpy.random.random(), ssl.RAND_bytes(8).hex()]
result += [secrets.token_hex(8), uuid.uuid4().hex]
"""
    first, second = await run(code), await run(code)

    assert not set(first) & set(second)
