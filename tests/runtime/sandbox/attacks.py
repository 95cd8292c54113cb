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
