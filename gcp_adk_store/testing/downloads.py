"""Download a file that is pinned by its size and SHA-256: it appears whole and checked, or not at all.

A download that is cut leaves ``NAME.part``, and the next one goes on where it ends. ``NAME.lock`` keeps two
processes from writing it at once: the second waits, and uses what the first brought. The errors say why an
emulator cannot be started, and how to install what it needs.
"""

import asyncio
import contextlib
import hashlib
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

if TYPE_CHECKING:
    import httpx

FROM_A_CLONE: Final = "pip install '.[testing]'    # in a clone of the project"
"""How the extra ``testing`` is installed."""

TO_INSTALL: Final = """\
This command installs what is missing:    python -m gcp_adk_store.testing --install
It downloads the emulator, and Java if it is missing. Or install them yourself, one of:
  - the Cloud SDK's component:   gcloud components install cloud-firestore-emulator
                                 (Debian package: google-cloud-cli-firestore-emulator)
  - firebase-tools' copy:        npx firebase-tools setup:emulators:firestore
  - containers:                  docker compose -f emulators/compose.yaml up --detach
and for the first two Java 17 or newer (Debian package: openjdk-17-jre-headless).
Or set FIRESTORE_EMULATOR_HOST to an emulator that runs already, or
ADK_STORE_FIRESTORE_EMULATOR_JAR to the path of its jar."""

STORAGE_TO_INSTALL: Final = f"""\
This command installs it:        python -m gcp_adk_store.testing --install
It comes with the extra, too:    {FROM_A_CLONE}
Or set STORAGE_EMULATOR_HOST to an emulator that runs already."""


class EmulatorError(RuntimeError):
    """An emulator cannot be started or installed; the message says what to install or change."""


_MEGABYTE: Final = 1_000_000
_FRUITLESS_IN_A_ROW: Final = 3
_REDIRECTS: Final = 5
_LOOKS_AGAIN_S: Final = 0.2
_SHOWN_CHARS: Final = 100
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_WORTH_ANOTHER_TRY: Final = frozenset({408, 416, 429, 500, 502, 503, 504})
"""Statuses that a repeated request may avoid. 416 means that the partial download is of another file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile:
    """A file whose content is known before it is downloaded."""

    name: str
    """Its name in the folder that it is downloaded to."""
    url: str
    size: int
    """In bytes."""
    sha256: str
    """In hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadLimits:
    """How long a download may take."""

    stall_s: float = 30.0
    """Seconds without a byte, after which a try ends."""
    total_s: float = 1800.0
    """Seconds for everything, with the wait for another process; 137 MB at 0.6 Mbit/s take as long."""
    pause_s: float = 1.0
    """Seconds before the second try; twice as many before each further one that follows upon nothing."""


def download(
    file: PinnedFile,
    folder: Path,
    *,
    otherwise: str,
    url: str | None = None,
    on_bytes: Callable[[int], None] = lambda _: None,
    limits: DownloadLimits = DownloadLimits(),
) -> Path:
    """Return the path of *file* in *folder*, where it is downloaded unless it is there.

    The file gets its name when its size and SHA-256 are right and its bytes are on the disk. Proxies are
    those of the process's ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``. Certificates are the system's, or
    those of ``SSL_CERT_FILE``.

    Args:
        file: What to download.
        folder: Where to; it is made where it is missing.
        otherwise: What to do with a copy from another machine, for messages: "name it in A_VARIABLE".
        url: A mirror, instead of the file's own URL.
        on_bytes: Is called with the number of bytes that are there, after each block.
        limits: How long it may take.

    Raises:
        EmulatorError: it cannot be downloaded within the limits, is another file, or cannot be written.
    """
    target = folder / file.name
    if target.is_file():
        return target
    deadline = time.monotonic() + limits.total_s
    transfer = _Transfer(file, target, url or file.url, otherwise, on_bytes, limits, deadline)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(target, deadline, on_bytes):
            if not target.is_file():
                _run(transfer.run())
    except OSError as exc:
        raise EmulatorError(
            f"{target} cannot be written ({exc.strerror or exc}): "
            f"make the folder writable, with room for {in_megabytes(file.size)}."
        ) from exc
    return target


