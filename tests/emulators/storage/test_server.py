"""Show how the server treats buckets, batches, broken clients, bugs and its own end."""

import http.client
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed
from google.cloud import storage

from gcp_adk_store.testing.storage_emulator import StorageEmulator, running_emulator
from tests.emulators.storage.conftest import Call


def start(*arguments: str) -> subprocess.Popen[str]:
    """Run the package as a program."""
    return subprocess.Popen(
        [sys.executable, "-m", "gcp_adk_store.testing.storage_emulator", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_bucket_lives_from_create_to_delete(client: storage.Client, call: Call) -> None:
    """It is made once, found, and deleted once; an object keeps it, an upload that runs does not."""
    created = client.create_bucket("life-cycle", location="europe-west1")
    with pytest.raises(Conflict):
        client.create_bucket("life-cycle")
    found = client.get_bucket("life-cycle")
    listed = [bucket.name for bucket in client.list_buckets(prefix="life")]
    created.blob("o").upload_from_string(b"x")
    with pytest.raises(Conflict):
        created.delete()
    created.blob("o").delete()
    started = call("POST", "/upload/storage/v1/b/life-cycle/o?uploadType=resumable&name=o")
    created.delete()
    upload = created.blob("o")
    for use in (
        lambda: client.get_bucket("life-cycle"),
        created.delete,
        lambda: upload.upload_from_string(b"x"),
    ):
        with pytest.raises(NotFound):
            use()

    assert ("life-cycle", "europe-west1", ["life-cycle"]) == (found.name, found.location, listed)
    assert 404 == call("PUT", started.headers["Location"], b"x").status
    for target in ("/storage/v1/b/life-cycle", "/storage/v1/b/life-cycle/o"):
        answer = call("GET", target)
        assert (404, "notFound") == (answer.status, answer.json()["error"]["errors"][0]["reason"])


def test_labels_merge_and_bucket_conditions_hold(bucket: storage.Bucket) -> None:
    """A patch merges labels and honours its condition. A policy is read back; every permission is granted."""
    bucket.labels = {"keep": "1", "remove": "1"}
    bucket.patch()
    labels = bucket.labels
    del labels["remove"]
    bucket.labels = labels
    bucket.patch(if_metageneration_match=2)
    with pytest.raises(PreconditionFailed):
        bucket.patch(if_metageneration_match=2)
    bucket.reload()

    assert ({"keep": "1"}, 3) == (bucket.labels, bucket.metageneration)

    policy = bucket.get_iam_policy()
    policy.bindings = [{"role": "roles/storage.objectUser", "members": {"user:a@example.com"}}]
    bucket.set_iam_policy(policy)

    assert policy.bindings == bucket.get_iam_policy().bindings
    assert ["storage.objects.get"] == bucket.test_iam_permissions(["storage.objects.get"])


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        *(
            ("POST", "", f'{{"name": "{name}"}}'.encode(), 400)
            for name in ("UPPER", "x", "a..b", "-a-", "with space")
        ),
        *(("POST", "", no_object, 400) for no_object in (b"{", b"[]", b"\xff")),
        ("PATCH", "/{bucket}", b'{"versioning": {"enabled": true}}', 501),
        *(
            ("PATCH", "/{bucket}", settings, 400)
            for settings in (
                b'{"versioning": true}',
                b'{"labels": []}',
                b'{"storageClass": 5}',
                b'{"softDeletePolicy": 5}',
                b'{"softDeletePolicy": {"retentionDurationSeconds": "x"}}',
            )
        ),
        *(
            ("POST", "/{bucket}/o/a/compose", b'{"sourceObjects": %s}' % sources, 400)
            for sources in (
                b"5",
                b'[{"name": []}]',
                b'[{"name": "a", "objectPreconditions": 5}]',
                b'[{"name": "a", "objectPreconditions": {"ifGenerationMatch": Infinity}}]',
                b'[{"name": "a"}], "destination": 5',
            )
        ),
        *(("PATCH", "/{bucket}/o/a", b'{"%s": 5}' % name, 400) for name in (b"contentType", b"storageClass")),
        ("GET", "/{bucket}/o?matchGlob=[z-a]", b"", 400),
    ],
)
def test_what_is_no_bucket_or_object_is_refused(
    bucket: storage.Bucket, call: Call, method: str, target: str, body: bytes, status: int
) -> None:
    """Names outside of the rules, values of another kind, what is no JSON object and what is not emulated."""
    bucket.blob("a").upload_from_string(b"x")
    assert status == call(method, "/storage/v1/b" + target.format(bucket=bucket.name), body).status


def test_a_batch_answers_each_call(client: storage.Client, bucket: storage.Bucket) -> None:
    """Calls in a batch succeed and fail one by one, with their conditions."""
    names = ["a b", "snow☃", "kept"]
    for name in names:
        bucket.blob(name).upload_from_string(b"x")
    patched = bucket.blob("kept")
    patched.metadata = {"k": "☃"}
    with client.batch(raise_exception=False) as batch:
        bucket.blob("a b").delete()
        bucket.blob("snow☃").delete()
        bucket.blob("kept").delete(if_generation_match=1)
        bucket.blob("missing").delete()
        patched.patch()
    statuses = [response.status_code for response in batch._responses]

    assert [204, 204, 412, 404, 200] == statuses
    assert {"k": "☃"} == bucket.get_blob("kept").metadata


