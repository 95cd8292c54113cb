"""A download is whole and checked or not there, goes on where it was cut, and ends within its time."""

import fcntl
import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.testing.downloads import DownloadLimits, EmulatorError, PinnedFile, download
from tests.emulators.file_server import (
    Answer,
    FileServer,
    announcing,
    cut_after,
    part_of_another,
    serving,
    silent,
    stalling_after,
    status,
    trickling,
    well,
    whole,
)

CONTENT = hashlib.shake_128(b"the file").digest(1_000_000)
OTHER = hashlib.shake_128(b"another").digest(len(CONTENT))
LIMITS = DownloadLimits(stall_s=0.5, total_s=20, pause_s=0.01)
OTHERWISE = "put it there"
Fetch = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach 127.0.0.1 directly, wherever the tests run."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[FileServer]:
    """Serve the file."""
    with serving(CONTENT) as files:
        yield files


@pytest.fixture
def fetch(server: FileServer, tmp_path: Path) -> Callable[..., Path]:
    """Download the file into a folder that is not there yet."""

    def fetch(**options: Any) -> Path:
        return download(
            pinned(server.url), tmp_path / "a/b", **{"limits": LIMITS, "otherwise": OTHERWISE, **options}
        )

    return fetch


def pinned(url: str) -> PinnedFile:
    """Return the file as it is pinned."""
    return PinnedFile(name="file.jar", url=url, size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())


def names(folder: Path) -> list[str]:
    """Return what is in the folder, without the lock."""
    return sorted(each.name for each in folder.iterdir() if each.suffix != ".lock")


def test_a_file_is_downloaded_once(server: FileServer, fetch: Fetch) -> None:
    """It gets its name when it is whole; the next call asks nothing. Its length need not be announced."""
    counts: list[int] = []
    path = fetch(on_bytes=counts.append)
    again = fetch()

    assert path == again
    assert CONTENT == path.read_bytes()
    assert ["file.jar"] == names(path.parent)
    assert [None] == server.ranges
    assert sorted(counts) == counts
    assert len(CONTENT) == counts[-1]

    path.unlink()
    server.answers = [announcing(None, CONTENT)]
    assert CONTENT == fetch().read_bytes()


def test_a_cut_download_goes_on_where_it_was_cut(server: FileServer, fetch: Fetch, tmp_path: Path) -> None:
    """More often than it would try in vain, for each try brings something; the rest is of the same file.

    What is reported is on the disk already: a process that is killed leaves it to the next.
    """
    server.answers = [cut_after(1_000)] * 5
    reported: list[tuple[int, int]] = []
    part = tmp_path / "a/b/file.jar.part"
    path = fetch(on_bytes=lambda there: reported.append((there, part.stat().st_size)))

    assert CONTENT == path.read_bytes()
    assert [None, *(f"bytes={1_000 * n}-" for n in range(1, 6))] == server.ranges
    assert [] == [(there, kept) for there, kept in reported if there != kept]
    assert ['"one"'] * 5 == [headers["If-Range"] for _, headers in server.requests[1:]]


def test_a_file_that_changed_meanwhile_is_taken_anew(server: FileServer, fetch: Fetch) -> None:
    """A server that has another file under the name by now sends all of it, and nothing is mixed."""

    def changed(handler: Any) -> None:
        cut_after(100_000)(handler)
        server.content, server.etag = CONTENT, '"two"'

    server.content = OTHER
    server.answers = [changed]

    assert CONTENT == fetch().read_bytes()
    assert [None, "bytes=100000-"] == server.ranges


