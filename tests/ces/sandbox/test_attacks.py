"""Attack from inside: no right is gained, nothing of the host is reached, and excess ends the run alone."""

import asyncio
import json
import os
import platform
import socket
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from tests.ces.sandbox.conftest import (
    ASKS_AND_GOES_ON,
    THREADS,
    Run,
    number_of,
    outside,
    processes_of_runs,
    run_in,
    too_late,
)
from tests.support.clock import PassingTime
from tests.support.lengths import at_length

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


def tries(code: str) -> str:
    """Return *code* with the function ``outcome``, which says what became of an act."""
    return OUTCOME + code


def calling(code: str) -> str:
    """Return *code* with the function ``errno_of``, which makes a system call by its number."""
    return CALLS + code


# Calls that anybody may make outside, then those that only root may, then those that are not tried outside.
FOR_ALL = ["add_key", "bind", "connect", "execve", "execveat", "flock", "inotify_init1", "keyctl"]
FOR_ALL += ["listen"]
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
GETPID = {
    "x86_64": (("b8270000000f05c3", "48b827000000010000000f05c3"), ("b814000000cd80c3", "b8270000400f05c3"))
}
"""Instructions that call it by this architecture's numbers, and by others'."""


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


async def test_it_has_no_right_and_gets_none_even_without_the_filter(
    unfiltered: BubblewrapSandbox,
) -> None:
    """What was mounted over /proc stays there; a new user namespace does not uncover it."""
    code = calling(f"""
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
""")
    found = await run_in(unfiltered, code)

    assert [1, 1, 22, 0] == found[:4]
    assert found[4] != 0
    assert [] == found[5]


async def test_other_architectures_are_no_way_past_the_filter(run: Run) -> None:
    """A getpid of i386 or of x32 kills; that of this one is allowed, whatever is above its 32 bits."""
    code = """
import ctypes, mmap
room = mmap.mmap(-1, 4096, prot=7)
room.write(bytes.fromhex({instructions!r}))
result = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(room)))()
"""
    own, foreign = GETPID.get(platform.machine(), ((), ()))

    for instructions in own:
        assert 1 == await run(code.format(instructions=instructions))
    for instructions in foreign:
        with pytest.raises(SandboxCrashError, match="SIGSYS"):
            await run(code.format(instructions=instructions))


async def test_what_others_read_is_not_watched(run: Run) -> None:
    """Folders of the host by fcntl; its signals, and leases and locks of whole files, are refused as well."""
    code = tries("""
import fcntl, json, os
folder, file = os.open(os.path.dirname(json.__file__), os.O_RDONLY), os.open(json.__file__, os.O_RDONLY)
result = [
    outcome(lambda: fcntl.fcntl(folder, fcntl.F_NOTIFY, 1)),
    outcome(lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)),
    outcome(lambda: fcntl.fcntl(file, fcntl.F_SETOWN, 0)),
    outcome(lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)),
]
""")

    # Other processes read this folder meanwhile, and the signal of that ends a process by default.
    assert "done" == outside(f"import signal\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n{code}")[0]
    assert ["PermissionError"] * 4 == await run(code)


async def test_the_memory_of_a_run_is_never_dumped(unfiltered: BubblewrapSandbox) -> None:
    """Not even to a program of the host's that takes the cores of what crashes, whatever their limit."""
    found = await run_in(unfiltered, f"{CALLS}result = [errno_of({number_of('prctl')}, 3), _libc.prctl(3)]")

    assert [0, 0] == found


async def test_messages_have_no_flags_but_common_ones(run: Run) -> None:
    """Out-of-band data of sockets has been a way out of sandboxes."""
    code = """
import socket
one, other = socket.socketpair()
def errno_of(call, *given):
    try:
        call(*given)
    except OSError as exc:
        return exc.errno
flags = [1 << bit for bit in range(31)]
one.send(b"abc", socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
result = {
    "read": other.recv(3, socket.MSG_PEEK | socket.MSG_WAITALL | socket.MSG_DONTWAIT).decode(),
    "oob": [errno_of(one.send, b"x", socket.MSG_OOB), errno_of(other.recv, 1, socket.MSG_OOB)],
    "sent": [flag for flag in flags if errno_of(one.send, b"x", flag | socket.MSG_DONTWAIT) is None],
}
"""

    assert {"read": "abc", "oob": [1, 1], "sent": [0x02, 0x20, 0x40, 0x100, 0x4000]} == await run(code)


async def test_a_socket_does_not_name_who_is_at_its_other_end(run: Run) -> None:
    """The host is: neither a handle on its process, nor its number or groups; other options are answered."""
    code = """
import errno, os, socket
def refused(made, level, option):
    try:
        made.getsockopt(level, option, 64)
    except OSError as exc:
        return exc.errno == errno.EPERM
    return False
one, _ = socket.socketpair()
pair = [one] + ([socket.socket(fileno=os.dup(3))] if {inside} else [])
peers = [17, 31, 59, 76, 77]
result = [
    [refused(each, socket.SOL_SOCKET, option) for each in pair for option in peers],
    [refused(one, level, socket.SO_TYPE) for level in (0, 6, 41)],
    [refused(one, socket.SOL_SOCKET, option) for option in (socket.SO_TYPE, socket.SO_ERROR)],
]
"""

    assert [[False] * 5, [False] * 3, [False] * 2] == outside(code.format(inside=False))
    assert [[True] * 10, [True] * 3, [False] * 2] == await run(code.format(inside=True))


