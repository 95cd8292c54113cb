"""Run a bulk job that a Flex Template of Dataflow launches: its parameters become options of the command.

The launcher runs this module with ``--job=export --app=support --out=gs://...`` and the options of Beam.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from gcp_adk_store.errors import InvalidInputError

_STORE: Final = ("project", "database", "bucket", "prefix")
"""Options of the store; Beam has some of these names, so parameters begin with ``store_``."""

_POSITIONS: Final = {
    "read": ("out",),
    "export": ("out",),
    "erase": ("users", "receipts"),
    "prune": (),
    "verify": ("broken",),
}
"""Parameters that are arguments of a job's command, in order."""

_OPTIONS: Final = (
    *("app", "partitions", "processes", "quiet"),
    *("idle_days", "keep_latest", "older_than", "user_data_idle_days", "keep_events"),
)
_LABELS: Final = "labels"
_DRY_RUN: Final = "dry_run"

PARAMETERS: Final = (
    "job",
    *(f"store_{name}" for name in _STORE),
    *_OPTIONS,
    _LABELS,
    _DRY_RUN,
    *dict.fromkeys(name for names in _POSITIONS.values() for name in names),
)
"""The parameters of the template."""


def command_of(flags: Iterable[str]) -> list[str]:
    """Return the words after ``gcp-adk-store`` for what the launcher gives; Beam gets unknown flags.

    Raises:
        InvalidInputError: the job is unknown, or one of its parameters is missing.
    """
    given: dict[str, str] = {}
    of_beam: list[str] = []
    for flag in flags:
        name, equals, value = flag.removeprefix("--").partition("=")
        if equals and flag.startswith("--") and name in PARAMETERS:
            if value:
                given[name] = value
        else:
            of_beam.append(flag)
    job = given.get("job", "")
    if job not in _POSITIONS:
        raise InvalidInputError(f"job is {job[:40]!r}, it must be one of {', '.join(_POSITIONS)}")
    if missing := [name for name in _POSITIONS[job] if name not in given]:
        raise InvalidInputError(f"the job {job} needs the parameter {' and '.join(missing)}")
    words = ["bulk", job]
    for name in _STORE:
        words += _option(name, given.get(f"store_{name}"))
    for name in _OPTIONS:
        words += _option(name, given.get(name))
    for label in given.get(_LABELS, "").split(","):
        words += _option("label", label)
    is_dry_run = given.get(_DRY_RUN) == "true"
    if is_dry_run or job == "erase":
        words.append("--dry-run" if is_dry_run else "--yes")
    return [*words, "--", *(given[name] for name in _POSITIONS[job]), *of_beam]


def _option(name: str, value: str | None) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}"] if value else []


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    from gcp_adk_store.cli.command import command  # noqa: PLC0415  # of an extra

    command.main(command_of(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
