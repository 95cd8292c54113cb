"""Keep one call: put it into namespaces of its own, watch it, end it, and say how it ended.

The keeper is forked from the zygote for one call, and forks the call's process. It holds the one end of the
status socket; when the host closes the other, it kills. The call's process is the first of its PID namespace,
so that it sees only itself, and every process that it starts ends with it. Over the same socket it reports
that it is about to run the entry, or why it cannot; then it closes its copy.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from . import running
from .running import Entry

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8

_MS_REMOUNT: Final = 32
_MS_BIND: Final = 4096
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION_3: Final = 0x2008_0522
_INSTRUCTION_BYTES: Final = 8

_libc: Final = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Move this process, or its later children, into new namespaces."""
    _check("unshare", _libc.unshare(flags))


def mount_tmpfs(target: str, flags: int, options: str) -> None:
    """Mount an empty file system of memory over *target*."""
    _mount(b"tmpfs", target, MS_NOSUID | MS_NODEV | MS_NOEXEC | flags, options.encode())


def remount_read_only(path: str) -> None:
    """Let nothing about *path*, a mount, be changed, such as its times; a device is written as ever."""
    kept = os.statvfs(path).f_flag & (MS_NOSUID | MS_NOEXEC)
    _mount(None, path, _MS_REMOUNT | _MS_BIND | MS_RDONLY | kept, None)


def _mount(kind: bytes | None, target: str, flags: int, options: bytes | None) -> None:
    done = _libc.mount(kind, os.fsencode(target), kind, ctypes.c_ulong(flags), options)
    _check(f"mount {target}", done)


def set_dumpable(allowed: bool) -> None:  # noqa: FBT001  # the kernel's own switch
    """Let, or do not let, processes of the same user read and write the memory of this one."""
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, int(allowed))


def drop_privileges() -> None:
    """Give up all capabilities, and the ways to get one."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check("capset", _libc.capset(header, none))
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def filter_system_calls(program: bytes) -> None:
    """Install a seccomp filter for the rest of this process's life: BPF, as libseccomp exports it."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    described = Program(len(program) // _INSTRUCTION_BYTES, program)
    _check(
        "seccomp",
        _libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(described), 0, 0),
    )


def _prctl(name: str, option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(name, _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))


def _check(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


DEVICES: Final = ("/dev/null", "/dev/urandom")
"""Of the host: all that a call sees of its devices."""
_GRACE_S: Final = 5.0  # the host's own clock comes first
_LONGEST_MS: Final = 2**31 - 1
"""Of one wait of the kernel: 24 days."""
_FRAMES: Final = 3
_STATUS: Final = 4
_INSIDE_ID: Final = 1000
_FIRST_TO_END: Final = "1000"  # the highest score: rather a call than its host, where memory runs out


def isolate(uid: int | None) -> None:
    """Enter namespaces of this process's own, as a user without any right outside of them.

    Args:
        uid: Who to be outside, where this is root; ``None`` stays who this is.
    """
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # While a process is not dumpable, root owns its files in /proc. A call's process never sees it.
    set_dumpable(True)
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_INSIDE_ID} {user} 1"),
        ("gid_map", f"{_INSIDE_ID} {group} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
    with contextlib.suppress(OSError):  # where that is forbidden, its own limits remain
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END, encoding="ascii")
    set_dumpable(False)
    for path in DEVICES:
        remount_read_only(path)


def fork(status: int) -> int:
    """Fork; if the kernel refuses a process, report that to *status* and return -1."""
    try:
        return os.fork()
    except OSError as exc:
        _report(status, failed=str(exc))
        return -1


def _report(status: int, /, **said: Any) -> None:
    os.write(status, json.dumps(said).encode())


def keep(
    entry: Entry, handles: Sequence[int], limits: Mapping[str, Any], config: Mapping[str, Any]
) -> NoReturn:
    """Run a call, report why it does not begin, or how it ended, and end this process.

    *handles* are the descriptors of its frames, of its output and of the reports.
    """
    frames, output, status = handles
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        isolate(config["uid"])
        child = fork(status)
        if child == 0:
            _become_call(entry, handles, limits, bytes.fromhex(config["filter"]))
        if child > 0:
            os.close(frames)
            os.close(output)
            how, used = _watch(child, status, limits["wall_s"])
            _report(status, status=how, cpu_s=used.ru_utime + used.ru_stime)
    except OSError as exc:
        _report(status, failed=str(exc))
    finally:
        os._exit(0)


def _watch(child: int, status: int, wall_s: float) -> tuple[int, resource.struct_rusage]:
    """Kill *child* when the host says so, or its time is over; return how it ended, and what it used."""
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    poll.register(status, select.POLLIN)  # until the host closes its end
    poll.poll(min((wall_s + _GRACE_S) * 1000, _LONGEST_MS))
    # Killing what has ended already changes nothing: it is not waited for yet.
    os.kill(child, signal.SIGKILL)
    _, how, used = os.wait4(child, 0)
    return how, used


def _become_call(entry: Entry, handles: Sequence[int], limits: Mapping[str, Any], program: bytes) -> NoReturn:
    """Give up everything but a channel, then run the entry; never returns into the zygote's code."""
    try:
        _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal.SIGKILL)  # when the keeper ends
        os.setsid()  # kill(0) reaches a process group in every namespace
        _arrange(handles)
        try:
            _seal(limits, program)
        except (OSError, ValueError) as exc:
            _report(_STATUS, failed=str(exc))
            os._exit(1)
        _report(_STATUS, began=True)
        os.close(_STATUS)
        running.run(entry, _FRAMES, limits)
    finally:
        os._exit(1)


def _arrange(handles: Sequence[int]) -> None:
    """Keep standard input, both outputs, the frames and, until all is done, the socket for reports."""
    # The copies lie above all targets, so that dup2 overwrites no source.
    frames, output, status = (fcntl.fcntl(each, fcntl.F_DUPFD, _STATUS + 1) for each in handles)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2), (frames, _FRAMES), (status, _STATUS)):
        os.dup2(source, target)
    os.closerange(_STATUS + 1, os.sysconf("SC_OPEN_MAX"))


def _seal(limits: Mapping[str, Any], program: bytes) -> None:
    mount_tmpfs("/proc", MS_RDONLY, "size=4k,nr_inodes=2,mode=0555")
    room = f"size={limits['file_bytes']},nr_inodes={limits['files']},mode=0700"
    mount_tmpfs("/tmp", 0, room)  # noqa: S108  # of the sandbox, and empty
    os.chdir("/tmp")  # noqa: S108
    running.forget()
    running.limit(limits)
    drop_privileges()
    filter_system_calls(program)
