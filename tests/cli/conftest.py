"""A deployment on the emulators, and the command on it, as a user runs it."""

import asyncio
import os
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from tests.support.ready_programs import ready_programs

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

    def process(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[bytes]":
        """Run the command as a process of its own, which ends in a pipe."""
        return subprocess.run(
            [ready_programs() / "gcp-adk-store", *arguments],
            env={**os.environ, **self.environ, **environ},
            capture_output=True,
            check=False,
        )

    def peak_of(self, *arguments: str) -> int:
        """Return how many bytes Python held at most in a process that runs the command."""
        done = subprocess.run(
            [ready_programs() / "python", Path(__file__).with_name("traced_command.py"), *arguments],
            env={**os.environ, **self.environ},
            stderr=subprocess.PIPE,
            check=True,
        )
        return int(done.stderr.split()[-1])


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
