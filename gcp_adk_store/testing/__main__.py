"""Run both emulators until Ctrl-C or SIGTERM, and print what leads Google's clients to them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gcp_adk_store.testing.downloads import EmulatorError
from gcp_adk_store.testing.installation import install, require_installed, serve

_LAST_PORT: Final = 65_535


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, check or install, as the arguments say; return the exit status."""
    options = _parse(arguments)
    try:
        if options.check:
            require_installed()
        elif options.install:
            install(url=options.jar_url)
        else:
            serve(
                firestore_port=options.firestore_port,
                storage_port=options.storage_port,
                logs=options.logs,
                bucket=options.bucket,
                as_json=options.as_json,
            )
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
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--check", action="store_true", help="start nothing; list what is missing, and fail if something is"
    )
    instead.add_argument(
        "--install", action="store_true", help="start nothing; install what is missing, which it says first"
    )
    instead.add_argument(
        "--json", dest="as_json", action="store_true", help="print the variables as one line of JSON"
    )
    parser.add_argument(
        "--jar-url", metavar="URL", help="with --install: a mirror of the Firestore emulator's jar"
    )
    return parser.parse_args(arguments)


def port(text: str) -> int:
    """Return the port that *text* names; argparse shows this function's name in its message."""
    number = int(text)
    if not 0 <= number <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port: 0 to {_LAST_PORT}")
    return number


if __name__ == "__main__":
    sys.exit(main())
