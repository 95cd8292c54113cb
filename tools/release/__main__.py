"""Build the files of a release into ``dist``, check them, and write its notes, parts and page into ``build``.

``python -m tools.release [--tag v0.1.0] [--without-trial]``. It needs git, and for the trial what pip needs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from packaging.requirements import Requirement

from gcp_adk_store import __version__
from tools.release import changelog, files, trial
from tools.release.bom import bom
from tools.release.sizes import Distributions, installed, project, table
from tools.setup.environments import LOCK
from tools.setup.tools import ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check and try; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description="Build a release, and check it."
    )
    parser.add_argument("--tag", help="the tag of the release; without it this is a rehearsal")
    parser.add_argument("--without-trial", action="store_true", help="install nothing")
    options = parser.parse_args(arguments)
    text = (ROOT / "CHANGELOG.md").read_text()
    found = list(changelog.problems(text, version=__version__, tag=options.tag))
    if not found:
        notes = ROOT / "build/notes.md"
        notes.parent.mkdir(exist_ok=True)
        notes.write_text(changelog.notes(text, __version__))
        if repository := os.environ.get("ADK_STORE_REPOSITORY"):
            page = (ROOT / "docs/integrations/adk-catalogue.md").read_text()
            catalogue = files.catalogue_page(page, repository=repository)
            (ROOT / "build/adk-catalogue.md").write_text(catalogue)
        wheel = build(ROOT / "dist")
        found = list(problems(wheel))
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    if found:
        return 1
    sys.stdout.write(f"{wheel.name} and its sources have the package as git knows it\n")
    return 0 if options.without_trial else try_out(wheel)


def try_out(wheel: Path) -> int:
    """Use *wheel* in an environment of its own, and say what worked; return the exit status."""
    about = project()
    listed = map(Requirement, about["optional-dependencies"]["dev"])
    # An extra that is not for development needs other versions than the rest.
    extras = sorted(extra for each in listed if each.name == about["name"] for extra in each.extras)
    lock = (ROOT / LOCK).read_text()
    with tempfile.TemporaryDirectory() as folder:
        try:
            for worked in trial.run(
                wheel, version=__version__, extras=extras, lock=lock, folder=Path(folder)
            ):
                sys.stdout.write(f"{worked}\n")
                sys.stdout.flush()
            report(wheel, installed(trial.packages(Path(folder))))
        except trial.TrialError as exc:
            sys.stderr.write(f"{exc}\n")
            return 1
    return 0


def report(wheel: Path, there: Distributions) -> None:
    """Print the size of *wheel* and of what it brings, and keep the list of it all in ``build``."""
    sys.stdout.write(f"{wheel.stat().st_size / 1e6:5.1f} MB  {wheel.name}\n{table(there)}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    place = ROOT / "build/bom.cdx.json"
    place.write_text(bom(project()["name"], there.values(), time=now))
    sys.stdout.write(f"{place.relative_to(ROOT)} names {len(there)} packages\n")


def tracked() -> list[str]:
    """Return the files of the package that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", files.PACKAGE],  # noqa: S607  # the user's
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return listed.rstrip("\0").split("\0")


def build(folder: Path) -> Path:
    """Build the source archive and the wheel into *folder*, which has nothing else then; return the wheel."""
    shutil.rmtree(folder, ignore_errors=True)
    _build(ROOT, folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _build(root: Path, folder: Path, *targets: str) -> None:
    wanted = [word for target in targets for word in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", *wanted, "--directory", str(folder)]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)


def problems(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel and the source archive beside it."""
    known, about = tracked(), project()
    (sources,) = wheel.parent.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"{files.PACKAGE}-{__version__}.dist-info/METADATA").decode()
    for name in sorted(
        files.of_wheel(names, tracked=known, version=__version__, licenses=about["license-files"])
    ):
        yield f"{wheel.name} {'has' if name in names else 'lacks'} {name}"
    yield from files.of_metadata(metadata, project=about, version=__version__)
    with tarfile.open(sources) as archive, tempfile.TemporaryDirectory() as folder:
        packed = archive.getnames()
        for name in sorted(files.of_sources(packed, tracked=known, version=__version__)):
            yield f"{sources.name} {'has' if name in packed else 'lacks'} {name}"
        archive.extractall(folder, filter="data")
        again = Path(folder) / "again"
        _build(Path(folder) / f"{files.PACKAGE}-{__version__}", again, "wheel")
        if (again / wheel.name).read_bytes() != wheel.read_bytes():
            yield f"{wheel.name} is another one when it is built from {sources.name}"


if __name__ == "__main__":
    sys.exit(main())
