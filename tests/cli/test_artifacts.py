"""Show what ``gcp-adk-store artifacts`` prints, writes, deletes and refuses."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store.testing.emulators import Emulator
from tests.cli.conftest import STEERING, Deployment, done, follow

OF: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
NAMED = ("--app", "app", "--user", "ada", "--session", "s1")
HOSTILE = "a/b'\t\x1b[31m[red]\u202e\u200b\\ \u00e4$(x)"
"""A filename as a stranger may give it; ADK refuses the ends of lines."""


async def save(deployment: Deployment, filename: str, *versions: bytes, kind: str = "image/png") -> None:
    """Save versions of an artifact."""
    async with deployment.store() as store:
        for data in versions:
            part = types.Part.from_bytes(data=data, mime_type=kind)
            await store.artifacts.save_artifact(**OF, filename=filename, artifact=part)


def test_a_listing_has_every_version(deployment: Deployment) -> None:
    """Of the session and of its user, with number, size, type and time; in JSON with their checksum."""
    done(save(deployment, "plot.png", b"1", b"22"))
    done(save(deployment, "user:notes.txt", b"x" * 1_500, kind="text/plain"))
    shown = deployment.run("artifacts", "list", *NAMED)
    listed = json.loads(deployment.run("artifacts", "list", *NAMED, "--json").stdout)
    of_user = deployment.run("artifacts", "list", *NAMED[:4]).stdout
    rows = [line.split()[:-2] for line in shown.stdout.splitlines()[2:]]

    assert 0 == shown.exit_code, shown.output
    assert f"bucket {deployment.bucket}" in shown.stdout
    assert [
        ["plot.png", "0", "1", "byte", "image/png"],
        ["plot.png", "1", "2", "bytes", "image/png"],
        ["user:notes.txt", "0", "1.5", "kB", "text/plain"],
    ] == rows
    assert [("plot.png", 0, 1), ("plot.png", 1, 2), ("user:notes.txt", 0, 1_500)] == [
        (each["filename"], each["version"], each["bytes"]) for each in listed["versions"]
    ]
    assert listed["versions"][0]["crc32c"]
    assert "plot.png" not in of_user
    assert "user:notes.txt" in of_user


def test_hostile_names_are_shown_in_one_row_and_steer_nothing(deployment: Deployment) -> None:
    """Escaped as Python does it, the type too; a command takes them as they are."""
    done(save(deployment, HOSTILE, b"1", kind="text/[red]"))
    result = deployment.run("artifacts", "list", *NAMED)
    (row,) = result.stdout.splitlines()[2:]
    missing = deployment.run("artifacts", "get", *NAMED, "--filename", f"{HOSTILE}2", "-o", "-")
    got = deployment.run("artifacts", "get", *NAMED, "--filename", HOSTILE, "-o", "-")

    assert row.lstrip().startswith(rf"a/b'\t\x1b[31m[red]\u202e\u200b\ {chr(0xE4)}$(x) ")
    assert "text/[red]" in row
    assert [] == [each for each in STEERING if each in result.output + missing.output]
    assert (1, 0, b"1") == (missing.exit_code, got.exit_code, got.stdout_bytes)


def test_an_artifact_is_written_to_a_file(deployment: Deployment, tmp_path: Path) -> None:
    """The latest version or the one that is named; nothing is left beside it."""
    large = os.urandom(9_000_000)
    done(save(deployment, "plot.png", b"old", large))
    file = tmp_path / "plot.png"
    latest = deployment.run("artifacts", "get", *NAMED, "--filename", "plot.png", "-o", str(file))
    assert large == file.read_bytes()
    first = deployment.run(
        "artifacts", "get", *NAMED, "--filename", "plot.png", "--version", "0", "-o", str(file)
    )

    assert (0, 0) == (latest.exit_code, first.exit_code)
    assert "version 1, image/png, 9,000,000 bytes, written to" in latest.stderr
    assert b"old" == file.read_bytes()
    assert [file] == list(tmp_path.iterdir())


def test_an_artifact_that_is_not_there_ends_it_with_1(deployment: Deployment, tmp_path: Path) -> None:
    """With the command that lists those there are; the file is as it was.

    A file that cannot be written ends it with 2, and the command for another file.
    """
    done(save(deployment, "plot.png", b"old"))
    done(save(deployment, "rewound", b"", kind="application/octet-stream"))
    file = tmp_path / "out"
    file.write_text("kept")
    for which in (("other",), ("plot.png", "--version", "7"), ("rewound",)):
        result = deployment.run("artifacts", "get", *NAMED, "--filename", *which, "-o", str(file))
        helps = follow(result.stderr.strip().rpartition("list them: ")[2])

        assert 1 == result.exit_code, which
        assert ["artifacts", "list", *deployment.options, *NAMED] == helps
    assert "plot.png" in deployment.run(*helps).stdout
    assert "kept" == file.read_text()
    assert [file] == list(tmp_path.iterdir())

    nowhere = str(tmp_path / "missing" / "out")
    result = deployment.run("artifacts", "get", *NAMED, "--filename", "plot.png", "-o", nowhere)

    assert 2 == result.exit_code
    assert "cannot be written: No such file or directory" in result.stderr
    assert result.stderr.strip().endswith("--filename plot.png -o FILE")


def test_one_artifact_is_deleted(deployment: Deployment) -> None:
    """With all its versions, after a dry run that deletes none; the others stay."""
    done(save(deployment, "plot.png", b"1", b"2"))
    done(save(deployment, "other", b"1"))
    arguments = (*NAMED, "--filename", "plot.png")
    dry = deployment.run("artifacts", "delete", *arguments, "--dry-run")
    real = deployment.run("artifacts", "delete", *arguments, "--yes")
    again = deployment.run("artifacts", "delete", *arguments, "--yes")
    left = json.loads(deployment.run("artifacts", "list", *NAMED, "--json").stdout)["versions"]

    assert [0, 0, 1] == [each.exit_code for each in (dry, real, again)]
    assert dry.stdout.endswith("would delete plot.png\n")
    assert real.stdout.endswith("\ndeleted plot.png\n")
    assert ["other"] == [each["filename"] for each in left]


@pytest.mark.parametrize(
    ("named", "gone", "stays"),
    [(NAMED, ["plot.png"], ["user:notes"]), (NAMED[:4], ["s1/plot.png", "user/user:notes"], [])],
    ids=["a session", "a user"],
)
def test_all_artifacts_are_deleted(
    deployment: Deployment, named: tuple[str, ...], gone: list[str], stays: list[str]
) -> None:
    """Of a session without those of its user, or of a user in every session."""
    done(save(deployment, "plot.png", b"1"))
    done(save(deployment, "user:notes", b"1"))
    dry = json.loads(deployment.run("artifacts", "delete", *named, "--all", "--dry-run", "--json").stdout)
    real = json.loads(deployment.run("artifacts", "delete", *named, "--all", "--yes", "--json").stdout)
    left = json.loads(deployment.run("artifacts", "list", *NAMED, "--json").stdout)["versions"]

    assert (gone, "found") == (dry["artifacts"], dry["outcome"])
    assert (gone, "deleted") == (real["artifacts"], real["outcome"])
    assert stays == [each["filename"] for each in left]


def test_a_deletion_that_is_not_decided_is_refused(deployment: Deployment) -> None:
    """Nothing is deleted."""
    done(save(deployment, "plot.png", b"1"))
    for arguments, says in (
        ((*NAMED, "--all"), "neither is given"),
        ((*NAMED, "--all", "--yes", "--dry-run"), "both are given"),
        ((*NAMED, "--yes"), "name one artifact with --filename, or all with --all"),
        ((*NAMED, "--yes", "--all", "--filename", "plot.png"), "name one artifact"),
        ((*NAMED[:4], "--yes", "--filename", "plot.png"), "Session ID must be provided"),
    ):
        result = deployment.run("artifacts", "delete", *arguments)

        assert (2, "") == (result.exit_code, result.stdout), arguments
        assert says in result.stderr
    assert "plot.png" in deployment.run("artifacts", "list", *NAMED).stdout


def test_no_bucket_is_an_error_that_ends_with_the_command(deployment: Deployment) -> None:
    """And a bucket that is not there one that says so."""
    without = deployment.led("artifacts", "list", *NAMED, ADK_STORE_BUCKET="")
    missing = deployment.led("artifacts", "list", *NAMED, ADK_STORE_BUCKET="not-there-at-all")

    assert (2, 2) == (without.exit_code, missing.exit_code)
    assert without.stderr.strip().endswith("artifacts list --bucket NAME --app app --user ada --session s1")
    assert "the bucket does not exist" in missing.stderr


def test_no_project_is_needed(deployment: Deployment, storage_emulator: Emulator) -> None:
    """Objects are found by their bucket; a listing of nothing says so, and ends with 0."""
    nothing = deployment.run("artifacts", "list", *NAMED)
    done(save(deployment, "plot.png", b"1"))
    run = deployment.led("artifacts", "list", *NAMED, ADK_STORE_PROJECT="")

    assert (0, "no artifacts") == (nothing.exit_code, nothing.stdout.splitlines()[-1])
    assert 0 == run.exit_code, run.stderr
    assert f"bucket {deployment.bucket}, on the emulator at {storage_emulator.address}" in run.stdout
