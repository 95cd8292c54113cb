"""Programs that have their modules already: ``gcp-adk-store``, ``adk``, and ``python`` for a file or ``-m``.

A server of ADK's takes two seconds of a processor to import what it needs, and tests start many. These are
the same programs: each call is a process of its own, with its own arguments, folder, variables and files. It
gets its caller's signals, ignores what its caller ignores, and ends with it, and the caller ends with its
status. It is forked from one that
has imported the modules and has done nothing else, the same for all workers of a run. How a program starts is
shown by tests that start it anew.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_CALLER = """#!{python} -SE
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    ends = (signal.SIGINT, signal.SIGTERM)
    asked = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]
    call = json.dumps([sys.argv, os.getcwd(), dict(os.environ), asked]).encode()
    socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(call)
    program = int.from_bytes(server.recv(4), "big")
    for number in ends:  # also what is ignored: the program may handle it itself
        signal.signal(number, lambda number, _: os.kill(program, number))
    ended = server.recv(1)
sys.exit(ended[0] if ended else 70)
"""


_VARIABLE: Final = "TESTS_READY_PROGRAMS"


@functools.cache
def ready_programs() -> Path:
    """Return a folder with the programs, for ``PATH``; it is there as long as this run."""
    return Path(os.environ.get(_VARIABLE) or _made())


def share_programs() -> None:
    """Let the processes that this one starts have its programs."""
    os.environ[_VARIABLE] = str(ready_programs())


def _made() -> Path:
    folder = Path(tempfile.mkdtemp())
    address, programs = str(folder / "calls"), folder / "programs"
    programs.mkdir()
    for name in _PROGRAMS:
        (programs / name).write_text(_CALLER.format(python=sys.executable, address=address))
        (programs / name).chmod(0o755)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    atexit.register(shutil.rmtree, folder)
    threading.Thread(target=_start, args=(listening,), daemon=True).start()
    return programs


def _start(listening: socket.socket) -> None:
    """Start what answers calls, once the first has come."""
    with listening:
        select.select([listening], [], [])
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listening.fileno())],
            cwd=Path(__file__).parents[2],
            pass_fds=[listening.fileno()],
            stdin=subprocess.PIPE,  # which closes however this process ends
            start_new_session=True,  # where no terminal interrupts it
        )
    atexit.register(server.communicate)


def ready_path(environ: Mapping[str, str]) -> str:
    """Return the ``PATH`` of *environ*, with the programs before all others."""
    return f"{ready_programs()}{os.pathsep}{environ['PATH']}"


def _gcp_adk_store() -> None:
    from gcp_adk_store.cli import main  # noqa: PLC0415  # only its server imports it

    main()


def _adk() -> None:
    from google.adk.cli import main  # noqa: PLC0415  # only its server imports it

    main()


def _python() -> None:
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path.insert(0, "")
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


_PROGRAMS: Final[Mapping[str, Callable[[], None]]] = {
    "gcp-adk-store": _gcp_adk_store,
    "adk": _adk,
    "python": _python,
}


def _serve(listening: socket.socket) -> None:
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        caller, _ = listening.accept()
        with caller:
            if not os.fork():
                listening.close()
                os._exit(_answer(caller))
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _answer(caller: socket.socket) -> int:
    size, files, _, _ = socket.recv_fds(caller, 4, 3)
    with caller.makefile("rb") as read:
        arguments, folder, environ, asked = json.loads(read.read(int.from_bytes(size, "big")))
    over, at_work = os.pipe()
    program = os.fork()
    if not program:
        caller.close()
        os.close(over)
        signal.signal(signal.SIGINT, signal.default_int_handler if signal.SIGINT in asked else signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL if signal.SIGTERM in asked else signal.SIG_IGN)
        os._exit(_run(arguments, folder, environ, files))  # which closes the last end of the pipe
    for file in (at_work, *files):
        os.close(file)
    with contextlib.suppress(OSError):
        caller.sendall(program.to_bytes(4, "big"))
    if over not in select.select([over, caller.fileno()], [], [])[0]:
        os.kill(program, signal.SIGKILL)  # its caller is gone
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with contextlib.suppress(OSError):
        caller.sendall(bytes([status if status >= 0 else 128 - status]))  # as a shell reports it
    return 0


def _run(arguments: list[str], folder: str, environ: dict[str, str], files: list[int]) -> int:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    if environ.get("PYTHONWARNINGS") == "ignore":  # all else that Python reads as it starts is as it was
        warnings.simplefilter("ignore")
    sys.argv = arguments
    ended: Any = None
    try:
        _PROGRAMS[Path(arguments[0]).name]()
    except SystemExit as exc:
        ended = exc.code
    except BaseException:  # noqa: BLE001  # as Python itself ends
        traceback.print_exc()
        ended = 1
    if isinstance(ended, str):
        sys.stderr.write(f"{ended}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    return ended if isinstance(ended, int) else int(ended is not None)


if __name__ == "__main__":
    import google.adk.auth.auth_preprocessor
    import google.adk.cli.cli_tools_click
    import google.adk.cli.fast_api
    import google.adk.models.google_llm
    import google.adk.workflow
    import google.cloud.firestore
    import google.cloud.storage  # noqa: F401

    import gcp_adk_store.cli.command
    import gcp_adk_store.cli.moving  # noqa: F401

    gc.collect()
    gc.freeze()  # else each process copies what its collector looks at
    _serve(socket.socket(fileno=int(sys.argv[1])))