async def test_no_network_is_reached(run: Run) -> None:
    """Not even a server of this machine, nor a socket of a name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = tries(f"""
import socket
def abstract():
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("\\0gcp-adk-store-attack")
result = [
    outcome(lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5).close()),
    outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()),
    outcome(abstract),
]
""")

        assert ["done"] * 3 == outside(code)
        server.settimeout(60)
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
    code = tries("""
import os, signal
targets = [0, -1, 2, 3, os.getppid(), -2, {host}]
result = [outcome(lambda: os.kill(target, {signal})) for target in targets]
""")
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
    code = calling(f"""
import os
attach = {{errno_of({ptrace}, 16, pid, 0, 0) for pid in range(2, 400)}}
room = ctypes.create_string_buffer(8)
vector = (ctypes.c_long * 2)(ctypes.addressof(room), 8)
there = ctypes.addressof(vector)
write = {{errno_of({write}, pid, there, 1, there, 1, 0) for pid in range(2, 400)}}
result = [sorted(attach), sorted(write), os.listdir("/proc"), os.getpid(), os.getppid()]
""")

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


async def test_no_file_of_the_host_is_there(run: Run, tmp_path: Path) -> None:
    """Neither system files nor a user's; opened, listed, or by a link from /tmp."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    code = tries(f"""
import os
paths = ["/etc/passwd", "/usr/bin/env", "/sys/kernel", {str(secret)!r}]
result = [outcome(lambda: os.stat(path)) for path in paths]
result += [outcome(lambda: os.listdir({str(tmp_path)!r}))]
""")
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
    described = json.loads((environment_folder / "interpreter.json").read_text())
    allowed = (
        *described["interpreter"]["library"],
        described["interpreter"]["executable"],
        *described["libraries"],
        "/sandbox/site/",
        "/sandbox/code.zip",
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
    code = tries("""
import json, os
places = ["/new", "/sandbox/new", "/sandbox/code.zip", "/sandbox/site/new", "/dev/new", "/proc/new"]
places += [json.__file__]
result = [outcome(lambda: open(place, "a")) for place in places]
result += [outcome(lambda: os.remove(json.__file__)), outcome(lambda: open("/tmp/new", "a"))]
""")
    found = await run(code)

    assert set(found[:-1]) <= {"OSError", "PermissionError", "FileNotFoundError"}
    assert "FileNotFoundError" not in found[-3:]
    assert "done" == found[-1]
    assert [] == await run("import os; result = os.listdir('/tmp')")


async def test_devices_of_the_host_keep_their_times_and_modes(
    sandbox: BubblewrapSandbox, unfiltered: BubblewrapSandbox
) -> None:
    """By their paths and by standard input; they are read and written as ever, and times in /tmp change."""
    paths = [Path("/dev/null"), Path("/dev/urandom")]
    before = [path.stat() for path in paths]
    code = """
import errno, os
def refused(act):
    try:
        act()
    except OSError as exc:
        return exc.errno == errno.EROFS
    return False
places = ["/dev/null", "/dev/urandom", 0]
result = [refused(lambda: os.utime(place)) for place in places]
result += [refused(lambda: os.utime(place, (1, 1))) for place in places]
result += [refused(lambda: os.chmod(place, 0o600)) for place in places]
open("/tmp/new", "w").close()
os.utime("/tmp/new", (1, 1))
result += [os.stat("/tmp/new").st_mtime == 1, open("/dev/null", "w").write("x") == 1]
result += [len(open("/dev/urandom", "rb").read(8)) == 8]
"""

    assert [True] * 12 == await run_in(sandbox, code)
    assert [True] * 12 == await run_in(unfiltered, code)
    after = [path.stat() for path in paths]
    assert [(each.st_mtime_ns, each.st_mode) for each in before] == [
        (each.st_mtime_ns, each.st_mode) for each in after
    ]


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


async def test_files_are_limited_in_size_and_number(run: Run) -> None:
    """All together, in memory that ends with the run."""
    code = tries("""
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
""")

    assert ["OSError", True, "OSError", True, "OSError", True] == await run(code)


async def test_native_code_can_not_come_from_a_file(run: Run) -> None:
    """A library that was written to /tmp cannot be loaded."""
    code = tries("""
import ctypes, shutil, tempfile, _ctypes
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(_ctypes.__file__, folder + "/library.so")
    result = outcome(lambda: ctypes.CDLL(folder + "/library.so"))