@pytest.mark.parametrize(
    ("part", "status"), [("GET http://[ HTTP/1.1", 400), ("GET", 400), ("GET / HTTP/1.1", 200)]
)
def test_a_batch_with_a_part_that_is_no_request_is_refused(call: Call, part: str, status: int) -> None:
    """And the Content-ID of a part may have any character."""
    body = f"--b\r\nContent-ID: <\u00e9>\r\n\r\n{part}\r\n\r\n\r\n--b--\r\n".encode()

    assert (
        status == call("POST", "/batch/storage/v1", body, Content_Type="multipart/mixed; boundary=b").status
    )


def test_a_wipe_forgets_objects_and_maybe_buckets(bucket: storage.Bucket, call: Call) -> None:
    """The reset route keeps empty buckets only when asked to."""
    bucket.blob("o").upload_from_string(b"x")
    call("GET", "/wipe?keep-buckets=1")
    kept = (bucket.exists(), list(bucket.list_blobs()), list(bucket.list_blobs(soft_deleted=True)))
    call("POST", "/wipe")

    assert (True, [], []) == kept
    assert not bucket.exists()


def test_a_stalled_client_blocks_nobody(emulator: StorageEmulator, bucket: storage.Bucket) -> None:
    """Others are served while one client has sent half a head and one half a body."""
    host = urlsplit(emulator.url)
    address = (host.hostname or "", host.port or 0)
    with socket.create_connection(address) as head, socket.create_connection(address) as body:
        head.sendall(b"GET /storage/v1/b HTTP/1.1\r\nHos")
        body.sendall(
            b"POST /upload/storage/v1/b/%s/o?uploadType=media&name=half HTTP/1.1\r\n"
            b"Host: x\r\nContent-Length: 9\r\n\r\nhalf" % bucket.name.encode()
        )
        bucket.blob("o").upload_from_string(b"x", timeout=60, retry=None)

        assert b"x" == bucket.blob("o").download_as_bytes(timeout=60, retry=None)

    assert not bucket.blob("half").exists()


def test_a_connection_serves_many_requests(emulator: StorageEmulator) -> None:
    """Keep-alive outlives successes, errors and HEAD; after the server's end nobody is served over it."""
    host = urlsplit(emulator.url)
    connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=60)
    connection.connect()
    opened = connection.sock
    statuses = []
    for method, path in (("GET", "/"), ("GET", "/storage/v1/b/none"), ("HEAD", "/"), ("GET", "/")):
        connection.request(method, path)
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    kept = connection.sock is opened
    connection.close()

    assert ([200, 404, 200, 200], True) == (statuses, kept)

    with running_emulator() as server:
        host = urlsplit(server.url)
        connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=60)
        connection.request("GET", "/")
        body = connection.getresponse().read()
    assert connection.sock is not None
    rest = connection.sock.recv(1)
    connection.close()

    assert (b"OK", b"") == (body, rest)


def test_a_bug_is_an_answer(emulator: StorageEmulator, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception nobody expected answers 500 in JSON, and the server goes on."""

    def fail(_bucket: str) -> None:
        raise ZeroDivisionError("bug")

    with monkeypatch.context() as patch:
        patch.setattr(emulator.storage, "check_bucket", fail)
        answer = call("GET", "/storage/v1/b/b/o")

    assert (500, "ZeroDivisionError: bug") == (answer.status, answer.json()["error"]["message"])
    assert 200 == call("GET", "/").status


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 18 + b"\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
    ],
)
def test_a_broken_request_is_answered(emulator: StorageEmulator, sent: bytes, status: int) -> None:
    """What is not HTTP, or not a known route, still gets a JSON answer."""
    host = urlsplit(emulator.url)
    with socket.create_connection((host.hostname or "", host.port or 0), timeout=60) as connection:
        connection.sendall(sent)
        received = b"".join(iter(lambda: connection.recv(65536), b""))

    assert b'"code": %d' % status in received


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_program_serves_until_it_is_asked_to_stop(number: signal.Signals) -> None:
    """It announces its address, has the buckets asked for, and ends with status 0."""
    with start("--port", "0", "--bucket", "first-bucket", "--bucket", "second-bucket") as program:
        assert program.stdout is not None
        url = urlsplit(program.stdout.readline().split()[-1])
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
        connection.request("GET", "/storage/v1/b?fields=items/name")
        body = connection.getresponse().read()
        connection.close()
        program.send_signal(number)
        _, errors = program.communicate(timeout=60)

    assert b'{"items": [{"name": "first-bucket"}, {"name": "second-bucket"}]}' == body
    assert (0, "") == (program.returncode, errors)


def test_what_keeps_the_program_from_its_start_is_reported_in_one_line(emulator: StorageEmulator) -> None:
    """It ends with status 1 and says which address is taken, or which bucket it could not create."""
    port = str(urlsplit(emulator.url).port)
    for arguments, says in (
        (("--port", port), f"cannot listen on 127.0.0.1:{port}: Address already in use"),
        (("--port", "0", "--bucket", "UPPER"), "400: Invalid bucket name: 'UPPER'"),
    ):
        with start(*arguments) as program:
            _, errors = program.communicate(timeout=60)

        assert (1, f"storage emulator: {says}\n") == (program.returncode, errors)
