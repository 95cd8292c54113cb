"""Say what the tests of Terraform need and do not find, before any test runs."""

import sys

from tests.terraform.command import missing

if __name__ == "__main__":
    sys.exit(missing())
