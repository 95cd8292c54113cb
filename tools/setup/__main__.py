"""Refuse a Python that is too old, before an import that it cannot parse."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # the user's Python
    sys.exit(
        "{} is Python {}.{}; this project needs 3.11 or newer. Name one: make test PYTHON=python3.12".format(
            sys.executable, *sys.version_info[:2]
        )
    )

from tools.setup.command import main

sys.exit(main())
