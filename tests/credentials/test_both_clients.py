"""Both clients of a store carry one token, count for one project and ask one universe, over TLS."""

import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud.firestore_v1.types import firestore, write

from tests.credentials.conftest import Written
from tests.credentials.token_endpoints import TokenEndpoints
from tests.support.certificates import certified
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

SENT = ("authorization", "x-goog-user-project")


class Cloud:
    """Google Cloud, behind a proxy, over TLS, for whatever host a client asks the proxy to connect it with.

    Firestore answers that there is nothing and takes every commit, Cloud Storage the same. What matters is
    under which name, with which token and for which project they were asked.
    """

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.hosts: list[str] = []
        self.firestore: list[dict[str, str]] = []
        self.storage: list[dict[str, str]] = []
        self.trusted = folder / "trusted.pem"
        key, certificate = certified(self.trusted, names)
        (folder / "key.pem").write_bytes(key)
        (folder / "certificate.pem").write_bytes(certificate)
        self._grpc = grpc.server(ThreadPoolExecutor(4), handlers=[_Firestore(self.firestore)])
        grpc_port = self._grpc.add_secure_port(
            "127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)])
        )
        self._grpc.start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        self._https = ThreadingHTTPServer(("127.0.0.1", 0), _storage(self.storage))
        self._https.daemon_threads = True
        self._https.socket = context.wrap_socket(self._https.socket, server_side=True)
        ports = {"firestore": grpc_port, "storage": self._https.server_address[1]}
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), _proxy(self.hosts, ports))
        self._proxy.daemon_threads = True
        self.proxy_url = f"http://127.0.0.1:{self._proxy.server_address[1]}"
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(0.01,))
            for server in (self._https, self._proxy)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop."""
        self._grpc.stop(None).wait()
        for server in (self._proxy, self._https):
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join()


def _sent(headers: Any) -> dict[str, str]:
    return {key.lower(): value for key, value in headers if key.lower() in SENT}


class _Firestore(grpc.GenericRpcHandler):
    def __init__(self, sent: list[dict[str, str]]) -> None:
        self._sent = sent

    def service(self, details: Any) -> Any:
        self._sent.append(_sent(details.invocation_metadata))
        if details.method.endswith("/BatchGetDocuments"):
            return grpc.unary_stream_rpc_method_handler(
                lambda request, _: (
                    firestore.BatchGetDocumentsResponse(missing=name)
                    for name in firestore.BatchGetDocumentsRequest.deserialize(request).documents
                ),
                response_serializer=firestore.BatchGetDocumentsResponse.serialize,
            )
        assert details.method.endswith("/Commit")
        return grpc.unary_unary_rpc_method_handler(
            lambda request, _: firestore.CommitResponse(
                write_results=[
                    write.WriteResult() for _ in firestore.CommitRequest.deserialize(request).writes
                ]
            ),
            response_serializer=firestore.CommitResponse.serialize,
        )


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self, body: dict[str, Any]) -> None:
        """Send *body*."""
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _storage(sent: list[dict[str, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(_Quiet):
        def do_GET(self) -> None:
            sent.append(_sent(self.headers.items()))
            self.answer({"kind": "storage#objects"})

        def do_POST(self) -> None:
            sent.append(_sent(self.headers.items()))
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer({"kind": "storage#object", "generation": "1", "metageneration": "1"})

    return Handler


def _proxy(hosts: list[str], ports: dict[str, int]) -> type[BaseHTTPRequestHandler]:
    class Handler(_Quiet):
        def do_CONNECT(self) -> None:
            hosts.append(self.path)
            port = ports.get(self.path.partition(".")[0])
            if port is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            with socket.create_connection(("127.0.0.1", port)) as beyond:
                back = threading.Thread(target=_pump, args=(beyond, self.connection))
                back.start()
                _pump(self.connection, beyond)
                back.join()
            self.close_connection = True

    return Handler


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other side has gone


ROOT = Path(__file__).parents[2]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Google Cloud, and a universe of another name."""
    served = Cloud(tmp_path, ["*.googleapis.com", "*.example.test"])
    yield served
    served.close()