@pytest.mark.parametrize(
    ("left", "asked"),
    [
        # As a call that gave up leaves it for the next.
        (CONTENT[:400_000], ["bytes=400000-"]),
        # Of another file, only the SHA-256 can show it; then all is taken once more.
        (OTHER[:300_000], ["bytes=300000-", None]),
        # As a process leaves it that ends before it renames; one that is longer is dropped.
        (CONTENT, []),
        (OTHER, [None]),
        (CONTENT + b"x", 2),
    ],
)
def test_what_is_left_is_not_mixed_in(
    server: FileServer, fetch: Fetch, tmp_path: Path, left: bytes, asked: Any
) -> None:
    """What was there before is checked with the rest."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file.jar.part").write_bytes(left)

    assert CONTENT == fetch().read_bytes()
    assert asked == (server.ranges if isinstance(asked, list) else len(server.ranges))


@pytest.mark.parametrize(
    "then",
    [
        # What it sends is never put behind what is there.
        *([cut_after(400_000), unfit] for unfit in (whole, part_of_another)),
        # Twice in a row without a byte is not the end.
        *([status(code), status(code)] for code in (408, 429, 500, 502, 503, 504)),
    ],
)
def test_a_server_that_recovers_is_asked_again(server: FileServer, fetch: Fetch, then: list[Answer]) -> None:
    """Also one that knows no parts, and sends all again."""
    server.answers = [*then]

    assert CONTENT == fetch().read_bytes()


@pytest.mark.parametrize(
    ("code", "asked"), [(500, 3), (503, 3), (404, 1), (403, 1), (407, 1), (204, 1), (304, 1)]
)
def test_a_server_that_refuses_is_not_asked_for_ever(
    server: FileServer, fetch: Fetch, tmp_path: Path, code: int, asked: int
) -> None:
    """Three times where it may recover, once where it will not; the message has the status, and ways out."""
    server.answers = [status(code)] * 9
    message = refusal(fetch)

    for says in (
        f"file.jar could not be downloaded from {server.url}: the server answers with status {code}.",
        "Behind a proxy set HTTPS_PROXY, and SSL_CERT_FILE where it has certificates of its own.",
        f"Without a network, take {server.url} from another machine, and {OTHERWISE}.",
    ):
        assert says in message
    assert asked == len(server.requests)
    assert [] == names(tmp_path / "a/b")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (announcing(10, b"0123456789"), "'10' bytes are announced, not 1,000,000"),
        (announcing(len(CONTENT) + 1, CONTENT + b"x"), "'1000001' bytes are announced, not 1,000,000"),
        (announcing(None, CONTENT + b"x"), "it has more than 1,000,000 bytes"),
        (announcing(len(OTHER), OTHER), f"its SHA-256 is {hashlib.sha256(OTHER).hexdigest()}, not"),
    ],
    ids=["too short", "too long", "too long and not said", "of the same size"],
)
def test_another_file_is_refused_and_not_kept(
    server: FileServer, fetch: Fetch, tmp_path: Path, answer: Any, why: str
) -> None:
    """At once, for it would come again; nothing of it stays, and the next call begins anew."""
    server.answers = [answer]
    message = refusal(fetch)

    assert why in message
    assert "So it is not the file that is expected there; a proxy may answer in its place." in message
    assert [] == names(tmp_path / "a/b")
    assert 1 == len(server.requests)
    assert CONTENT == fetch().read_bytes()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server: FileServer, fetch: Fetch, code: int) -> None:
    """Relative ones too, and with the part that is asked for."""
    server.answers = [cut_after(400_000), status(code, Location="/elsewhere"), well]

    assert CONTENT == fetch().read_bytes()
    assert ["/file", "/file", "/elsewhere"] == [path for path, _ in server.requests]
    assert "bytes=400000-" == server.ranges[-1]


def test_redirects_have_an_end(server: FileServer, fetch: Fetch) -> None:
    """Five, then it gives up; none leads to another protocol, least of all to a file of this machine."""
    server.answers = [status(302, Location="/file")] * 9

    assert "it is redirected more than 5 times" in refusal(fetch)
    assert 6 == len(server.requests)

    server.answers = [status(302, Location="file:///etc/hostname")]

    assert "file:///etc/hostname is not an http:// or https:// URL" in refusal(fetch)


@pytest.mark.parametrize("answer", [silent, stalling_after(1000)])
def test_a_server_that_hangs_is_left(server: FileServer, fetch: Fetch, answer: Any) -> None:
    """After as many seconds without a byte as the limits say; another try may do better."""
    server.answers = [answer]

    assert CONTENT == fetch().read_bytes()
    assert 2 == len(server.requests)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "what",
    [
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 302 Found\r\nLocation: /",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT),
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["the head", "a redirect's head", "the body", "a body without length"],
)
def test_a_server_that_trickles_has_the_whole_time_alone(
    server: FileServer, fetch: Fetch, what: bytes
) -> None:
    """Bytes that come now and then are no stall; the time for everything ends them."""
    server.answers = [trickling(what)] * 9
    limits = DownloadLimits(stall_s=5, total_s=1, pause_s=0.01)

    assert "it did not arrive within 1 s" in refusal(fetch, limits=limits)


def test_a_server_that_is_not_there_is_named(server: FileServer, fetch: Fetch) -> None:
    """With the system's reason. A mirror's address may hold a password or a signature: they are not shown."""
    url = "http://127.0.0.1:9/file"  # the port of discard, where nothing listens

    assert f"could not be downloaded from {url}: the connection failed (" in refusal(fetch, url=url)
    assert [] == server.requests

    server.answers = [status(404)]
    url = server.url.replace("/file", "/mirror?signature=secret#part")
    message = refusal(fetch, url=url)
    hidden = refusal(fetch, url="ftp://me:password@there/file")

    assert "/mirror?signature=secret" == server.requests[0][0]
    assert f"from {server.url.replace('/file', '/mirror')}: " in message
    assert "secret" not in message
    assert "ftp://there/file is not an http:// or https:// URL" in hidden
    assert "password" not in hidden
    assert "from a malformed URL: the connection failed (Invalid IPv6 URL" in refusal(fetch, url="http://[")
    server.answers = [cut_after(400_000), *[status(503)] * 3]
    assert "0.4 MB of 1.0 MB are in" in refusal(fetch)


def test_a_proxy_of_the_environment_is_used(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its variable names it; it is asked for the whole URL."""
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/file"))

    assert CONTENT == fetch(url="http://example.invalid/file").read_bytes()
    assert ["http://example.invalid/file"] == [path for path, _ in server.requests]


