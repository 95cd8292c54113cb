"""Say why an emulator cannot be started, and how to install what it needs."""

from typing import Final

FROM_A_CLONE: Final = "pip install '.[testing]'    # in a clone of the project"
"""How the extra ``testing`` is installed."""

TO_INSTALL: Final = """\
This command installs what is missing:    python -m gcp_adk_store.testing --install
It downloads the emulator, and Java if it is missing. Or install them yourself, one of:
  - the Cloud SDK's component:   gcloud components install cloud-firestore-emulator
                                 (Debian package: google-cloud-cli-firestore-emulator)
  - firebase-tools' copy:        npx firebase-tools setup:emulators:firestore
  - containers:                  docker compose -f emulators/compose.yaml up --detach
and for the first two Java 17 or newer (Debian package: openjdk-17-jre-headless).
Or set FIRESTORE_EMULATOR_HOST to an emulator that runs already, or
ADK_STORE_FIRESTORE_EMULATOR_JAR to the path of its jar."""

STORAGE_TO_INSTALL: Final = f"""\
This command installs it:        python -m gcp_adk_store.testing --install
It comes with the extra, too:    {FROM_A_CLONE}
Or set STORAGE_EMULATOR_HOST to an emulator that runs already."""


class EmulatorError(RuntimeError):
    """An emulator cannot be started or installed; the message says what to install or change."""
