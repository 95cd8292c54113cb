"""Stand in for the command ``runsc``: make the container of a description by bubblewrap.

So what calls it is driven by a real process, with real mounts, pipes and signals, where gVisor itself is not
installed. It says nothing of what gVisor keeps out, and reads what the library writes alone.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any


def command(told: dict[str, Any]) -> list[str]:
    """Return bubblewrap's arguments for a description."""
    process, binds = told["process"], []
    for mount in told["mounts"]:
        if mount["type"] == "bind":
            binds += ["--ro-bind", mount["source"], mount["destination"]]
        else:
            size = next(each for each in mount["options"] if each.startswith("size=")).removeprefix("size=")
            binds += ["--perms", "1777", "--size", size, "--tmpfs", mount["destination"]]
    environment = [each for text in process["env"] for each in ("--setenv", *text.split("=", 1))]
    user = ["--uid", str(process["user"]["uid"]), "--gid", str(process["user"]["gid"])]
    assert {"pid", "ipc", "mount", "network", "uts"} == {each["type"] for each in told["linux"]["namespaces"]}
    assert told["root"]["readonly"]
    assert process["noNewPrivileges"]
    return [
        *("--unshare-all", "--unshare-user", *user, "--cap-drop", "ALL", "--die-with-parent", "--clearenv"),
        *(*environment, "--hostname", told["hostname"], *binds, "--proc", "/proc", "--dev", "/dev"),
        *("--remount-ro", "/", "--chdir", process["cwd"], "--", *process["args"]),
    ]


def main(arguments: list[str]) -> None:
    """Do what the last arguments say, of those that the library gives."""
    options = [each for each in arguments if each.startswith("--")]
    act = [each for each in arguments if not each.startswith("--")]
    values = dict(each.removeprefix("--").split("=", 1) for each in options if "=" in each)
    state = Path(values["root"]) / act[1]
    assert values["network"] == "none"
    if act[0] == "delete":
        shutil.rmtree(state, ignore_errors=True)
        return
    assert act[0] == "run"
    state.mkdir(parents=True)
    bubblewrap = shutil.which("bwrap")
    assert bubblewrap is not None
    told = json.loads((Path(values["bundle"]) / "config.json").read_text())
    # Under a name that tells whose container it is, as the processes of gVisor have.
    os.execv(bubblewrap, [f"sandbox of {values['bundle']}", *command(told)])  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
