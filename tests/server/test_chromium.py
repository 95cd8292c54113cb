"""Where Chromium is missing that is told before the tests run, with the command that helps."""

import os
from pathlib import Path

import pytest

from tests.server import chromium
from tests.server.chromium import BrowserMissingError, find_chromium, install


def executable(folder: Path, name: str, body: str = "") -> Path:
    """Make a program that can be run."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_chromium_is_found_by_the_names_that_it_has(tmp_path: Path, name: str) -> None:
    """In any folder of the path."""
    assert str(executable(tmp_path, name)) == find_chromium({"PATH": str(tmp_path)})


def test_a_machine_without_chromium_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the check before the tests, which fails; also where it cannot be installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    statuses = [chromium.main(["--check"]), chromium.main(["--install"])]
    told = capsys.readouterr().err

    assert [1, 1] == statuses
    assert 2 == told.count("sudo apt-get install --no-install-recommends chromium")


def test_chromium_is_installed_by_root_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With apt-get; where it is there, nothing happens, and without root nothing can."""
    log = tmp_path / "log"
    executable(tmp_path, "apt-get", f'echo "$@" >> {log}')
    environ = {"PATH": str(tmp_path)}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BrowserMissingError, match="as root"):
        install(environ)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    install(environ)
    executable(tmp_path, "chromium")
    install(environ)

    assert ["update -q", "install -q -y --no-install-recommends chromium"] == log.read_text().splitlines()
