"""Run the command as ``python -m gcp_adk_store.cli``."""

from gcp_adk_store.cli import main

if __name__ == "__main__":
    main()
