"""Answer one request over standard input and output, and end: for a sandbox that makes one process a call."""

import fcntl
import json
import os
import resource
import sys
from typing import Final, NoReturn

from . import running

BEGAN: Final = b"\n"
"""Sent before any frame: the entry was loaded, and waits for its request."""
_READS: Final = 10
_WRITES: Final = 11
_NOT_IN_GVISOR: Final = (
    resource.RLIMIT_CORE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_MEMLOCK,
    resource.RLIMIT_MSGQUEUE,
    resource.RLIMIT_SIGPENDING,
)
"""The kernel of gVisor lacks these limits, or applies them to the container."""


def main(config: str) -> NoReturn:
    """Run what *config*, a JSON object, names: its entry, paths, preload and limits."""
    told = json.loads(config)
    # What user code reads and prints is not the frames.
    for source, target in ((0, _READS), (1, _WRITES)):
        fcntl.fcntl(source, fcntl.F_DUPFD, target)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    sys.path[:0] = told["paths"]
    entry = running.load(told["entry"])
    os.chdir("/tmp")  # noqa: S108  # of the sandbox, and empty
    running.forget()
    running.limit(told["limits"], optional=_NOT_IN_GVISOR)
    os.write(_WRITES, BEGAN)
    running.run(entry, _READS, _WRITES, told["limits"])
