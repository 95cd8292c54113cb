"""Attack from inside, the files of the host: none is read or written, and nothing is left behind.

What is safe outside is tried there too, so that no attack fails for a reason of its own.
"""

import json
from pathlib import Path

import pytest

from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxError
from tests.ces.sandbox.attacks import OUTCOME, tries
from tests.ces.sandbox.conftest import Run, outside, run_in


async def test_no_file_of_the_host_is_there(run: Run, tmp_path: Path) -> None:
    """Neither system files nor a user's; opened, listed, or by a link from /tmp."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    code = tries(f"""
import os
paths = ["/etc/passwd", "/usr/bin/env", "/sys/kernel", {str(secret)!r}]
result = [outcome(lambda: os.stat(path)) for path in paths]
result += [outcome(lambda: os.listdir({str(tmp_path)!r}))]
""")
    linked = """
import os
def follow():
    os.symlink("/etc/passwd", "/tmp/link")
    open("/tmp/link").read()
result = outcome(follow)
"""

    assert ["done"] * 5 == outside(code)
    assert ["FileNotFoundError"] * 5 == await run(code)
    assert "FileNotFoundError" == await run(OUTCOME + linked)


async def test_what_is_there_is_the_interpreter_and_its_libraries(run: Run, environment_folder: Path) -> None:
    """Every file that a walk finds is one of them, a time zone, a device or the library's own part."""
    described = json.loads((environment_folder / "interpreter.json").read_text())
    allowed = (
        *described["interpreter"]["library"],
        described["interpreter"]["executable"],
        *described["libraries"],
        "/sandbox/site/",
        "/sandbox/code.zip",
        "/usr/share/zoneinfo/",
        "/dev/null",
        "/dev/urandom",
    )
    seen = await run("import os; result = [os.path.join(a, f) for a, _, fs in os.walk('/') for f in fs]")

    assert len(seen) > 1000
    assert [] == [path for path in seen if not path.startswith(allowed)]
    assert [] == [path for path in seen if "/site-packages/" in path]


async def test_nothing_but_its_own_folder_can_be_written(run: Run) -> None:
    """Neither the interpreter nor what the next call will load."""
    code = tries("""
import json, os
places = ["/new", "/sandbox/new", "/sandbox/code.zip", "/sandbox/site/new", "/dev/new", "/proc/new"]
places += [json.__file__]
result = [outcome(lambda: open(place, "a")) for place in places]
result += [outcome(lambda: os.remove(json.__file__)), outcome(lambda: open("/tmp/new", "a"))]
""")
    found = await run(code)

    assert set(found[:-1]) <= {"OSError", "PermissionError", "FileNotFoundError"}
    assert "FileNotFoundError" not in found[-3:]
    assert "done" == found[-1]
    assert [] == await run("import os; result = os.listdir('/tmp')")


async def test_devices_of_the_host_keep_their_times_and_modes(
    sandbox: BubblewrapSandbox, unfiltered: BubblewrapSandbox
) -> None:
    """By their paths and by standard input; they are read and written as ever, and times in /tmp change."""
    paths = [Path("/dev/null"), Path("/dev/urandom")]
    before = [path.stat() for path in paths]
    code = """
import errno, os
def refused(act):
    try:
        act()
    except OSError as exc:
        return exc.errno == errno.EROFS
    return False
places = ["/dev/null", "/dev/urandom", 0]
result = [refused(lambda: os.utime(place)) for place in places]
result += [refused(lambda: os.utime(place, (1, 1))) for place in places]
result += [refused(lambda: os.chmod(place, 0o600)) for place in places]
open("/tmp/new", "w").close()
os.utime("/tmp/new", (1, 1))
result += [os.stat("/tmp/new").st_mtime == 1, open("/dev/null", "w").write("x") == 1]
result += [len(open("/dev/urandom", "rb").read(8)) == 8]
"""

    assert [True] * 12 == await run_in(sandbox, code)
    assert [True] * 12 == await run_in(unfiltered, code)
    after = [path.stat() for path in paths]
    assert [(each.st_mtime_ns, each.st_mode) for each in before] == [
        (each.st_mtime_ns, each.st_mode) for each in after
    ]


async def test_the_environment_is_empty(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """For Python, and for the C library."""
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    code = """
import ctypes, os
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
result = [os.environ.get("SECRET_TOKEN"), (getenv(b"SECRET_TOKEN") or b"").decode()]
"""

    assert ["secret", "secret"] == outside(code)
    assert [None, ""] == await run(code)
    assert {} == await run("import os; result = dict(os.environ)")


async def test_a_run_leaves_nothing_to_the_next(run: Run) -> None:
    """Neither what it changed in its interpreter, nor files, nor threads."""
    poison = """
import builtins, json, os, random, sys, threading
builtins.open = builtins.print = json.dumps = json.loads = os.read = None
sys.modules["numpy"] = None
sys.path.clear()
open_again = os.open("/tmp/left", os.O_CREAT | os.O_WRONLY)
threading.Thread(target=lambda: __import__("time").sleep(60)).start()
os.environ["LEFT"] = "1"
"""
    look = """
import builtins, json, os, sys, threading
result = [
    builtins.open is not None, json.loads("[1]"), "numpy" in sys.modules and sys.modules["numpy"] is not None,
    len(sys.path) > 2, os.listdir("/tmp"), threading.active_count(), dict(os.environ),
]
"""
    with pytest.raises(SandboxError):
        await run(poison)

    assert [True, [1], True, True, [], 1, {}] == await run(look)


async def test_a_run_has_no_file_but_its_own(run: Run) -> None:
    """Standard input is nothing, both outputs are one, and by 3 it speaks with the host."""
    code = """
import os, stat
def kind(number):
    try:
        return stat.S_IFMT(os.fstat(number).st_mode)
    except OSError:
        return None
kinds = {number: kind(number) for number in range(1024) if kind(number)}
result = [sorted(kinds), kinds[0] == stat.S_IFCHR, os.read(0, 1) == b""]
"""

    assert [[0, 1, 2, 3], True, True] == await run(code)


async def test_files_are_limited_in_size_and_number(run: Run) -> None:
    """All together, in memory that ends with the run."""
    code = tries("""
import os
def fill():
    for number in range(10):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(4 * 2**20))
def many():
    for number in range(3000):
        open(f"/tmp/n{number}", "wb").close()
result = [outcome(fill), sum(os.stat(f"/tmp/{name}").st_size for name in os.listdir("/tmp")) <= 2**24]
[os.remove(f"/tmp/{name}") for name in os.listdir("/tmp")]
result += [outcome(many), len(os.listdir("/tmp")) <= 1024]
files = []
result += [outcome(lambda: [files.append(open("/dev/null")) for _ in range(100)]), len(files) < 64]
""")

    assert ["OSError", True, "OSError", True, "OSError", True] == await run(code)


async def test_native_code_can_not_come_from_a_file(run: Run) -> None:
    """A library that was written to /tmp cannot be loaded."""
    code = tries("""
import ctypes, shutil, tempfile, _ctypes
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(_ctypes.__file__, folder + "/library.so")
    result = outcome(lambda: ctypes.CDLL(folder + "/library.so"))
""")

    assert "done" == outside(code)
    assert "OSError" == await run(code)
