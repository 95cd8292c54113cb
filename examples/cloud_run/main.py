"""Serve the agents beside this file on Cloud Run: sessions in Firestore, artifacts in Cloud Storage.

``ADK_STORE_PROJECT``, ``ADK_STORE_DATABASE``, ``ADK_STORE_BUCKET`` and ``ADK_STORE_PREFIX`` say where, as the
outputs of the Terraform module do; Cloud Run sets ``PORT``. ``GET /health`` is ADK's and asks nothing of
storage: it is for startup and liveness probes. Whoever may call this service may read everything: leave it
to authenticated callers.
"""

import os
from pathlib import Path

import uvicorn
from google.adk.cli.fast_api import get_fast_api_app

import gcp_adk_store
from gcp_adk_store import adk_server

# Cloud Run kills 10 s after its SIGTERM: what runs has so long to end by itself, and the rest is for closing.
GRACE_S = 7

gcp_adk_store.register()
settings = gcp_adk_store.StoreSettings.from_env()
app = get_fast_api_app(
    agents_dir=str(Path(__file__).parent / "agents"),
    session_service_uri=settings.session_service_uri(),
    # Refuses to start without a bucket: ADK would keep artifacts in memory.
    artifact_service_uri=settings.artifact_service_uri(),
    lifespan=adk_server.lifespan,
    # ADK's pages show every user's sessions: only where Identity-Aware Proxy says who opens them.
    web=os.environ.get("ADK_WEB") == "TRUE",
)
adk_server.answer_errors(app)
adk_server.tune_gc()

if __name__ == "__main__":
    uvicorn.run(
        app,
        host="0.0.0.0",  # noqa: S104  # Cloud Run's proxy is the only way in
        port=int(os.environ.get("PORT", "8080")),
        timeout_graceful_shutdown=GRACE_S,
    )
