"""Stand where Google Cloud stands: behind a proxy, over TLS, under its own names.

Firestore answers that there is nothing and takes every commit, Cloud Storage the same. What matters is under
which name, with which token and for which project they were asked.
"""

import datetime as dt
import json
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.cloud.firestore_v1.types import firestore, write

SENT = ("authorization", "x-goog-user-project")


class Cloud:
    """Answers for whatever host a client asks the proxy to connect it with."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.hosts: list[str] = []
        self.firestore: list[dict[str, str]] = []
        self.storage: list[dict[str, str]] = []
        self.trusted = folder / "trusted.pem"
        key, certificate = _certificate(self.trusted, names)
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


def _certificate(trusted: Path, names: list[str]) -> tuple[bytes, bytes]:
    """Return key and certificate for *names*, of an authority whose certificate is written to *trusted*."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority of a test")])
    authority = (
        _builder(issuer, issuer, authority_key, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cloud of a test")])
    certificate = (
        _builder(issuer, subject, authority_key, key)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    trusted.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    return (
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        certificate.public_bytes(serialization.Encoding.PEM),
    )


def _builder(issuer: x509.Name, subject: x509.Name, signer: Any, key: Any) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
