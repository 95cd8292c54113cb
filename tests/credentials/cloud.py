"""Stand where Google Cloud stands: behind a proxy, over TLS, under its own names.

Firestore answers that there is nothing and takes every commit, Cloud Storage the same. What matters is under
which name, with which token and for which project they were asked.
"""

import json
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from google.cloud.firestore_v1.types import firestore, write

from tests.support.certificates import certified

SENT = ("authorization", "x-goog-user-project")


class Cloud:
    """Answers for whatever host a client asks the proxy to connect it with."""

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
