"""Load what calls need, once, and fork a keeper for each call that the host asks for.

No user code ever runs in this process. It has one thread, so that a fork has all of it, and speaks over a
socket of packets that no call's process holds.
"""

import base64
import contextlib
import gc
import importlib.util
import json
import os
import platform
import signal
import socket
import sys
import traceback
from typing import Any, Final, NoReturn

from . import keeping, running

_PACKET_BYTES: Final = 64 * 1024
_HANDLES: Final = 3


def main(control: int) -> NoReturn:
    """Serve the host on the socket *control* until it closes it."""
    host = socket.socket(fileno=control)
    try:
        _serve(host, json.loads(host.recv(_PACKET_BYTES)))
    except BaseException:  # noqa: BLE001  # the host shows it
        host.send(json.dumps({"failed": traceback.format_exc()[-4000:]}).encode())
    finally:
        os._exit(0)


def _serve(host: socket.socket, config: dict[str, Any]) -> None:
    keeping.set_dumpable(False)
    seal = {"uid": config["uid"], "filter": base64.b64decode(config["filter"])}
    refused = _why_not_isolated(seal["uid"])
    if refused:
        host.send(json.dumps({"refused": refused}).encode())
        return
    sys.path[:0] = config["paths"]
    entry = running.load(config["entry"])
    absent = [name for name in config["preload"] if importlib.util.find_spec(name.partition(".")[0]) is None]
    if absent:
        raise ModuleNotFoundError(f"No module named {absent[0]!r}")
    gc.freeze()  # a collection in a call would copy every page
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are reaped by the kernel
    host.send(json.dumps({"python": platform.python_version()}).encode())
    is_prepared = False
    while True:
        packet, handles, _, _ = socket.recv_fds(host, _PACKET_BYTES, _HANDLES)
        if not packet:
            return
        if len(handles) == _HANDLES:
            frames, output, status = handles
            if _fork(status) == 0:
                host.close()
                keeping.keep(
                    entry, status=status, frames=frames, output=output, limits=json.loads(packet), seal=seal
                )
        for each in handles:
            os.close(each)
        if not is_prepared:  # now, so that the first call need not wait for it
            is_prepared = True
            _prepare(config)


def _prepare(config: dict[str, Any]) -> None:
    """Load and do once what later calls find done."""
    for name in config["preload"]:
        with contextlib.suppress(ImportError):  # code that imports it sees why
            importlib.import_module(name)
    running.warm_up(config["entry"])
    gc.collect()
    gc.freeze()


def _fork(status: int) -> int:
    """Fork; if the kernel refuses a process, report that to *status* and go on with the others."""
    try:
        return os.fork()
    except OSError as exc:
        os.write(status, json.dumps({"failed": str(exc)}).encode())
        return -1


def _why_not_isolated(uid: int | None) -> str:
    """Return what the kernel refuses of what every call needs; nothing where it refuses nothing."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            keeping.isolate(uid)
            keeping.mount_tmpfs("/tmp", flags=keeping.MS_NOSUID, options="size=4k")  # noqa: S108
        except OSError as exc:
            os.write(writes, str(exc).encode())
        finally:
            os._exit(0)
    os.close(writes)
    says = os.read(reads, _PACKET_BYTES)
    os.close(reads)
    os.waitpid(child, 0)
    return says.decode(errors="replace")
