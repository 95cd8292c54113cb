"""Run the storage emulator until a signal stops it."""

import argparse
import os
import signal
import sys
import threading

from gcp_adk_store.testing.storage_emulator.exchange import ApiError
from gcp_adk_store.testing.storage_emulator.server import running_emulator


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT and return the exit status."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description="Serve Cloud Storage's JSON API from memory."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one")
    parser.add_argument(
        "--bucket", action="append", default=[], metavar="NAME", help="create it; may be repeated"
    )
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with running_emulator(host=options.host, port=options.port, buckets=options.bucket) as server:
            sys.stdout.write(f"storage emulator: listening on {server.url}\n")
            sys.stdout.flush()
            stop.wait()
    except OSError as exc:
        # Not strerror alone: socketserver's own message for a bad host has none.
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        where = f"{options.host}:{options.port}"
        sys.stderr.write(f"storage emulator: cannot listen on {where}: {reason}\n")
        return 1
    except (ApiError, OverflowError) as exc:
        sys.stderr.write(f"storage emulator: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