@contextlib.contextmanager
def _alone(target: Path, deadline: float, on_bytes: Callable[[int], None]) -> Iterator[None]:
    """Hold the file's lock, which ends with the process that holds it, however that ends."""
    import fcntl  # noqa: PLC0415  # of POSIX: pytest loads this package on other systems, too

    with target.with_name(f"{target.name}.lock").open("wb") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as exc:
                if time.monotonic() > deadline:
                    raise EmulatorError(
                        f"Another process still downloads {target}, and holds {target.name}.lock. "
                        "Wait for it, or end it, and repeat this."
                    ) from exc
            on_bytes(_size_of(_part_of(target)))
            time.sleep(_LOOKS_AGAIN_S)
        yield


class _BrokenOffError(Exception):
    """An answer that ended early; a further request continues it."""


@dataclass(slots=True)
class _Transfer:
    """One download, over as many requests as it takes."""

    file: PinnedFile
    target: Path
    url: str
    otherwise: str
    on_bytes: Callable[[int], None]
    limits: DownloadLimits
    deadline: float
    etag: str | None = None
    """Of the answer whose bytes are there, where this process got them and it is a strong one."""
    mixed: bool = False
    """Whether what is there comes from more than one answer."""

    @property
    def part(self) -> Path:
        """The file that grows."""
        return _part_of(self.target)

    async def run(self) -> None:
        """Download the file and move it into its place."""
        self.mixed = self.part.exists()
        await self._complete()
        found = self._digest()
        if found != self.file.sha256 and self.mixed:
            # Bytes of an earlier download, or of two answers, may not belong together: in whole.
            self._drop()
            await self._complete()
            found = self._digest()
        if found != self.file.sha256:
            self._drop()
            raise self._failure(f"its SHA-256 is {found}, not {self.file.sha256}", is_another=True)
        with self.part.open("rb") as part:
            os.fsync(part.fileno())
        self.part.replace(self.target)

    async def _complete(self) -> None:
        """Fetch until the part is as long as the file."""
        import httpx  # noqa: PLC0415  # pytest loads this module, too

        system = ssl.create_default_context()  # httpx would take its own authorities in place of the system's
        fruitless = 0
        while (have := _size_of(self.part)) != self.file.size:
            try:
                with _network():
                    async with (
                        asyncio.timeout(self.deadline - time.monotonic()),
                        httpx.AsyncClient(timeout=self.limits.stall_s, verify=system) as client,
                    ):
                        await self._fetch(client, have)
            except _BrokenOffError as exc:
                fruitless = 0 if _size_of(self.part) > have else fruitless + 1
                pause = self.limits.pause_s * 2 ** max(0, fruitless - 1)
                if time.monotonic() + pause > self.deadline:
                    raise self._failure(
                        f"it did not arrive within {self.limits.total_s:g} s; at last {exc}"
                    ) from exc
                if fruitless == _FRUITLESS_IN_A_ROW:
                    raise self._failure(str(exc)) from exc
                await asyncio.sleep(pause)

    async def _fetch(self, client: "httpx.AsyncClient", have: int) -> None:
        """Ask for what is missing, and keep what comes.

        Raises:
            _BrokenOffError: it ended early.
            EmulatorError: it is another file, or it is refused.
            OSError: it cannot be written.
        """
        headers = {"Accept-Encoding": "identity", "User-Agent": "gcp-adk-store"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.etag:
                headers["If-Range"] = self.etag
        async with self._answer(client, headers) as response:
            there = self._start_of(response, have)
            tag = response.headers.get("ETag", "")
            self.etag = tag if tag.startswith('"') else None
            self.mixed = there > 0
            with self.part.open("r+b" if there else "wb") as part:
                part.seek(there)
                async for block in response.aiter_raw():
                    there += len(block)
                    if there > self.file.size:
                        self._drop()
                        raise self._failure(f"it has more than {self.file.size:,} bytes", is_another=True)
                    part.write(block)
                    part.flush()  # what is reported is kept, also where this process is killed next
                    self.on_bytes(there)
        if there < self.file.size:
            raise _BrokenOffError(f"the connection ended after {there:,} of {self.file.size:,} bytes")

    @contextlib.asynccontextmanager
    async def _answer(
        self, client: "httpx.AsyncClient", headers: Mapping[str, str]
    ) -> "AsyncIterator[httpx.Response]":
        """Give the answer to a request, or to what it is redirected to; bodies of redirects are not read."""
        url = self.url
        for _ in range(1 + _REDIRECTS):
            if urlsplit(url).scheme not in ("http", "https"):
                raise self._failure(f"{shown_url(url)} is not an http:// or https:// URL")
            async with client.stream("GET", url, headers=headers) as response:
                place = response.headers.get("Location")
                if response.status_code not in _MOVED or not place:
                    yield response
                    return
            url = urljoin(url, place)
        raise self._failure(f"it is redirected more than {_REDIRECTS} times")

    def _start_of(self, response: "httpx.Response", have: int) -> int:
        """Return where an answer begins: a server may send all, though a part was asked for."""
        status = response.status_code
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._drop()
        if status in _WORTH_ANOTHER_TRY:
            raise _BrokenOffError(f"the server answers with status {status}")
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise self._failure(f"the server answers with status {status}")
        start = have if status == HTTPStatus.PARTIAL_CONTENT else 0
        on_bytes = response.headers.get("Content-Range", "")
        if start and on_bytes != f"bytes {start}-{self.file.size - 1}/{self.file.size}":
            self._drop()
            raise _BrokenOffError(f"the server sent another part, {on_bytes[:_SHOWN_CHARS]!r}")
        length = response.headers.get("Content-Length")
        if length not in (None, f"{self.file.size - start}"):
            expected = f"{self.file.size - start:,}"
            raise self._failure(
                f"{length[:_SHOWN_CHARS]!r} bytes are announced, not {expected}", is_another=True
            )
        return start

    def _digest(self) -> str:
        with self.part.open("rb") as part:
            return hashlib.file_digest(part, "sha256").hexdigest()

    def _drop(self) -> None:
        self.part.unlink(missing_ok=True)
        self.etag = None

    def _failure(self, reason: str, *, is_another: bool = False) -> EmulatorError:
        """Return the error that says *reason*, what is kept, and what to do."""
        lines = [f"{self.file.name} could not be downloaded from {shown_url(self.url)}: {reason}."]
        if is_another:
            lines.append("So it is not the file that is expected there; a proxy may answer in its place.")
        if kept := _size_of(self.part):
            lines.append(
                f"{in_megabytes(kept)} of {in_megabytes(self.file.size)} are in {self.part}; "
                "the same command goes on from there."
            )
        lines += [
            "Behind a proxy set HTTPS_PROXY, and SSL_CERT_FILE where it has certificates of its own.",
            f"Without a network, take {shown_url(self.file.url)} from another machine, and {self.otherwise}.",
        ]
        return EmulatorError("\n".join(lines))


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* to its end, also where a loop runs already, such as that of an asynchronous fixture."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, work).result()


@contextlib.contextmanager
def _network() -> Iterator[None]:
    """Distinguish network errors from disk errors, and name the system's reason."""
    import httpx  # noqa: PLC0415  # as above

    try:
        yield
    except TimeoutError as exc:
        raise _BrokenOffError("the server was still sending") from exc
    except httpx.TimeoutException as exc:
        raise _BrokenOffError("the server does not answer") from exc
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as exc:  # ImportError: a SOCKS proxy
        reason: BaseException = exc
        while reason.__cause__ is not None:
            reason = reason.__cause__
        raise _BrokenOffError(f"the connection failed ({str(reason)[:_SHOWN_CHARS]})") from exc


def in_megabytes(size: int) -> str:
    """Return a number of bytes in a readable form."""
    return f"{size / _MEGABYTE:.1f} MB"


def _part_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _size_of(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0


def shown_url(url: str) -> str:
    """Return a URL without the parts that may be secret: user and password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a malformed URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
