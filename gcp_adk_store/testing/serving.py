"""Run both emulators by hand, and print the variables for Google's clients."""

import json
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gcp_adk_store.testing.emulators import Emulator, create_bucket, firestore_emulator, storage_emulator
from gcp_adk_store.testing.installation import require_installed

PROJECT: Final = "demo-adk-store"
"""The project for manual use; emulators accept any."""

_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)


def serve(
    *,
    firestore_port: int = 0,
    storage_port: int = 0,
    logs: Path | None = None,
    bucket: str | None = None,
    as_json: bool = False,
) -> None:
    """Start the emulators that do not run yet, print their variables, wait for Ctrl-C or SIGTERM, stop them.

    Args:
        firestore_port: On 127.0.0.1; 0 takes a free one.
        storage_port: The same for the storage emulator.
        logs: Folder for the logs; by default a temporary one.
        bucket: Bucket to make; with it, what ``Store.from_env()`` reads is printed.
        as_json: Print one line, an object of all variables, instead of lines for a shell.

    Raises:
        EmulatorError: something is missing, or an emulator does not come up.
        OSError: the logs cannot be written.
    """
    for number in _ENDINGS:
        signal.signal(number, signal.default_int_handler)
    try:
        require_installed()
        with (
            firestore_emulator(port=firestore_port, logs=logs, lasting=True) as firestore,
            storage_emulator(port=storage_port, logs=logs) as storage,
        ):
            if bucket:
                create_bucket(bucket, storage.address)
            variables = _variables([firestore, storage], bucket)
            announcement = (
                json.dumps(variables) + "\n" if as_json else _lines(variables, [firestore, storage])
            )
            sys.stdout.write(announcement)
            sys.stdout.flush()
            # From here on a signal ends the wait and interrupts nothing else, above all not the stop.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
            signal.sigwait(_ENDINGS)
    except KeyboardInterrupt:
        return


def _variables(emulators: Sequence[Emulator], bucket: str | None) -> dict[str, str]:
    """Return what leads Google's clients, ADK and, with a bucket, ``Store.from_env()`` to the emulators."""
    # ADK's storage of evaluations reads the project from here.
    found = {**{each.variable: each.address for each in emulators}, "GOOGLE_CLOUD_PROJECT": PROJECT}
    if bucket:
        # Those with a default too: commands put all of them together.
        found |= {
            "ADK_STORE_PROJECT": PROJECT,
            "ADK_STORE_DATABASE": "(default)",
            "ADK_STORE_BUCKET": bucket,
            "ADK_STORE_PREFIX": "adk",
        }
    return found


def _lines(variables: Mapping[str, str], emulators: Sequence[Emulator]) -> str:
    """Return lines for a shell: what else there is to say is a comment to it."""
    return "".join(
        [
            *(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()),
            "# Paste these lines into the shell that needs them; Ctrl-C here ends what was started here.\n",
            *(f"# log: {each.log}\n" for each in emulators if each.log is not None),
        ]
    )
