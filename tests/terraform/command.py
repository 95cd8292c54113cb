"""Run terraform offline, with stand-ins for the providers that it would download."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.programs import ran
from tools.setup.environments import STAND_IN
from tools.setup.tools import ROOT

HERE: Final = Path(__file__).parent
_ENOUGH_S: Final = 120.0


class Terraform:
    """The command, which finds stand-ins where it looks for providers, and nothing else of this machine's."""

    def __init__(self, *, home: Path, providers: str) -> None:
        self._program = shutil.which("terraform") or "terraform"
        (home / "none.tfrc").write_text("")
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CHECKPOINT_DISABLE": "1",
            # Short runs: a third less of CPU time than with Go's defaults.
            "GOGC": "400",
            "GOMAXPROCS": "1",
            "TF_CLI_CONFIG_FILE": str(home / "none.tfrc"),
            "TF_IN_AUTOMATION": "1",
            "TF_REATTACH_PROVIDERS": providers,
        }

    def __call__(
        self, *arguments: str, folder: Path, environ: Mapping[str, str | None] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it in *folder*, with *environ* over the variables that it has; ``None`` takes one away."""
        variables = {**self._environ, **(environ or {})}
        given = {name: value for name, value in variables.items() if value is not None}
        return ran([self._program, *arguments], cwd=folder, env=given, timeout=_ENOUGH_S)

    def validate(self, folder: Path) -> list[str]:
        """Return what is wrong with the configuration in *folder*, in words."""
        self.get(folder)
        answer = json.loads(self("validate", "-json", folder=folder).stdout)
        return [f"{each['summary']}: {each['detail']}" for each in answer["diagnostics"]]

    def get(self, folder: Path) -> None:
        """Find the modules that the configuration in *folder* calls, once."""
        calls = any("\nmodule " in path.read_text() for path in folder.glob("*.tf"))
        if calls and not (folder / ".terraform").exists():
            self._succeed("get", "-no-color", folder=folder)

    def plan(self, folder: Path, **variables: Any) -> dict[str, Any]:
        """Return what would be made of the configuration in *folder*, as ``show -json`` prints it."""
        self.get(folder)
        (folder / "test.auto.tfvars.json").write_text(json.dumps(variables))
        with tempfile.TemporaryDirectory() as temporary:
            path = str(Path(temporary) / "plan")
            self._succeed("plan", "-input=false", "-lock=false", f"-out={path}", folder=folder)
            shown: dict[str, Any] = json.loads(self._succeed("show", "-json", path, folder=folder))
        return shown

    def refusals(self, folder: Path, **variables: Any) -> list[str]:
        """Return the errors, in words, for which no plan is made with *variables*."""
        self.get(folder)
        (folder / "test.auto.tfvars.json").write_text(json.dumps(variables))
        lines = self("plan", "-input=false", "-lock=false", "-json", folder=folder).stdout.splitlines()
        messages = [json.loads(line) for line in lines]
        return [each["diagnostic"]["detail"] for each in messages if each.get("@level") == "error"]

    def _succeed(self, *arguments: str, folder: Path) -> str:
        run = self(*arguments, folder=folder)
        assert run.returncode == 0, run.stderr
        return run.stdout


@contextmanager
def offline() -> Iterator[Terraform]:
    """Yield the command while stand-ins for its providers run."""
    schemas = sorted(str(path) for path in (HERE / "schemas").glob("*.json"))
    # Not pytest's folder: a socket's path may have 108 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="terraform-") as folder,
        subprocess.Popen(
            [STAND_IN.python(ROOT), HERE / "stand_in.py", folder, *schemas],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            providers = process.stdout.readline()
            assert providers, "the stand-in ended before it served anything"
            yield Terraform(home=Path(folder), providers=providers)
        finally:
            process.stdin.close()  # what it waits for to end


def copied(folder: Path, source: Path = ROOT / "terraform") -> Path:
    """Return a copy in *folder* of the repository's ``terraform``, without what runs by hand left there.

    That of another copy as *source* keeps which modules it calls.
    """
    kept = [] if source == ROOT / "terraform" else [".terraform"]
    left = shutil.ignore_patterns(*({".terraform", ".terraform.*"} - {*kept}), "*.tfstate*", "*.tfvars*")
    return shutil.copytree(source, folder / "terraform", ignore=left)
