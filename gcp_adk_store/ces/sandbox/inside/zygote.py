"""Load what calls need, once, and fork a keeper for each call that the host asks for.

No user code ever runs in this process. It has one thread, so that a fork has all of it, and speaks over a
socket of packets that no call's process holds.
"""

import contextlib
import gc
import importlib.util
import json
import os
import signal
import socket
import sys
import traceback
from typing import Any, Final, NoReturn

from . import keeping, running

_PACKET_BYTES: Final = 64 * 1024
_HANDLES: Final = 3


def main(config: str, control: int) -> NoReturn:
    """Serve the host on the socket *control* until it closes it."""
    try:
        _serve(json.loads(config), socket.socket(fileno=control))
    except BaseException:  # noqa: BLE001  # the host shows it
        traceback.print_exc()
    finally:
        os._exit(0)


def _serve(config: dict[str, Any], host: socket.socket) -> None:
    keeping.set_dumpable(False)
    sys.path[:0] = config["paths"]
    entry = running.load(config["entry"])
    absent = [name for name in config["preload"] if importlib.util.find_spec(name.partition(".")[0]) is None]
    if absent:
        raise ModuleNotFoundError(f"No module named {absent[0]!r}")
    gc.freeze()  # a collection in a call would copy every page
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are reaped by the kernel
    is_prepared = False
    while True:
        packet, handles, _, _ = socket.recv_fds(host, _PACKET_BYTES, _HANDLES)
        if not packet:
            return
        if len(handles) == _HANDLES and keeping.fork(handles[-1]) == 0:
            host.close()
            keeping.keep(entry, handles, json.loads(packet), config)
        for each in handles:
            os.close(each)
        if not is_prepared:  # now, so that the first call need not wait for it
            is_prepared = True
            _preload(config["preload"])


def _preload(names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):  # code that imports it sees why
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
