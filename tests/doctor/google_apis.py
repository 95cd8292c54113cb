"""Serve the REST APIs that say how a deployment is set up, in the documented shapes, on this machine.

Firestore Admin, the JSON API of Cloud Storage, Service Usage and Resource Manager; for one project, database
and bucket, as a healthy deployment answers until a test changes it.
"""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from gcp_adk_store.doctor.access import BUCKET_PERMISSIONS, DATABASE_PERMISSIONS
from gcp_adk_store.doctor.bucket import LIFECYCLE
from tests.support.queries import documented_ends, documented_exemptions

PROJECT, DATABASE, BUCKET = "demo", "store", "demo-bucket"
PATH = f"projects/{PROJECT}/databases/{DATABASE}"
GROUPS = f"{PATH}/collectionGroups"


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    params: dict[str, list[str]]
    body: Any
    headers: dict[str, str]


def error(code: int, status: str, *details: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return an error as Google's APIs answer with it."""
    body = {"code": code, "message": "words of the server", "status": status, "details": list(details)}
    return code, {"error": body}


def disabled(service: str) -> tuple[int, dict[str, Any]]:
    """Return what an API answers that is not enabled in the project."""
    return error(
        403,
        "PERMISSION_DENIED",
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "SERVICE_DISABLED",
            "domain": "googleapis.com",
            "metadata": {"service": service, "consumer": f"projects/{PROJECT}"},
        },
    )


FORBIDDEN = error(403, "PERMISSION_DENIED")
MISSING = error(404, "NOT_FOUND")


def composite(direction: str, *, of_app: bool = True, labelled: bool = False) -> dict[str, Any]:
    """Return a composite index as the Admin API lists it."""
    return {
        "name": f"{GROUPS}/adk_sessions/indexes/{direction.lower()}-1",
        "queryScope": "COLLECTION_GROUP" if of_app else "COLLECTION",
        "fields": [
            *([{"fieldPath": "app", "order": "ASCENDING"}] if of_app else []),
            *([{"fieldPath": "label_set", "arrayConfig": "CONTAINS"}] if labelled else []),
            {"fieldPath": "last_update_time", "order": direction},
            {"fieldPath": "__name__", "order": direction},
        ],
        "state": "READY",
        "density": "SPARSE_ALL",
    }


def single(name: str, *, scopes: tuple[str, ...] = ("ASCENDING", "DESCENDING")) -> list[dict[str, Any]]:
    """Return the single-field indexes of a field."""
    return [
        {
            "queryScope": "COLLECTION",
            "fields": [{"fieldPath": name, "order": order}],
            "state": "READY",
        }
        for order in scopes
    ]


def configured(collection: str, name: str) -> dict[str, Any]:
    """Return a field as it should be: without an index, and with a TTL policy where it has one."""
    field: dict[str, Any] = {
        "name": f"{GROUPS}/adk_{collection}/fields/{name}",
        # An empty list is left out of JSON, as is a false usesAncestorConfig.
        "indexConfig": {"ancestorField": f"{GROUPS}/__default__/fields/*"},
    }
    if documented_ends().get(collection) == name:
        field["ttlConfig"] = {"state": "ACTIVE"}
    return field


