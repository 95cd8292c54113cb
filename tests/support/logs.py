"""What the library logged in a test."""

import logging

import pytest


def of_ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of the library: garbage of other tests can make asyncio log at any time."""
    return [record for record in caplog.records if record.name.startswith("gcp_adk_store")]
