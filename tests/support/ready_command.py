"""A command ``gcp-adk-store`` that has its modules already.

A page of thirty examples would import them thirty times, for two seconds of a processor each. This is the
same command: each call is a process of its own, with its own arguments, folder, variables and files. It is
forked from one that has imported the modules and has done nothing else.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# What most calls need.
import google.adk.runners
import google.cloud.firestore
import google.cloud.storage  # noqa: F401

import gcp_adk_store.cli.command
import gcp_adk_store.cli.moving  # noqa: F401
from gcp_adk_store.cli import main

_CALLER = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(call)
    ended = server.recv(1)
sys.exit(ended[0] if ended else 70)
"""


@contextlib.contextmanager
def ready_command(folder: Path) -> Iterator[Path]:
    """Yield a new folder below *folder* with the command, for ``PATH``."""
    address, programs = str(folder / "command"), folder / "programs"
    programs.mkdir()
    program = programs / "gcp-adk-store"
    program.write_text(_CALLER.format(python=sys.executable, address=address))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(listening.fileno())],
            cwd=Path(__file__).parents[2],
            pass_fds=[listening.fileno()],
        )
    try:
        yield programs
    finally:
        server.terminate()
        server.wait()


def _serve(listening: socket.socket) -> None:
    while True:
        caller, _ = listening.accept()
        with caller:
            if not os.fork():
                listening.close()
                os._exit(_run(caller))
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _run(caller: socket.socket) -> int:
    size, files, _, _ = socket.recv_fds(caller, 4, 3)
    with caller.makefile("rb") as read:
        sys.argv, folder, environ = json.loads(read.read(int.from_bytes(size, "big")))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    code = 70
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        caller.sendall(bytes([code]))
    return code


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
