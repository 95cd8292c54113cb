"""No text asks for a package index for this package: whoever takes its name there would be installed."""

import hashlib
import os
import re
import subprocess
import sys
import threading
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.documents import ROOT
from tools.setup.environments import LOCK

NAME = "gcp-adk-store"
EXAMPLE = ROOT / "examples/cloud_run"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

BY_NAME = re.compile(
    r"""(pip|uv|pipx|poetry)[ ](install|add|run|wheel|download)\b[^\n`&;]*
        (?<![./\w-])gcp[-_.]adk[-_.]store(?![-_.\w/]) """,
    re.IGNORECASE | re.VERBOSE,
)
"""A command that installs this package by its name: not a path to it, not a module of it."""

SPREADS = re.compile(r"--find-links|--extra-index-url")
"""Options of pip that add a place to look in, and still ask the index."""


def mentions() -> Iterator[tuple[str, str]]:
    """Yield every text that readers see or copy: documents, examples, the package's code, build files."""
    folders = (
        "docs",
        "emulators",
        "terraform",
        "examples",
        "gcp_adk_store",
        "tools",
        ".github",
    )
    kinds = {"", ".hcl", ".md", ".py", ".tf", ".toml", ".txt", ".yaml", ".yml"}
    files = [
        path for path in (*ROOT.iterdir(), ROOT / ".ci/run") if path.name not in ("CHANGELOG.md", ".coverage")
    ]
    files += [path for folder in folders for path in (ROOT / folder).rglob("*")]
    for path in files:
        if path.is_file() and path.suffix in kinds and ".terraform" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text()


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("pip install 'gcp-adk-store[a2a]'", True),
        ("RUN pip install --no-cache-dir gcp_adk_store==0.1.0", True),
        ("uv add gcp-adk-store", True),
        ("pip install '.[a2a]'", False),
        ("pip install --no-index --no-deps wheels/gcp_adk_store-*.whl", False),
        ("pip install . && gcp-adk-store doctor", False),
    ],
)
def test_a_command_that_asks_an_index_is_recognised(line: str, *, asks: bool) -> None:
    """By the package's name in any spelling; a path to a wheel or a clone names a file."""
    assert asks == bool(BY_NAME.search(line))


def test_no_document_error_or_example_installs_the_package_by_name() -> None:
    """Nor adds a place to look in beside the index, where the highest version wins."""
    found = [
        f"{name}: {each[0]}"
        for name, text in mentions()
        for asks in (BY_NAME, SPREADS)
        for each in asks.finditer(text)
    ]

    assert [] == found


def test_no_file_of_requirements_names_the_package() -> None:
    """Such a file is read with an index."""
    files = [EXAMPLE / "requirements.txt", ROOT / LOCK, ROOT / "tests/terraform/requirements.txt"]
    named = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in files
        for line in path.read_text().splitlines()
        if canonicalize_name(re.split(r"[^\w.-]", line, maxsplit=1)[0]) == NAME
    ]

    assert [] == named


def test_the_requirements_of_the_example_are_those_of_the_package() -> None:
    """The wheel is installed without asking for any."""
    lines = (EXAMPLE / "requirements.txt").read_text().splitlines()
    given = {line for line in lines if line and not line.startswith("#")}

    assert {*PROJECT["dependencies"]} == given


@dataclass
class Index:
    """A package index that has every name, this package's in a version above all others."""

    url: str = ""
    wheels: dict[str, Path] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


def wheel(folder: Path, name: str, version: str, *, requires: list[str]) -> Path:
    """Write the smallest wheel that pip installs."""
    spelt = canonicalize_name(name).replace("-", "_")
    about = f"{spelt}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    path = folder / f"{spelt}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{about}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """An index on this machine, with what the package needs, in the versions that are installed."""
    folder = tmp_path / "index"
    folder.mkdir()
    names = [Requirement(text).name for text in PROJECT["dependencies"]]
    found = Index()
    for name in names:
        found.wheels[canonicalize_name(name)] = wheel(folder, name, metadata.version(name), requires=[])
    found.wheels[NAME] = wheel(folder, NAME, "99.0", requires=[])

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, part = self.path.strip("/").split("/")
            files = {path.name: path for path in found.wheels.values()}
            if part in files:
                return self._answer(files[part].read_bytes())
            found.asked.append(part)
            path = found.wheels.get(part)
            if path is None:
                return self.send_error(404)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            return self._answer(f'<a href="/files/{path.name}#sha256={digest}">{path.name}</a>'.encode())

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/simple"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.mark.long
def test_the_image_has_the_wheel_and_not_what_an_index_has_under_its_name(
    index: Index, tmp_path: Path
) -> None:
    """The Dockerfile's own lines, on an index whose version is higher; it is never asked for that name."""
    text = (EXAMPLE / "Dockerfile").read_text().replace("\\\n", " ")
    installs = [line.removeprefix("RUN ") for line in text.splitlines() if line.startswith("RUN pip")]
    place = tmp_path / "app"
    (place / "wheels").mkdir(parents=True)
    (place / "requirements.txt").write_text((EXAMPLE / "requirements.txt").read_text())
    wheel(place / "wheels", NAME, "0.1.0", requires=PROJECT["dependencies"])
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    pip = tmp_path / "bin/pip"
    pip.parent.mkdir()
    pip.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip --python "{python}" "$@"\n')
    pip.chmod(0o755)
    environ = {
        "PATH": f"{pip.parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": index.url,
    }
    for line in installs:
        subprocess.run(["sh", "-e", "-c", line], cwd=place, env=environ, check=True)  # noqa: S607  # the image's
    look = "from importlib.metadata import version; print(version('gcp-adk-store'), version('click'))"
    run = subprocess.run([python, "-I", "-c", look], capture_output=True, text=True, check=True)

    assert f"0.1.0 {metadata.version('click')}\n" == run.stdout
    assert NAME not in index.asked
    assert "google-adk" in index.asked
