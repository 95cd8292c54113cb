"""Give each test a registry of ADK's of its own, and an agents' folder."""

import os
import sys
from pathlib import Path

import pytest
from google.adk.cli import service_registry
from google.adk.cli.service_registry import ServiceRegistry, get_service_registry

from tools.setup.tools import CHROMIUM, find

ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "examples/cloud_run/agents"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium."""
    found = find(CHROMIUM, os.environ)
    if found is None:
        pytest.fail("Chromium is missing; `make ready` installs it", pytrace=False)
    return found


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> ServiceRegistry:
    """ADK's registry as a new process has it; the path of modules, which ADK changes too, is put back."""
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return get_service_registry()
