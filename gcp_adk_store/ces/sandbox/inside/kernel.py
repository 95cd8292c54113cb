"""System calls that Python 3.11 lacks: namespaces, mounts, capabilities, filters."""

import ctypes
import os
from typing import Final

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


def mount_tmpfs(target: str, *, flags: int, options: str) -> None:
    """Mount an empty file system of memory over *target*."""
    _check(
        f"mount {target}",
        _libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", ctypes.c_ulong(flags), options.encode()),
    )


def remount_read_only(path: str) -> None:
    """Let nothing about *path*, a mount, be changed, such as its times; a device is written as ever."""
    kept = os.statvfs(path).f_flag & (MS_NOSUID | MS_NOEXEC)
    flags = ctypes.c_ulong(_MS_REMOUNT | _MS_BIND | MS_RDONLY | kept)
    _check(f"mount {path}", _libc.mount(None, os.fsencode(path), None, flags, None))


def set_dumpable(allowed: bool) -> None:  # noqa: FBT001  # the kernel's own switch
    """Let, or do not let, processes of the same user read and write the memory of this one."""
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, int(allowed))


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when its parent ends."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal_number)


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
