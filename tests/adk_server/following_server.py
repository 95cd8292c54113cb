"""Serve ADK's app, whose clients may follow sessions of the folder ``PLACE``."""

import os

import uvicorn
from google.adk.cli.fast_api import get_fast_api_app

from gcp_adk_store.adk_server import follow_sessions, lifespan, register
from tests.adk_server.conftest import AGENTS

if __name__ == "__main__":
    register()
    app = get_fast_api_app(
        agents_dir=str(AGENTS),
        session_service_uri=f"firestore+local://{os.environ['PLACE']}",
        artifact_service_uri="memory://",
        web=False,
        lifespan=lifespan,
    )
    follow_sessions(app, authorize=None)
    uvicorn.run(app, port=0)
