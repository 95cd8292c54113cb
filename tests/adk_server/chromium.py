"""Open pages in Chromium and return what they show.

Chromium alone, by its own ``--dump-dom`` and ``--screenshot``: no driver that must be of its version, and no
package beside. Its virtual time stands still while a request runs, so nothing waits by the clock.
"""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

_VIRTUAL_MS: Final = 20_000
_REAL_S: Final = 100.0


def shown_on(url: str, *, chromium: str, screenshot: Path, profile: Path) -> str:
    """Open a page of this machine, keep a picture of it, and return its text, each run of blanks as one.

    Args:
        url: The page. Nothing else than 127.0.0.1 can be reached.
        chromium: Path of the program.
        screenshot: File for the picture, a PNG.
        profile: Empty folder for what Chromium keeps.
    """
    screenshot.parent.mkdir(parents=True, exist_ok=True)
    command = [
        chromium,
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
