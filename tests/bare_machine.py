"""Run what README promises on machines that have Python, make and git alone, once as root and once as a user.

A machine is Debian's smallest system in a folder, entered as the root of processes that see no other. It
reaches package indexes as this machine does: apt's sources and pip's settings are passed in, and what these
name. So is the Firestore emulator's jar that ``ADK_STORE_FIRESTORE_EMULATOR_JAR`` names, if it is set, which
spares a large download.
"""

import argparse
import configparser
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.setup import debian
from tools.setup.tools import ROOT

_HERE: Final = ROOT / ".cache/bare-machine"
_BASE: Final = _HERE / "base"
_ALONE: Final = "python3,make,git"
_JAR_VARIABLE: Final = "ADK_STORE_FIRESTORE_EMULATOR_JAR"
_JAR: Final = "/opt/firestore-emulator.jar"
_HOMES: Final = {"root": "/root", "ada": "/home/ada"}
_PASSED: Final = re.compile(
    r"(?i)PIP_.*|(http|https|ftp|no|all)_proxy|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
)
_OF_APT: Final = (
    "sources.list",
    "sources.list.d",
    "trusted.gpg.d",
    "keyrings",
    "preferences.d",
    "auth.conf.d",
)
_SHORT: Final = (
    "make demo",
    "make demo",
    "make ready",
    "make ready",
    (
        ".venv/bin/python -m pytest -q tests/unit/test_keys.py tests/services/test_store.py "
        "tests/terraform/test_checks.py tests/ces/sandbox/test_sandbox.py tests/ces/sample "
        "tests/adk_server/test_servers.py"
    ),
)
"""Each kind of test, by a file of it; and what is there already, again."""
_WHOLE: Final = ("make test",)
_ENTER: Final = """
cd "$1"; shift
mount --rbind /dev dev
mount -t proc proc proc
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . mnt
cd /
umount -l mnt
exec "$@"
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the machines and run the commands; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bare_machine", description=__doc__)
    parser.add_argument("--user", choices=_HOMES, action="append", help="root or ada; by default both")
    parser.add_argument("--whole", action="store_true", help="all of `make test`, not one file of each kind")
    parser.add_argument("--run", action="append", metavar="COMMAND", help="another command instead")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        parser.error("a machine is made by root alone")
    _make_base()
    failed = False
    for user in options.user or _HOMES:
        with _machine(user) as machine:
            for command in options.run or (_WHOLE if options.whole else _SHORT):
                failed = not _run(machine, user, command) or failed
    return int(failed)


def _make_base() -> None:
    """Install Debian's smallest system into a folder, unless it is there."""
    if _BASE.is_dir():
        return
    if shutil.which("debootstrap") is None:
        for command in debian.as_root(["debootstrap"]):
            subprocess.run(command, check=True)
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    release = re.search(r"^VERSION_CODENAME=(\S+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert release is not None, "this is no release of Debian"
    mirror = next(line.split()[1] for line in targets.splitlines() if line.split()[0] == release[1])
    made = _BASE.with_name("making")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={_ALONE}", release[1], made, mirror],  # noqa: S607
        check=True,
    )
    made.rename(_BASE)


@contextmanager
def _machine(user: str) -> Iterator[Path]:
    """Yield the root of a new machine with a clone in the user's home; it is gone afterwards."""
    place = _HERE / user
    upper, work, root = place / "upper", place / "work", place / "root"
    if root.is_mount():
        _unmount(root)  # of a run that was killed
    shutil.rmtree(place, ignore_errors=True)
    for each in (upper, work, root):
        each.mkdir(parents=True)
    layers = f"lowerdir={_BASE},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, root], check=True)  # noqa: S607
    try:
        for source, target in [*_pass_settings(root), *_pass_jar()]:
            _mount(source, root / target.lstrip("/"))
        if user != "root":
            subprocess.run(["chroot", root, "useradd", "--create-home", user], check=True)  # noqa: S607
        clone = root / _HOMES[user].lstrip("/") / "clone"
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, clone], check=True)  # noqa: S607
        subprocess.run(["chroot", root, "chown", "-R", user, f"{_HOMES[user]}/clone"], check=True)  # noqa: S607
        yield root
    finally:
        _unmount(root)
        shutil.rmtree(place)


def _unmount(root: Path) -> None:
    """Take away a machine's root with all that is mounted in it, also while something still runs there."""
    subprocess.run(["umount", "--recursive", "--lazy", root], check=True)  # noqa: S607


def _mount(source: Path, target: Path) -> None:
    """Show a file or folder of this machine at another place, to be read alone."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    subprocess.run(["mount", "--bind", "-o", "ro", source, target], check=True)  # noqa: S607


def _pass_settings(root: Path) -> Iterator[tuple[Path, str]]:
    """Write settings of names, certificates, apt and pip; yield the folders that they name."""
    for name in ("/etc/resolv.conf", "/etc/hosts"):
        shutil.copy(name, root / name.lstrip("/"))
    for certificates in {os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile} - {None, ""}:
        target = root / str(certificates).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(certificates), target)
    for name in _OF_APT:
        source, target = Path("/etc/apt", name), root / "etc/apt" / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy(source, target)
        else:
            target.unlink(missing_ok=True)
    dump = ["apt-config", "dump", "Acquire"]
    settings = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    (root / "etc/apt/apt.conf.d/90passed").write_text(settings)
    listed = [sys.executable, "-m", "pip", "config", "list"]
    pip = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    config = configparser.RawConfigParser()
    for line in pip.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        if section.startswith(":"):
            continue  # a variable of the environment, which is passed as it is
        if not config.has_section(section):
            config.add_section(section)
        config.set(section, key, value.strip("'").replace("\\n", "\n"))
    with (root / "etc/pip.conf").open("w") as file:
        config.write(file)
    named = re.findall(r"(?:file://)?(/[\w./-]+)", pip)
    top = {Path(*Path(each).parts[:3]) for each in named}
    yield from ((each, str(each)) for each in sorted(top) if each.is_dir() and each.parts[1] != "etc")


def _pass_jar() -> Iterator[tuple[Path, str]]:
    """Yield the Firestore emulator's jar that the caller names; without one it is downloaded there."""
    named = os.environ.get(_JAR_VARIABLE)
    if named:
        yield Path(named), _JAR


def _run(root: Path, user: str, command: str) -> bool:
    """Run a command in the clone of a machine, and say how long it took; return whether it succeeded."""
    environ = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    environ |= {"HOME": _HOMES[user], "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    if (root / _JAR.lstrip("/")).exists():
        environ[_JAR_VARIABLE] = _JAR
    sys.stdout.write(f"\n=== {user}: {command}\n")
    sys.stdout.flush()
    began = time.monotonic()
    inside = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "sh", "-c"]
    script = f"cd ~/clone && {command}"
    alone = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private"]
    enter = [*alone, "sh", "-e", "-c", _ENTER, "sh", str(root)]
    done = subprocess.run([*enter, *inside, script], env=environ, check=False)
    took = time.monotonic() - began
    sys.stdout.write(f"=== {user}: {command}: status {done.returncode} after {took:.1f} s\n")
    sys.stdout.flush()
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
