"""Assemble the allow-list of system calls that user code has, as BPF for the kernel.

By libseccomp, Debian's package libseccomp2: it knows the numbers of every architecture, and compares
arguments of 64 bits right. A handful of its functions is needed, so it is called as it is.

What is not listed fails with EPERM, which is a PermissionError in Python; calls of another architecture
(x32, i386) kill.
"""

import ctypes
import ctypes.util
import functools
import os
from collections.abc import Sequence
from typing import Any, Final

from gcp_adk_store.ces.sandbox.interface import SandboxUnavailableError

_KILL_PROCESS: Final = 0x8000_0000
_ALLOW: Final = 0x7FFF_0000
_ERRNO: Final = 0x0005_0000
_EPERM: Final = 1
_ENOSYS: Final = 38
_ATTRIBUTE_BAD_ARCHITECTURE: Final = 2
_EQUAL: Final = 4
_MASKED_EQUAL: Final = 7
_BPF_BYTES: Final = 64 * 1024

_CLONE_THREAD: Final = 0x0001_0000
_CLONE_NEW: Final = 0x7E02_0080  # every flag that makes a namespace
_AF_UNIX: Final = 1
_MESSAGE_FLAGS: Final = 0x02 | 0x20 | 0x40 | 0x100 | 0x4000
"""MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT, MSG_WAITALL and MSG_NOSIGNAL."""
_OTHER_FLAGS: Final = 0xFFFF_FFFF & ~_MESSAGE_FLAGS
"""Such as MSG_OOB, whose code in the kernel has had holes that led out of sandboxes."""
_SOCKET: Final = 1
_ASKED: Final = (3, 4, 7, 8, 30, 38, 39)
"""SO_TYPE, SO_ERROR, SO_SNDBUF, SO_RCVBUF, SO_ACCEPTCONN, SO_PROTOCOL and SO_DOMAIN; nothing of who is at the
other end, such as SO_PEERPIDFD, which is a handle on a process of the host."""
_THE_CALL: Final = 1
"""The PID of user code: it is the first process, and the only one, of its namespace."""

_ALLOWED: Final = """\
# Files: its own in /tmp, and those of the interpreter, read-only.
access chdir chmod close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
fadvise64 fallocate fchdir fchmod fchmodat fdatasync fgetxattr flistxattr fstat fstatfs
fsync ftruncate getcwd getdents getdents64 getxattr lgetxattr link linkat listxattr llistxattr lseek
lstat mkdir mkdirat newfstatat open openat pipe pipe2 pread64 preadv pwrite64 pwritev read readahead
readlink readlinkat readv rename renameat renameat2 rmdir sendfile stat statfs statx symlink
symlinkat sync_file_range truncate umask unlink unlinkat write writev
# Waiting.
epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd eventfd2 poll ppoll pselect6
select timerfd_create timerfd_gettime timerfd_settime
# Memory.
brk madvise mmap mprotect mremap munmap
# Threads, and what a process knows of itself.
exit exit_group futex get_robust_list getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid
getppid getresgid getresuid getrlimit getrusage getsid gettid getuid membarrier restart_syscall rseq
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler
sched_yield set_robust_list set_tid_address sysinfo times uname
# Signals to itself.
pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait
sigaltstack
# Time, which it cannot set.
alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
getrandom
# The pair of sockets by which an event loop wakes itself, and nothing that names an address.
getpeername getsockname shutdown
"""
_FREE: Final = [name for line in _ALLOWED.splitlines() if not line.startswith("#") for name in line.split()]
_TIMES: Final = ("utime", "utimensat", "utimes")
"""Times of files."""


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


