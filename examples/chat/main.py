"""A chat with history in the browser: ADK's server, the routes of the store, and one page of plain HTML.

``python -m examples.chat.main`` serves it at http://127.0.0.1:8000/chat/ on a store in the folder
``chat-store``, with an agent that needs no key; ``ADK_STORE_LOCAL`` names another folder, ``PORT`` another
port.
"""

import os
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.staticfiles import StaticFiles
from google.adk.cli.fast_api import get_fast_api_app

import gcp_adk_store
from gcp_adk_store import adk_server

APP, USER = "notes", "ada"


def authorize(request: Request, app_name: str, user_id: str) -> bool:  # noqa: ARG001  # of the hook
    """Let the one user of this example in: an application compares the user with its own login."""
    return (app_name, user_id) == (APP, USER)


def make_app(folder: Path) -> FastAPI:
    """Return the app on a store in *folder*."""
    gcp_adk_store.register()
    app = get_fast_api_app(
        agents_dir=str(Path(__file__).parents[1] / "cloud_run/agents"),
        session_service_uri=f"firestore+local://{folder.absolute()}",
        artifact_service_uri=f"gs+local://{folder.absolute()}",
        lifespan=adk_server.lifespan,
        web=False,
    )
    adk_server.answer_errors(app)
    adk_server.one_turn_at_a_time(app, on_busy="wait")
    adk_server.add_store_routes(app, authorize=authorize)
    app.mount("/chat", StaticFiles(directory=Path(__file__).parent / "page", html=True))
    return app


if __name__ == "__main__":
    place = Path(os.environ.get("ADK_STORE_LOCAL", "chat-store"))
    uvicorn.run(make_app(place), port=int(os.environ.get("PORT", "8000")))
