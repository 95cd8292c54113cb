"""Install packages of Debian where whoever runs the tests may."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence


def install_packages(*packages: str, environ: Mapping[str, str]) -> bool:
    """Install *packages* by apt-get; ``False`` where there is none, or this is not root.

    Raises:
        subprocess.CalledProcessError: apt-get failed, and said why.
    """
    apt = shutil.which("apt-get", path=environ.get("PATH", ""))
    if apt is None or os.geteuid() != 0:
        return False
    quietly = {**environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([apt, "update", "-q"], check=True, env=quietly)
    subprocess.run(
        [apt, "install", "-q", "-y", "--no-install-recommends", *packages], check=True, env=quietly
    )
    return True


def command(
    name: str,
    arguments: Sequence[str] | None,
    *,
    check: Callable[[], object],
    install: Callable[[], object],
    missing: type[Exception],
) -> int:
    """Check or install, as a command says; return its exit status.

    Args:
        name: The module that is run.
        arguments: ``--check`` or ``--install``; ``None`` is the process's.
        check: Raises *missing*, which says what to install, where something is.
        install: Installs what is missing, or raises the same.
        missing: What is shown without a traceback.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="fail if something is missing")
    what.add_argument("--install", action="store_true", help="install what is missing, as root")
    try:
        install() if parser.parse_args(arguments).install else check()
    except (missing, subprocess.CalledProcessError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0
