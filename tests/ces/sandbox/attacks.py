"""Name what attacks have in common: Python text that is put before their own."""

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

THREADS = """
import threading
done, made = threading.Event(), 0
threading.stack_size(64 * 1024)
try:
    for made in range(200):
        threading.Thread(target=done.wait).start()
except RuntimeError:
    pass
done.set()
"""
"""Starts threads until one fails; `made` is how many there were, 199 where none did."""


def tries(code: str) -> str:
    """Return *code* with the function ``outcome``, which says what became of an act."""
    return OUTCOME + code


def calling(code: str) -> str:
    """Return *code* with the function ``errno_of``, which makes a system call by its number."""
    return CALLS + code
