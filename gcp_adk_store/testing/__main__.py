"""Run both emulators until Ctrl-C or SIGTERM, and print what leads Google's clients to them."""

import argparse
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gcp_adk_store.testing.buckets import create_bucket
from gcp_adk_store.testing.emulators import (
    Emulator,
    EmulatorError,
    firestore_emulator,
    require_installed,
    storage_emulator,
)

_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)
_LAST_PORT: Final = 65_535


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the emulators that do not run yet, wait, stop them again; return the exit status."""
    options = _parse(arguments)
    for number in _ENDINGS:
        signal.signal(number, signal.default_int_handler)
    try:
        if options.check:
            require_installed()
            return 0
        with (
            firestore_emulator(port=options.firestore_port, logs=options.logs, lasting=True) as firestore,
            storage_emulator(port=options.storage_port, logs=options.logs) as storage,
        ):
            place = {}
            if options.bucket:
                create_bucket(options.bucket, storage.address)
                # Those with a default too: commands put all of them together.
                place = {
                    "ADK_STORE_PROJECT": "demo-adk-store",
                    "ADK_STORE_DATABASE": "(default)",
                    "ADK_STORE_BUCKET": options.bucket,
                    "ADK_STORE_PREFIX": "adk",
                }
            sys.stdout.write(_announcement([firestore, storage], place))
            sys.stdout.flush()
            # From here on a signal is waited for and interrupts nothing, least of all the stopping.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
            signal.sigwait(_ENDINGS)
    except KeyboardInterrupt:
        return 0
    except (EmulatorError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    for name in ("firestore", "storage"):
        parser.add_argument(
            f"--{name}-port", type=port, default=0, metavar="N", help="on 127.0.0.1; by default a free one"
        )
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="folder for the logs; by default a temporary one"
    )
    parser.add_argument(
        "--bucket", metavar="NAME", help="make this bucket, and print what Store.from_env() reads for it"
    )
    parser.add_argument(
        "--check", action="store_true", help="start nothing; fail if an emulator could not be started"
    )
    return parser.parse_args(arguments)


def port(text: str) -> int:
    """Return the port that *text* names; argparse shows this function's name in its message."""
    number = int(text)
    if not 0 <= number <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to {_LAST_PORT}")
    return number


def _announcement(emulators: Sequence[Emulator], place: Mapping[str, str]) -> str:
    """Return lines for a shell: what else there is to say is a comment to it."""
    return "".join(
        [
            *(f"export {each.variable}={shlex.quote(each.address)}\n" for each in emulators),
            *(f"export {name}={shlex.quote(value)}\n" for name, value in place.items()),
            "# Paste these lines into the shell that needs them; Ctrl-C here ends what was started here.\n",
            *(f"# log: {each.log}\n" for each in emulators if each.log is not None),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
