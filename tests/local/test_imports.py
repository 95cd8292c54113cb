"""A store in a folder imports none of Google's clients for the cloud."""

import subprocess
import sys

PROGRAM = """
import sys
from gcp_adk_store import Store
store = Store.local(":memory:")
assert store.sessions and store.artifacts
slow = ("google.cloud.firestore", "google.cloud.storage", "google.auth.compute_engine", "gcp_adk_store.cloud")
print([name for name in sys.modules if name.startswith(slow)])
"""


def test_a_store_in_a_folder_imports_no_client_of_the_cloud() -> None:
    """They take longer to import than the rest of the package."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=True
    )

    assert "[]\n" == done.stdout
