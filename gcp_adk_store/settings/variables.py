"""List the environment variables of this library, and warn of those that only look like one."""

import logging
from collections.abc import Mapping
from typing import Final

from gcp_adk_store.settings.names import suggestion

logger = logging.getLogger(__name__)

PREFIX: Final = "ADK_STORE_"
"""Begins the name of every variable of this library."""

VARIABLES: Final = frozenset(
    {
        "ADK_STORE_ACCEPT_PLAINTEXT",
        "ADK_STORE_BUCKET",
        "ADK_STORE_CACHE",
        "ADK_STORE_CES_ENVIRONMENT",
        "ADK_STORE_CREDENTIALS_FILE",
        "ADK_STORE_DATABASE",
        "ADK_STORE_ENCRYPTION_KEY",
        "ADK_STORE_ENCRYPT_ARTIFACTS",
        "ADK_STORE_FIRESTORE_EMULATOR_JAR",
        "ADK_STORE_IMPERSONATE",
        "ADK_STORE_KEYS_DATABASE",
        "ADK_STORE_LOCAL",
        "ADK_STORE_PREFIX",
        "ADK_STORE_PROJECT",
        "ADK_STORE_QUOTA_PROJECT",
        "ADK_STORE_TELEMETRY_IDS",
    }
)
"""Variables that the library and its command read."""

OF_THE_PROJECT: Final = frozenset({"ADK_STORE_REPOSITORY", "ADK_STORE_VENV"})
"""Variables that only a clone of the project reads, to set itself up and to build."""

_warned: Final[set[str]] = set()


def warn_of_unknown(env: Mapping[str, str]) -> None:
    """Log each variable of *env* that has the library's prefix and that nothing reads, once in a process."""
    for name in sorted(env.keys() - VARIABLES - OF_THE_PROJECT - _warned):
        if name.startswith(PREFIX):
            _warned.add(name)
            logger.warning(
                "nothing reads the environment variable %.80r; %s", name, suggestion(name, VARIABLES)
            )
