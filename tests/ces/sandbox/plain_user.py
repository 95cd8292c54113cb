"""Run code in the sandbox as a user without rights; root becomes nobody first.

The interpreter and the environment may lie in folders that only root enters, so they are mounted where
nobody does, in a namespace of this process's own. Of root's rights it keeps that of reading, for its own
imports; what it starts has none.
"""

import asyncio
import ctypes
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxUnavailableError, open_environment
from gcp_adk_store.ces.sandbox.inside import keeping
from tests.ces.sandbox.conftest import THREADS, zygotes

_NOBODY = 65_534
_KEEP_CAPABILITIES = 8
_READ_SEARCH = 1 << 2
_BIND = 0x1000
_PRIVATE = 0x4_0000 | 0x4000

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: Path, target: Path, flags: int) -> None:
    """Mount a folder at another place."""
    target.mkdir(parents=True, exist_ok=True)
    if _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {source}")


def mounted(folder: Path, place: Path) -> Path:
    """Return a folder in *place*, which everybody enters, like *folder*."""
    environment = open_environment(folder)
    keeping.unshare(keeping.CLONE_NEWNS)
    mount(Path("/"), Path("/"), _PRIVATE)
    base = Path(environment.interpreter.executable).parents[1]
    mount(base, place / "python", _BIND)
    mount(folder / "site", place / "ces" / "site", _BIND)
    text = (folder / "interpreter.json").read_text()
    (place / "ces" / "interpreter.json").write_text(text.replace(f'"{base}/', f'"{place}/python/'))
    return place / "ces"


def become_nobody() -> None:
    """Give up being root, and all of its rights but that of reading."""
    _libc.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    header = (ctypes.c_uint32 * 2)(0x2008_0522, 0)
    rights = (ctypes.c_uint32 * 6)(_READ_SEARCH, _READ_SEARCH, 0, 0, 0, 0)
    if _libc.capset(header, rights) != 0:
        raise OSError(ctypes.get_errno(), "capset")


async def main(folder: Path) -> dict[str, Any]:
    """Return what code sees, and what became of attacks."""

    async def answer(call: dict[str, Any]) -> dict[str, Any]:
        return call

    box = BubblewrapSandbox(entry="tests.ces.sandbox.entry.code:run", environment=folder, preload=())
    code = f"""{THREADS}
import os
result = [os.getpid(), os.listdir("/proc"), os.path.exists("/etc"), made < 64, call_host({{"a": 1}})]
"""

    async def without_room(_call: dict[str, Any]) -> dict[str, Any]:
        """Have the zygote start no process more, as where a container has too many; then as before."""
        before = {number: resource.prlimit(number, resource.RLIMIT_NPROC) for number in zygotes()}
        for number, (_, hard) in before.items():
            resource.prlimit(number, resource.RLIMIT_NPROC, (0, hard))
        try:
            return await box.run({"code": "result = 1"}, answer)
        except SandboxUnavailableError as exc:
            return {"refused": str(exc)}
        finally:
            for number, limits in before.items():
                resource.prlimit(number, resource.RLIMIT_NPROC, limits)

    try:
        found = await box.run({"code": code}, answer)
        crowded = await box.run({"code": "result = call_host({})"}, without_room)
        killed = await box.run({"code": "import os; os.kill(0, 9)"}, answer)
    finally:
        await box.close()
    return {
        "uid": os.getuid(),
        "found": found["result"],
        "killed": killed["error"],
        "crowded": crowded["result"],
    }


if __name__ == "__main__":
    environment_folder, open_folder = map(Path, sys.argv[1:])
    if os.getuid() == 0:
        environment_folder = mounted(environment_folder, open_folder)
        become_nobody()
    sys.stdout.write(json.dumps(asyncio.run(main(environment_folder))))
