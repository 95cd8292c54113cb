"""Say in the metadata of the package where its repository is, if ``ADK_STORE_REPOSITORY`` does."""

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class RepositoryUrls(MetadataHookInterface):
    """Completes the paths that pyproject.toml has for this hook: a copy of the repository names itself."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the URLs to the table ``[project]``."""
        repository = os.environ.get("ADK_STORE_REPOSITORY", "").rstrip("/")
        if repository:
            paths: dict[str, str] = self.config["urls"]
            metadata["urls"] = {label: f"{repository}{path}" for label, path in paths.items()}