class GoogleApis:
    """Answers as ``answers`` says: path -> what to answer, a status and a body."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.date: str | None
        self.answers: dict[str, tuple[int, Any]] = {}
        self.heal()
        apis = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                url = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                request = Request(
                    self.command,
                    url.path,
                    parse_qs(url.query),
                    json.loads(self.rfile.read(length)) if length else None,
                    dict(self.headers.items()),
                )
                status, body = apis.answer(request)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def date_time_string(self, timestamp: float | None = None) -> str:
                real = super().date_time_string((timestamp or time.time()) + apis.ages_s)
                return real if apis.date is None else apis.date

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def heal(self) -> None:
        """Answer as a healthy deployment does."""
        self.asked.clear()
        self.ages_s, self.date = 0.0, None
        self.answers = {
            f"/v1/projects/{PROJECT}/services:batchGet": (
                200,
                {
                    "services": [
                        {"name": f"projects/123/services/{name}.googleapis.com", "state": "ENABLED"}
                        for name in ("firestore", "storage", "iamcredentials")
                    ]
                },
            ),
            f"/v1/{PATH}": (
                200,
                {
                    "name": PATH,
                    "uid": "3f0c1f3e-0000-4000-8000-000000000000",
                    "locationId": "europe-west4",
                    "type": "FIRESTORE_NATIVE",
                    "concurrencyMode": "PESSIMISTIC",
                    "appEngineIntegrationMode": "DISABLED",
                    "pointInTimeRecoveryEnablement": "POINT_IN_TIME_RECOVERY_ENABLED",
                    "deleteProtectionState": "DELETE_PROTECTION_ENABLED",
                    "databaseEdition": "STANDARD",
                    "versionRetentionPeriod": "604800s",
                    "etag": "x",
                },
            ),
            f"/v1/{GROUPS}/-/indexes": (
                200,
                {
                    "indexes": [
                        composite("ASCENDING"),
                        *(
                            composite(direction, of_app=of_app, labelled=True)
                            for of_app in (False, True)
                            for direction in ("ASCENDING", "DESCENDING")
                        ),
                        composite("DESCENDING"),
                    ]
                },
            ),
            f"/v1/{GROUPS}/-/fields": (
                200,
                {
                    "fields": [
                        {
                            "name": f"{GROUPS}/__default__/fields/*",
                            "indexConfig": {"indexes": single("*")},
                        },
                        *(
                            configured(collection, name)
                            for collection, names in documented_exemptions().items()
                            for name in names
                        ),
                    ]
                },
            ),
            f"/v1/projects/{PROJECT}:testIamPermissions": (200, {"permissions": [*DATABASE_PERMISSIONS]}),
            f"/storage/v1/b/{BUCKET}": (
                200,
                {
                    "kind": "storage#bucket",
                    "name": BUCKET,
                    "location": "EUROPE-WEST4",
                    "locationType": "region",
                    "storageClass": "STANDARD",
                    "iamConfiguration": {
                        "bucketPolicyOnly": {"enabled": True},
                        "uniformBucketLevelAccess": {"enabled": True},
                        "publicAccessPrevention": "enforced",
                    },
                    "softDeletePolicy": {
                        "retentionDurationSeconds": "604800",
                        "effectiveTime": "2026-01-01T00:00:00Z",
                    },
                    "lifecycle": json.loads(json.dumps(LIFECYCLE)),
                },
            ),
            f"/storage/v1/b/{BUCKET}/iam/testPermissions": (
                200,
                {"kind": "storage#testIamPermissionsResponse", "permissions": [*BUCKET_PERMISSIONS]},
            ),
        }

    def change(self, ending: str, by: Callable[[Any], object]) -> None:
        """Change the healthy answer of the one path that ends so."""
        by(self.answers[self.path_of(ending)][1])

    def refuse(self, ending: str, answer: tuple[int, Any]) -> None:
        """Answer something else on the one path that ends so."""
        self.answers[self.path_of(ending)] = answer

    def path_of(self, ending: str) -> str:
        """Return the one path that ends so."""
        (path,) = (path for path in self.answers if path.endswith(ending))
        return path

    def answer(self, request: Request) -> tuple[int, Any]:
        """Return status and body; lists come in two pages, and refuse another size."""
        self.asked.append(request)
        status, body = self.answers.get(request.path, MISSING)
        kind = request.path.rpartition("/")[2]
        size = {"indexes": 3, "fields": 40}.get(kind)
        if status != 200 or size is None or not isinstance(body, dict):
            return status, body
        if "pageSize" in request.params:
            return error(400, "INVALID_ARGUMENT")
        first = int(request.params.get("pageToken", ["0"])[0])
        end = first + size
        page: dict[str, Any] = {kind: body.get(kind, [])[first:end]}
        if end < len(body.get(kind, [])):
            page["nextPageToken"] = str(end)
        return 200, page

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
