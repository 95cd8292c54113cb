"""A deployment on the emulators, and the command on it, as a user runs it."""

import asyncio
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command

T = TypeVar("T")

HOSTILE = "a/b'\n\t\x1b[31m[red]\u202e\u200b\\ \u00e4$(x)"
"""An id as a stranger may give it: folders, lines, colours, rich's markup, directions, words of a shell."""

STEERING = ("\x1b", "\u202e", "\u200b", "\t", "\r", "\x07")


@dataclass(frozen=True)
class Deployment:
    """Where a test keeps its sessions and artifacts."""

    project: str
    bucket: str

    @property
    def options(self) -> list[str]:
        """What leads a command there."""
        return ["--project", self.project, "--bucket", self.bucket]

    def store(self) -> Store:
        """Return a store there."""
        return Store.connect(project=self.project, bucket=self.bucket)

    def run(self, *arguments: str) -> Result:
        """Run the command on it; the options come after the names of the command."""
        names = [*takewhile(lambda word: not word.startswith("-"), arguments[:3])]
        return CliRunner().invoke(command, [*names, *self.options, *arguments[len(names) :]])

    @property
    def environ(self) -> dict[str, str]:
        """What leads a process there."""
        return {"ADK_STORE_PROJECT": self.project, "ADK_STORE_BUCKET": self.bucket}

    def led(self, *arguments: str, **environ: str) -> Result:
        """Run the command, which the environment alone leads to it."""
        return CliRunner().invoke(command, arguments, env={**self.environ, **environ})


def done(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*."""
    return asyncio.run(work)


@pytest.fixture
def deployment(project: str, adk_store_bucket: str) -> Deployment:
    """A project and a bucket that no other test has seen."""
    return Deployment(project=project, bucket=adk_store_bucket)


def follow(line: str) -> list[str]:
    """Return the words of a command that was printed, as bash takes them, without the program."""
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"],  # noqa: S607  # the reader's shell
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    return words.stdout.decode().split("\0")[1:-1]