@pytest.mark.parametrize(
    ("variable", "names"),
    [("all_proxy", "socks5://127.0.0.1:9"), ("all_proxy", "proxy://127.0.0.1:9"), ("http_proxy", "there:x")],
)
def test_a_proxy_that_cannot_be_used_is_a_failure_of_the_network(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch, variable: str, names: str
) -> None:
    """As one that does not answer: the message says which variables there are, and how to do without."""
    monkeypatch.setenv(variable, names)
    message = refusal(fetch)

    assert f"from {server.url}: the connection failed (" in message
    assert "put it there" in message
    assert [] == server.requests


def test_certificates_are_those_of_the_system(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenSSL reads them: a file of them that is not there has none, and is not the folder's fault."""
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/authorities.pem")

    assert CONTENT == fetch().read_bytes()
    assert [None] == server.ranges


async def test_a_file_is_downloaded_within_an_event_loop(fetch: Fetch) -> None:
    """Such as by an asynchronous fixture or a notebook that starts the emulators."""
    assert CONTENT == fetch().read_bytes()


def test_a_folder_that_cannot_be_written_is_named(server: FileServer, tmp_path: Path) -> None:
    """With the system's reason and the room that is needed; it is not the network's, nor tried again."""
    (tmp_path / "a").touch()
    (tmp_path / "file.jar.part").symlink_to("/dev/full")
    for folder, why in ((tmp_path / "a/b", "Not a directory"), (tmp_path, "No space left on device")):
        with pytest.raises(EmulatorError) as caught:
            download(pinned(server.url), folder, otherwise=OTHERWISE, limits=LIMITS)

        assert str(caught.value).startswith(f"{folder}/file.jar cannot be written ({why}): ")
        assert "make the folder writable, with room for 1.0 MB." in str(caught.value)
    assert 1 == len(server.requests)


def test_two_calls_download_once(server: FileServer, fetch: Fetch) -> None:
    """The second waits for the first, and takes what it brought; a lock keeps processes apart as threads."""
    reached, go = threading.Event(), threading.Event()

    def held(handler: Any) -> None:
        reached.set()
        go.wait(60)
        well(handler)

    server.answers = [held]
    with ThreadPoolExecutor() as threads:
        first = threads.submit(fetch)
        assert reached.wait(60)
        second = fetch(on_bytes=lambda _: go.set())

    assert CONTENT == first.result().read_bytes() == second.read_bytes()
    assert 1 == len(server.requests)


def test_the_wait_for_another_process_has_an_end(server: FileServer, tmp_path: Path) -> None:
    """One that holds the lock and never ends is named by its lock."""
    with (tmp_path / "file.jar.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        limits = DownloadLimits(total_s=0.3)
        with pytest.raises(EmulatorError, match=r"Another process still downloads .* file\.jar\.lock"):
            download(pinned(server.url), tmp_path, otherwise=OTHERWISE, limits=limits)

    assert [] == server.requests
    assert ["file.jar.lock"] == [each.name for each in tmp_path.iterdir()]


def refusal(fetch: Fetch, **options: Any) -> str:
    """Return the message of a download that fails."""
    with pytest.raises(EmulatorError) as caught:
        fetch(**options)
    return str(caught.value)