""")

    assert "done" == outside(code)
    assert "OSError" == await run(code)


ENDLESS = {
    "a loop that ignores signals": (
        "import signal\nfor n in (2, 14, 15, 24): signal.signal(n, signal.SIG_IGN)\n"
        f"{ASKS_AND_GOES_ON}while True: pass"
    ),
    "a sleep": f"{ASKS_AND_GOES_ON}import time; time.sleep(600)",
    "a match": f"{ASKS_AND_GOES_ON}import re; re.match('(a+)+$', 'a' * 40 + 'b')",
}
ENDS: dict[str, tuple[str, dict[str, Any], type[SandboxError]]] = {
    "processor time": ("while True: pass", {"cpu_s": 1}, SandboxTimeoutError),
    "4 GB": ("x = bytearray(4 * 10**9)", {}, SandboxMemoryError),
    "memory little by little": (
        "x = []\nwhile True: x.append(bytearray(10**7))",
        {"memory_bytes": 400 * 2**20},
        SandboxMemoryError,
    ),
    "a flood of text": ("while True: print('x' * 10_000)", {}, SandboxOutputError),
    "a flood past Python": ("import os\nwhile True: os.write(1, b'x' * 10_000)", {}, SandboxOutputError),
    "a large result": ("result = 'x' * 30_000_000", {}, SandboxOutputError),
    "os._exit": ("import os; os._exit(0)", {}, SandboxCrashError),
    "abort": ("import os; os.abort()", {}, SandboxCrashError),
    "a bad pointer": ("import ctypes; ctypes.string_at(8)", {}, SandboxCrashError),
    "a closed way to the host": ("import os; os.close(3)\nwhile True: pass", {}, SandboxCrashError),
    "no JSON": ("result = {1, 2}", {}, SandboxCrashError),
    "no text": ("result = chr(0xD800)", {}, SandboxCrashError),
    "sys.exit": ("import sys; sys.exit(3)", {}, SandboxCrashError),
    "noise as a frame": ("import os; os.write(3, b'noise' * 10)\nwhile True: pass", {}, SandboxProtocolError),
    "a frame of 4 GB": ("import os; os.write(3, b'\\xff' * 8)\nwhile True: pass", {}, SandboxProtocolError),
    "too many calls": ("for _ in range(9): call_host({})", {"host_calls": 5}, SandboxProtocolError),
}


@pytest.fixture(scope="module")
def ended(sandbox: BubblewrapSandbox) -> dict[str, BaseException | None]:
    """How each of them ended; they run beside one another."""

    async def answer(call: dict[str, Any]) -> dict[str, Any]:
        return call

    async def end_of(code: str, limits: dict[str, Any]) -> BaseException | None:
        try:
            await sandbox.run({"code": f"print('begun')\n{code}"}, answer, limits=Limits(**limits))
        except SandboxError as exc:
            return exc
        return None

    async def all_of_them() -> list[BaseException | None]:
        return await asyncio.gather(*(end_of(code, limits) for code, limits, _ in ENDS.values()))

    return dict(zip(ENDS, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("name", ENDS)
def test_a_run_that_goes_too_far_is_ended(ended: dict[str, BaseException | None], name: str) -> None:
    """With an error of its kind, which has what it printed, up to a limit."""
    found, kind = ended[name], ENDS[name][2]

    assert isinstance(found, SandboxError)
    assert kind is type(found), found
    assert found.output.startswith("begun\n")
    assert len(found.output) <= Limits().output_bytes


@pytest.mark.parametrize("name", at_length([*ENDLESS][:2], [*ENDLESS]))  # a match is killed as a loop is
async def test_a_run_that_takes_too_long_is_ended(
    sandbox: BubblewrapSandbox, passing: PassingTime, name: str
) -> None:
    """Whatever it does; an hour passes once it is about to do that."""
    with pytest.raises(SandboxTimeoutError, match="wall_s") as caught:
        await sandbox.run({"code": f"print('begun')\n{ENDLESS[name]}"}, too_late(passing))

    assert "begun\n" == caught.value.output


@pytest.mark.usefixtures("ended")
async def test_after_all_of_them_the_next_run_works(run: Run) -> None:
    """Beside and after them nothing is ended but they."""
    assert 2 == await run("result = 1 + 1")


async def test_threads_are_limited(run: Run) -> None:
    """As many as are promised start, with Python's stacks and memory of their own; beyond, one fails."""
    code = """
import threading
done = threading.Event()
def work():
    kept = [bytearray(1000) for _ in range(1000)]
    done.wait()
threads = [threading.Thread(target=work) for _ in range(60)]
for each in threads: each.start()
done.set()
for each in threads: each.join()
result = len(threads)
"""
    assert 60 == await run(code)
    code = f"{THREADS}\nresult = made"
    assert 20 < await run(code, threads=40) < 40
    assert 199 == outside(code)


def score(number: int) -> int:
    """Return how readily the kernel ends a process where memory runs out."""
    return int(Path(f"/proc/{number}/oom_score_adj").read_text())


async def test_where_memory_runs_out_a_run_ends_before_its_host(sandbox: BubblewrapSandbox) -> None:
    """Its limit is one of many; the kernel takes what has the highest score."""
    before = processes_of_runs()

    async def answer(_call: dict[str, Any]) -> dict[str, Any]:
        return {"scores": [score(number) for number in processes_of_runs() - before]}

    found = await sandbox.run({"code": "result = call_host({})['scores']"}, answer)

    assert {"result": [1000]} == found
