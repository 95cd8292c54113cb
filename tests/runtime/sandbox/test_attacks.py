"""Attack from inside: nothing of the host is read, written, reached or ended.

What is safe outside is tried there too, so that no attack fails for a reason of its own.
"""

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.runtime.sandbox import (
    BubblewrapSandbox,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from tests.runtime.sandbox.conftest import Run, no_host, number_of, outside, processes_of_runs, run_in

pytestmark = pytest.mark.xdist_group("sandbox")

CALLS = """
import ctypes
_libc = ctypes.CDLL(None, use_errno=True)
def errno_of(number, *arguments):
    ctypes.set_errno(0)
    found = _libc.syscall(number, *(ctypes.c_long(each) for each in arguments))
    return ctypes.get_errno() if found == -1 else 0
"""

OUTCOME = """
def outcome(act):
    try:
        act()
    except BaseException as exc:
        return type(exc).__name__
    return "done"
"""


async def test_no_file_of_the_host_is_there(run: Run, tmp_path: Path) -> None:
    """Neither system files nor a user's; opened, listed, or by a link from /tmp."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    code = (
        OUTCOME
        + f"""
import os
paths = ["/etc/passwd", "/usr/bin/env", "/sys/kernel", {str(secret)!r}]
result = [outcome(lambda: os.stat(path)) for path in paths]
result += [outcome(lambda: os.listdir({str(tmp_path)!r}))]
"""
    )
    linked = """
import os
def follow():
    os.symlink("/etc/passwd", "/tmp/link")
    open("/tmp/link").read()
result = outcome(follow)
"""

    assert ["done"] * 5 == outside(code)
    assert ["FileNotFoundError"] * 5 == await run(code)
    assert "FileNotFoundError" == await run(OUTCOME + linked)


async def test_what_is_there_is_the_interpreter_and_its_libraries(run: Run, environment_folder: Path) -> None:
    """Every file that a walk finds is one of them, a time zone, a device or the library's own part."""
    told = json.loads((environment_folder / "interpreter.json").read_text())
    allowed = (
        *told["interpreter"]["library"],
        told["interpreter"]["executable"],
        *told["libraries"],
        "/sandbox/site/",
        "/sandbox/code/",
        "/usr/share/zoneinfo/",
        "/dev/null",
        "/dev/urandom",
    )
    seen = await run("import os; result = [os.path.join(a, f) for a, _, fs in os.walk('/') for f in fs]")

    assert len(seen) > 1000
    assert [] == [path for path in seen if not path.startswith(allowed)]
    assert [] == [path for path in seen if "/site-packages/" in path]


async def test_nothing_but_its_own_folder_can_be_written(run: Run) -> None:
    """Neither the interpreter nor what the next call will load."""
    code = (
        OUTCOME
        + """
import json, os
places = ["/new", "/sandbox/code/new", "/sandbox/site/new", "/dev/new", "/proc/new", json.__file__]
result = [outcome(lambda: open(place, "a")) for place in places]
result += [outcome(lambda: os.remove(json.__file__)), outcome(lambda: open("/tmp/new", "a"))]
"""
    )
    found = await run(code)

    assert set(found[:-1]) <= {"OSError", "PermissionError", "FileNotFoundError"}
    assert "FileNotFoundError" not in found[-3:]
    assert "done" == found[-1]
    assert [] == await run("import os; result = os.listdir('/tmp')")


async def test_the_environment_is_empty(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """For Python, and for the C library."""
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    code = """
import ctypes, os
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
result = [os.environ.get("SECRET_TOKEN"), (getenv(b"SECRET_TOKEN") or b"").decode()]
"""

    assert ["secret", "secret"] == outside(code)
    assert [None, ""] == await run(code)
    assert {} == await run("import os; result = dict(os.environ)")


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


async def test_no_process_is_started(run: Run) -> None:
    """Neither a fork nor another program, by Python or by the C library."""
    code = (
        OUTCOME
        + """
import os, subprocess, sys
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
result = [
    outcome(fork),
    outcome(lambda: subprocess.run([sys.executable, "-c", ""], check=True)),
    outcome(lambda: os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}), 0)),
]
"""
    )

    assert ["done"] * 3 == outside(code)
    assert ["PermissionError"] * 3 == await run(code)


async def test_a_bomb_of_forks_ends_with_its_run(unfiltered: BubblewrapSandbox) -> None:
    """Where forks are not filtered their number is limited, and all of them end with the first."""
    code = """
import os, time
made, failed = 0, 0
while not failed and made < 500:
    try:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
    except BlockingIOError:
        failed = 1
result = made
"""

    before = processes_of_runs()

    assert 1 <= await run_in(unfiltered, code, threads=20) < 20
    assert before == processes_of_runs()


# Calls that anybody may make outside, then those that only root may, then those that are not tried outside.
FOR_ALL = ["add_key", "bind", "connect", "execve", "execveat", "inotify_init1", "keyctl", "listen"]
FOR_ALL += ["memfd_create", "mq_open", "msgget", "name_to_handle_at", "pidfd_getfd", "pidfd_open"]
FOR_ALL += ["pidfd_send_signal", "prctl", "process_vm_readv", "process_vm_writev", "ptrace", "request_key"]
FOR_ALL += ["seccomp", "semget", "sendmsg", "setns", "shmget", "socket", "splice", "tee", "unshare"]
FOR_ALL += ["vmsplice"]
FOR_ROOT = ["acct", "bpf", "chroot", "fanotify_init", "finit_module", "fsopen", "init_module", "ioperm"]
FOR_ROOT += ["io_uring_setup", "kcmp", "mount", "open_by_handle_at", "perf_event_open", "personality"]
FOR_ROOT += ["pivot_root", "quotactl", "swapon", "syslog", "umount2", "userfaultfd"]
UNTRIED = ["adjtimex", "capset", "clock_adjtime", "clock_settime", "delete_module", "fork", "iopl"]
UNTRIED += ["kexec_load", "mbind", "move_pages", "pkey_alloc", "reboot", "remap_file_pages", "sethostname"]
UNTRIED += ["setdomainname", "setresuid", "settimeofday", "setuid", "swapoff", "vfork", "vhangup"]


async def test_system_calls_that_are_not_listed_are_refused_to_native_code(run: Run) -> None:
    """By number, past Python and the C library; outside, only their arguments are found fault with."""
    tried = FOR_ALL + (FOR_ROOT if os.geteuid() == 0 else [])
    numbers = {name: number_of(name) for name in tried}
    code = CALLS + "result = {name: errno_of(each, -1, 0, 0, 0, 0) for name, each in %r.items()}"
    controls = outside(code % numbers)
    numbers |= {name: number_of(name) for name in FOR_ROOT + UNTRIED}
    refused = await run(code % numbers)

    assert [] == [name for name, errno in controls.items() if errno == 1]
    assert dict.fromkeys(numbers, 1) == refused


async def test_a_new_way_to_clone_is_unknown_and_the_old_makes_threads_alone(run: Run) -> None:
    """clone3 hides its flags from a filter; clone with none or with a namespace's makes a process."""
    clone, clone3 = number_of("clone"), number_of("clone3")
    flags = [0x11, 0x10000000, 0x10000 | 0x10000000, 0x20000, 0x02000000, 0x40000000]
    code = CALLS + f"result = [errno_of({clone}, flag, 0, 0, 0, 0) for flag in {flags}]"

    assert [1] * len(flags) == await run(code)
    assert 38 == await run(f"{CALLS}result = errno_of({clone3}, 0, 0)")
    assert 22 == outside(f"{CALLS}result = errno_of({clone3}, 0, 0)")


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


async def test_it_has_no_right_and_gets_none_even_without_the_filter(
    unfiltered: BubblewrapSandbox,
) -> None:
    """What was mounted over /proc stays there; a new user namespace does not uncover it."""
    code = (
        CALLS
        + f"""
import os
proc, name = ctypes.create_string_buffer(b"/proc"), ctypes.create_string_buffer(b"x")
result = [
    errno_of({number_of("umount2")}, ctypes.addressof(proc), 2),
    errno_of({number_of("sethostname")}, ctypes.addressof(name), 1),
    errno_of({number_of("setuid")}, 0),
    errno_of({number_of("unshare")}, 0x10020000),
    errno_of({number_of("umount2")}, ctypes.addressof(proc), 2),
    os.listdir("/proc"),
]
"""
    )
    found = await run_in(unfiltered, code)

    assert [1, 1, 22, 0] == found[:4]
    assert found[4] != 0
    assert [] == found[5]


async def test_a_run_leaves_nothing_to_the_next(run: Run) -> None:
    """Neither what it changed in its interpreter, nor files, nor threads."""
    poison = """
import builtins, json, os, random, sys, threading
builtins.open = builtins.print = json.dumps = json.loads = os.read = None
sys.modules["numpy"] = None
sys.path.clear()
open_again = os.open("/tmp/left", os.O_CREAT | os.O_WRONLY)
threading.Thread(target=lambda: __import__("time").sleep(60)).start()
os.environ["LEFT"] = "1"
"""
    look = """
import builtins, json, os, sys, threading
result = [
    builtins.open is not None, json.loads("[1]"), "numpy" in sys.modules and sys.modules["numpy"] is not None,
    len(sys.path) > 2, os.listdir("/tmp"), threading.active_count(), dict(os.environ),
]
"""
    with pytest.raises(SandboxError):
        await run(poison)

    assert [True, [1], True, True, [], 1, {}] == await run(look)


async def test_a_run_has_no_file_but_its_own(run: Run) -> None:
    """Standard input is nothing, both outputs are one, and by 3 it speaks with the host."""
    code = """
import os, stat
def kind(number):
    try:
        return stat.S_IFMT(os.fstat(number).st_mode)
    except OSError:
        return None
kinds = {number: kind(number) for number in range(1024) if kind(number)}
result = [sorted(kinds), kinds[0] == stat.S_IFCHR, os.read(0, 1) == b""]
"""

    assert [[0, 1, 2, 3], True, True] == await run(code)


async def test_runs_do_not_share_random_numbers(run: Run) -> None:
    """The zygote's generators are seeded anew in each: Python's, numpy's, OpenSSL's, the kernel's."""
    code = """
import random, secrets, ssl, uuid, numpy
result = [random.random(), numpy.random.random(), ssl.RAND_bytes(8).hex()]
result += [secrets.token_hex(8), uuid.uuid4().hex]
"""
    first, second = await run(code), await run(code)

    assert not set(first) & set(second)


async def test_the_clock_of_the_host_stays(run: Run) -> None:
    """It can be read, and not be set."""
    code = OUTCOME + "import time; result = outcome(lambda: time.clock_settime(time.CLOCK_REALTIME, 0))"

    assert "PermissionError" == await run(code)
    assert await run("import time; result = time.time()") > 1.7e9


ENDS: dict[str, tuple[str, dict[str, Any], type[SandboxError]]] = {
    "an endless loop": ("while True: pass", {"wall_s": 0.3}, SandboxTimeoutError),
    "an endless loop that ignores signals": (
        "import signal\nfor n in (2, 14, 15, 24): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        {"wall_s": 0.3},
        SandboxTimeoutError,
    ),
    "an endless sleep": ("import time; time.sleep(600)", {"wall_s": 0.3}, SandboxTimeoutError),
    "an endless match": (
        "import re; re.match('(a+)+$', 'a' * 40 + 'b')",
        {"wall_s": 0.3},
        SandboxTimeoutError,
    ),
    "processor time": ("while True: pass", {"cpu_s": 1}, SandboxTimeoutError),
    "4 GB": ("x = bytearray(4 * 10**9)", {}, SandboxMemoryError),
    "memory little by little": ("x = []\nwhile True: x.append(bytearray(10**7))", {}, SandboxMemoryError),
    "a flood of text": ("while True: print('x' * 10_000)", {}, SandboxOutputError),
    "a flood past Python": ("import os\nwhile True: os.write(1, b'x' * 10_000)", {}, SandboxOutputError),
    "a large result": ("result = 'x' * 9_000_000", {}, SandboxOutputError),
    "os._exit": ("import os; os._exit(0)", {}, SandboxCrashError),
    "abort": ("import os; os.abort()", {}, SandboxCrashError),
    "a bad pointer": ("import ctypes; ctypes.string_at(8)", {}, SandboxCrashError),
    "a closed way to the host": ("import os; os.close(3)\nwhile True: pass", {}, SandboxCrashError),
    "no JSON": ("result = {1, 2}", {}, SandboxCrashError),
    "no text": ("result = chr(0xD800)", {}, SandboxCrashError),
    "sys.exit": ("import sys; sys.exit(3)", {}, SandboxCrashError),
    "noise as a frame": ("import os; os.write(3, b'noise' * 10)\nwhile True: pass", {}, SandboxProtocolError),
    "a frame of 4 GB": ("import os; os.write(3, b'\\xff' * 8)\nwhile True: pass", {}, SandboxProtocolError),
    "too many calls": (
        "for _ in range(9): call_host({})",
        {"host_calls": 5},
        SandboxProtocolError,
    ),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_run_that_goes_too_far_is_ended_and_the_next_works(
    sandbox: BubblewrapSandbox, name: str
) -> None:
    """With an error of its kind, and in bounded time."""
    code, limits, kind = ENDS[name]

    async def answer(call: dict[str, Any]) -> dict[str, Any]:
        return call

    with pytest.raises(kind) as caught:
        await sandbox.run({"code": f"print('begun')\n{code}"}, answer, limits=Limits(**limits))

    assert kind is type(caught.value)
    assert caught.value.output.startswith("begun\n")
    assert len(caught.value.output) <= Limits().output_bytes
    assert 2 == await run_in(sandbox, "result = 1 + 1")


def forged(frame: str) -> str:
    """Return code that sends a frame past the library."""
    return f"""
import os, json
text = ({frame}).encode()
text = len(text).to_bytes(4, "big") + text
while text:
    text = text[os.write(3, text):]
os.read(3, 1)
"""


@pytest.mark.parametrize(
    "frame",
    [
        "json.dumps({'kind': 'other'})",
        "json.dumps([1])",
        "json.dumps({'kind': 'call', 'id': -1, 'call': {}})",
        "json.dumps({'kind': 'call', 'id': True, 'call': {}})",
        "json.dumps({'kind': 'call', 'id': 1, 'call': []})",
        "json.dumps({'kind': 'call', 'id': 1, 'call': {}, 'more': 1})",
        "json.dumps({'kind': 'answer', 'id': 1, 'answer': {}})",
        "json.dumps({'kind': 'result', 'result': 1})",
        "json.dumps({'kind': 'failed', 'reason': 'mine', 'message': ''})",
        '\'{"kind": "result", "result": {"x": NaN}}\'',
        '\'{"kind": "result", "result": {"x": 1e999}}\'',
        '\'{"kind": "result", "result": {"x": "\\\\ud800"}}\'',
        "'{\"kind\": \"result\", \"result\": {\"x\": ' + '[' * 200 + ']' * 200 + '}}'",
        "'[' * 100_000",
        "'[' + '1,' * 1_100_000 + '1]'",
    ],
)
async def test_a_forged_frame_ends_the_run(sandbox: BubblewrapSandbox, frame: str) -> None:
    """Whatever its shape, before anything is made of it."""
    with pytest.raises(SandboxProtocolError):
        await sandbox.run({"code": forged(frame)}, no_host)

    assert 2 == await run_in(sandbox, "result = 1 + 1")


async def test_two_calls_of_one_number_end_the_run(sandbox: BubblewrapSandbox) -> None:
    """The answer of one could be taken for that of the other."""
    once = "json.dumps({'kind': 'call', 'id': 7, 'call': {}})"

    async def never(_call: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.Future[dict[str, Any]]()

    code = forged(once).replace("os.read(3, 1)", forged(once))
    with pytest.raises(SandboxProtocolError, match="twice"):
        await sandbox.run({"code": code}, never)


async def test_files_are_limited_in_size_and_number(run: Run) -> None:
    """All together, in memory that ends with the run."""
    code = (
        OUTCOME
        + """
import os
def fill():
    for number in range(10):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(4 * 2**20))
def many():
    for number in range(3000):
        open(f"/tmp/n{number}", "wb").close()
result = [outcome(fill), sum(os.stat(f"/tmp/{name}").st_size for name in os.listdir("/tmp")) <= 2**24]
[os.remove(f"/tmp/{name}") for name in os.listdir("/tmp")]
result += [outcome(many), len(os.listdir("/tmp")) <= 1024]
files = []
result += [outcome(lambda: [files.append(open("/dev/null")) for _ in range(100)]), len(files) < 64]
"""
    )

    assert ["OSError", True, "OSError", True, "OSError", True] == await run(code)


async def test_threads_are_limited(run: Run) -> None:
    """Beyond, starting one fails; below, it does not."""
    code = """
import threading
done, made = threading.Event(), 0
threading.stack_size(64 * 1024)
try:
    for made in range(200):
        threading.Thread(target=done.wait).start()
except RuntimeError:
    pass
done.set()
result = made
"""

    assert 20 < await run(code, threads=40) < 40
    assert 199 == outside(code)


async def test_native_code_can_not_come_from_a_file(run: Run) -> None:
    """A library that was written to /tmp cannot be loaded."""
    code = (
        OUTCOME
        + """
import ctypes, shutil, tempfile, _ctypes
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(_ctypes.__file__, folder + "/library.so")
    result = outcome(lambda: ctypes.CDLL(folder + "/library.so"))
"""
    )

    assert "done" == outside(code)
    assert "OSError" == await run(code)
