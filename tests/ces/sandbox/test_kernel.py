"""Attack from inside: no right is gained, and no network, process, signal or memory of others reached."""

import os
import platform
import socket

import pytest

from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxCrashError
from tests.ces.sandbox.attacks import CALLS, OUTCOME, calling, tries
from tests.ces.sandbox.conftest import Run, number_of, outside, processes_of_runs, run_in

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
