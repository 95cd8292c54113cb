"""Install packages of Debian where whoever runs the tests may."""

import os
import shutil
import subprocess
from collections.abc import Mapping


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