_ON_CONDITION: Final[Sequence[tuple[Any, ...]]] = (
    # A thread of this process, in no new namespace.
    ("clone", (0, _MASKED_EQUAL, _CLONE_THREAD | _CLONE_NEW, _CLONE_THREAD)),
    ("kill", (0, _EQUAL, _THE_CALL, 0)),
    ("tgkill", (0, _EQUAL, _THE_CALL, 0)),
    # Its own limits, which it can only lower.
    ("prlimit64", (0, _EQUAL, 0, 0)),
    ("prlimit64", (0, _EQUAL, _THE_CALL, 0)),
    ("setrlimit",),
    ("socketpair", (0, _EQUAL, _AF_UNIX, 0)),
    *(("getsockopt", (1, _EQUAL, _SOCKET, 0), (2, _EQUAL, option, 0)) for option in _ASKED),
    # To the other end alone: with an address it could name a socket of somebody else.
    ("sendto", (3, _MASKED_EQUAL, _OTHER_FLAGS, 0), (4, _EQUAL, 0, 0), (5, _EQUAL, 0, 0)),
    ("recvfrom", (3, _MASKED_EQUAL, _OTHER_FLAGS, 0)),
    # Descriptors, flags and locks of a part; not leases, signals, or F_NOTIFY, which watches a folder of the
    # host's for what others read there.
    *(("fcntl", (1, _EQUAL, command, 0)) for command in (*range(8), 1030, 1032)),
    # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: none of them acts on anything but the file itself.
    *(("ioctl", (1, _EQUAL, request, 0)) for request in (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)),
)

_MISSING: Final = ("clone3", "openat2", "futex_waitv")
"""Fail with ENOSYS, for which the C library has another way: the filter cannot look into their arguments."""


@functools.cache
def program(*, sets_times: bool = True) -> bytes:
    """Return the filter for this machine's architecture.

    Args:
        sets_times: Whether the times of files may be set: not where a device of the host can be written,
            whose times anybody may set then.

    Raises:
        SandboxUnavailableError: libseccomp is missing, or refuses a rule.
    """
    library = _library()
    context = library.seccomp_init(ctypes.c_uint32(_ERRNO | _EPERM))
    if not context:
        raise SandboxUnavailableError("libseccomp has no memory for a filter")
    handle = ctypes.c_void_p(context)
    try:
        _check(library.seccomp_attr_set(handle, _ATTRIBUTE_BAD_ARCHITECTURE, ctypes.c_uint32(_KILL_PROCESS)))
        for name in (*_FREE, *(_TIMES if sets_times else ())):
            _add(library, handle, _ALLOW, name)
        for name, *compared in _ON_CONDITION:
            _add(library, handle, _ALLOW, name, *compared)
        for name in _MISSING:
            _add(library, handle, _ERRNO | _ENOSYS, name)
        return _exported(library, handle)
    finally:
        library.seccomp_release(handle)


def _library() -> ctypes.CDLL:
    found = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
    try:
        library = ctypes.CDLL(found)
    except OSError as exc:
        raise SandboxUnavailableError(
            "libseccomp is not installed, and the sandbox filters system calls by it. Install Debian's "
            "package:\n  sudo apt-get install --no-install-recommends libseccomp2"
        ) from exc
    library.seccomp_init.restype = ctypes.c_void_p
    return library


def _add(
    library: ctypes.CDLL, handle: ctypes.c_void_p, action: int, name: str, *compared: tuple[int, ...]
) -> None:
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number < 0:
        return  # newer than this libseccomp, so not allowed; or of another architecture
    comparisons = (_Comparison * len(compared))(*(_Comparison(*each) for each in compared))
    count = ctypes.c_uint(len(compared))
    _check(library.seccomp_rule_add_array(handle, ctypes.c_uint32(action), number, count, comparisons))


def _exported(library: ctypes.CDLL, handle: ctypes.c_void_p) -> bytes:
    file = os.memfd_create("filter")
    try:
        _check(library.seccomp_export_bpf(handle, file))
        return os.pread(file, _BPF_BYTES, 0)
    finally:
        os.close(file)


def _check(result: int) -> None:
    if result != 0:
        raise SandboxUnavailableError(f"libseccomp refused a rule: {os.strerror(-result)}")
