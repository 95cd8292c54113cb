"""Run ``gcp-adk-store`` with its arguments, and print at the end how many bytes Python held at most."""

import sys
import tracemalloc

from gcp_adk_store.cli.command import command

if __name__ == "__main__":
    tracemalloc.start()
    command(standalone_mode=False)
    sys.stderr.write(f"{tracemalloc.get_traced_memory()[1]}\n")
