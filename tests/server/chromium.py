"""Open pages in Chromium and tell what they show; ``--check`` whether it is there, ``--install`` it.

Chromium alone, by its own ``--dump-dom`` and ``--screenshot``: no driver that must be of its version, and no
package beside. Its virtual time stands still while a request runs, so nothing waits by the clock.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from tests.debian_packages import command, install_packages

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_PACKAGE: Final = "chromium"
_TO_INSTALL: Final = f"""\
Chromium is not installed, and the page of adk web is opened in it. Install Debian's package:
  sudo apt-get install --no-install-recommends {_PACKAGE}
or run `make browser` as root."""
_VIRTUAL_MS: Final = 20_000
_REAL_S: Final = 100.0


class BrowserMissingError(RuntimeError):
    """There is no Chromium; the message says how to install it."""


def find_chromium(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of Chromium.

    Raises:
        BrowserMissingError: there is none on ``PATH``.
    """
    path = environ.get("PATH", "")
    for name in _NAMES:
        found = shutil.which(name, path=path)
        if found is not None:
            return found
    raise BrowserMissingError(_TO_INSTALL)


def install(environ: Mapping[str, str] = os.environ) -> None:
    """Install Chromium where it is missing.

    Raises:
        BrowserMissingError: there is no apt-get, or this is not root.
        subprocess.CalledProcessError: apt-get failed, and said why.
    """
    try:
        find_chromium(environ)
    except BrowserMissingError:
        if not install_packages(_PACKAGE, environ=environ):
            raise


def shown_on(url: str, *, screenshot: Path, profile: Path) -> str:
    """Open a page of this machine, keep a picture of it, and return its text, each run of blanks as one.

    Args:
        url: The page. Nothing else than 127.0.0.1 can be reached.
        screenshot: File for the picture, a PNG.
        profile: Empty folder for what Chromium keeps.
    """
    screenshot.parent.mkdir(parents=True, exist_ok=True)
    command = [
        find_chromium(),
        "--headless",
        "--no-sandbox",  # it runs as root in containers, and opens this machine's own pages
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={profile}",
        "--window-size=1400,1000",
        f"--virtual-time-budget={_VIRTUAL_MS}",
        f"--screenshot={screenshot}",
        "--dump-dom",
        url,
    ]
    page = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_REAL_S).stdout
    reader = _Words()
    reader.feed(page)
    return " ".join(" ".join(reader.words).split())


class _Words(HTMLParser):
    """Collects the text of a page without its styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._hidden = tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or install; return the exit status."""
    name = f"{__package__}.chromium"
    return command(name, arguments, check=find_chromium, install=install, missing=BrowserMissingError)


if __name__ == "__main__":
    sys.exit(main())
