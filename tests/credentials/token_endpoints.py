"""Serve what hands out tokens at Google, over HTTP on this machine, in the documented shapes.

The token endpoint of OAuth 2.0, the token exchange of STS, ``generateAccessToken`` and ``signBlob`` of IAM,
and the metadata server of Cloud Run, GKE and machines.
"""

import base64
import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

ATTACHED = "attached@demo.iam.gserviceaccount.com"


class Asked(NamedTuple):
    """One request for a token."""

    path: str
    fields: dict[str, Any]
    bearer: str


class TokenEndpoints:
    """Answers with tokens ``token-1``, ``token-2`` and so on, or with a refusal."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.refusals: dict[int, tuple[int, Mapping[str, Any] | bytes]] = {}
        self.lives_s = 3600
        self.arrived = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._guard = threading.Lock()
        endpoints = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_json = "json" in self.headers["Content-Type"]
                fields = json.loads(body) if is_json else dict(parse_qsl(body.decode()))
                bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
                status, answer = endpoints.answer(Asked(self.path, fields, bearer))
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                # The metadata server's answers, asked of with a header that no browser sends.
                url = urlsplit(self.path)
                is_asked = self.headers["Metadata-Flavor"] == "Google"
                status, data = endpoints.metadata(Asked(url.path, dict(parse_qsl(url.query)), ""))
                self.send_response(status if is_asked else 403)
                self.send_header("Metadata-Flavor", "Google")
                self.send_header("Content-Type", "application/json" if data[:1] == b"{" else "text/plain")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def refuse_after(self, number: int, status: int, body: Mapping[str, Any] | bytes) -> None:
        """Refuse the request that comes after *number* more; bytes are sent as they are."""
        self.refusals = {len(self.asked) + number: (status, body)}

    def answer(self, asked: Asked) -> tuple[int, Mapping[str, Any] | bytes]:
        """Return status and body for one request."""
        with self._guard:
            self.asked.append(asked)
            token = f"token-{len(self.asked)}"
            refusal = self.refusals.get(len(self.asked) - 1)
        self.arrived.set()
        assert self.may_answer.wait(timeout=60)
        if refusal is not None:
            return refusal
        if asked.path == "/token":
            return 200, {"access_token": token, "expires_in": self.lives_s, "token_type": "Bearer"}
        if asked.path == "/v1/token":
            issued = "urn:ietf:params:oauth:token-type:access_token"
            return 200, {
                "access_token": token,
                "issued_token_type": issued,
                "token_type": "Bearer",
                "expires_in": self.lives_s,
            }
        if asked.path.endswith(":generateAccessToken"):
            ends = datetime.now(UTC) + timedelta(seconds=self.lives_s)
            return 200, {"accessToken": token, "expireTime": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}
        assert asked.path.endswith(":signBlob")
        signed = base64.b64encode(b"signed:" + base64.b64decode(asked.fields["payload"])[:8]).decode()
        return 200, {"keyId": "key", "signedBlob": signed}

    def metadata(self, asked: Asked) -> tuple[int, bytes]:
        """Return status and body of one question to the metadata server; only tokens are counted."""
        about = asked.path.removeprefix("/computeMetadata/v1/")
        account = "instance/service-accounts/default/"
        if about == f"{account}token":
            with self._guard:
                self.asked.append(asked)
            token = {"access_token": f"token-{len(self.asked)}", "expires_in": self.lives_s}
            return 200, json.dumps({**token, "token_type": "Bearer"}).encode()
        known = {
            "/": b"",
            account: json.dumps({"email": ATTACHED, "scopes": [], "aliases": ["default"]}).encode(),
            "project/project-id": b"demo",
            "universe/universe-domain": b"googleapis.com",
        }
        return (200, known[about]) if about in known else (404, b"")

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.path for asked in self.asked]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