@pytest.fixture
def take_a_turn(cloud: Cloud) -> Callable[..., None]:
    """Let a process of its own use a store."""

    def run(*arguments: str, **variables: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if "EMULATOR_HOST" not in name}
        taken = ran(
            [ready_programs() / "python", str(ROOT / "tests/credentials/one_turn.py"), *arguments],
            cwd=ROOT,
            env={
                **inherited,
                "PYTHONPATH": str(ROOT),
                "HTTPS_PROXY": cloud.proxy_url,
                "https_proxy": cloud.proxy_url,
                "NO_PROXY": "127.0.0.1",
                "no_proxy": "127.0.0.1",
                "REQUESTS_CA_BUNDLE": str(cloud.trusted),
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(cloud.trusted),
                "ADK_STORE_PROJECT": "demo",
                "ADK_STORE_BUCKET": "bucket",
                **variables,
            },
            timeout=60,
        )
        assert 0 == taken.returncode, taken.stderr

    return run


@pytest.mark.sample(1)
@pytest.mark.parametrize("arguments", [[], ["uris"]], ids=["a store", "services of URIs"])
def test_one_token_serves_documents_payloads_and_artifacts(
    take_a_turn: Callable[..., None],
    cloud: Cloud,
    pool_file: Written,
    endpoints: TokenEndpoints,
    arguments: list[str],
) -> None:
    """It is fetched once, and every request counts for the quota project."""
    take_a_turn(*arguments, ADK_STORE_CREDENTIALS_FILE=str(pool_file()), ADK_STORE_QUOTA_PROJECT="paying")
    sent = [*cloud.firestore, *cloud.storage]

    assert ["/v1/token"] == endpoints.paths
    assert len(cloud.firestore) >= 2
    assert len(cloud.storage) >= 5
    assert [{"authorization": "Bearer token-1", "x-goog-user-project": "paying"}] * len(sent) == sent
    assert {"firestore.googleapis.com:443", "storage.googleapis.com:443"} <= set(cloud.hosts)


@pytest.mark.long
def test_the_service_account_that_is_attached_serves_without_a_file(
    take_a_turn: Callable[..., None], cloud: Cloud, endpoints: TokenEndpoints, tmp_path: Path
) -> None:
    """As on Cloud Run: the metadata server is asked for one token, of the scopes of a store."""
    server = endpoints.url.removeprefix("http://")
    take_a_turn(
        ADK_STORE_PROJECT="",
        CLOUDSDK_CONFIG=str(tmp_path),
        GCE_METADATA_HOST=server,
        GCE_METADATA_IP=server,
    )
    tokens = {sent["authorization"] for sent in (*cloud.firestore, *cloud.storage)}

    assert {"Bearer token-1"} == tokens
    scopes = {f"https://www.googleapis.com/auth/{name}" for name in ("datastore", "devstorage.read_write")}
    assert [scopes] == [set(asked.fields["scopes"].split(",")) for asked in endpoints.asked]
    assert cloud.firestore
    assert cloud.storage


def test_all_clients_ask_the_universe_of_the_credentials(
    take_a_turn: Callable[..., None], cloud: Cloud, key_file: Written, endpoints: TokenEndpoints
) -> None:
    """And nothing of googleapis.com."""
    take_a_turn(
        GOOGLE_APPLICATION_CREDENTIALS=str(key_file(universe_domain="example.test")),
        GOOGLE_CLOUD_UNIVERSE_DOMAIN="example.test",
    )
    tokens = {sent["authorization"] for sent in (*cloud.firestore, *cloud.storage)}

    assert {"firestore.example.test:443", "storage.example.test:443"} == set(cloud.hosts)
    assert 1 == len(tokens)
    assert [] == endpoints.asked
