"""The command that finds the problems of a deployment and their remedies."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table
from rich.text import Text

from gcp_adk_store.cli.place import chosen_settings, place_options, told_with_remedy, where
from gcp_adk_store.cli.screen import show, waiting
from gcp_adk_store.cli.terminal import visible
from gcp_adk_store.doctor.findings import Finding, Status, described
from gcp_adk_store.doctor.measures import Probe, histogram
from gcp_adk_store.settings import StoreSettings

if TYPE_CHECKING:
    from gcp_adk_store.doctor.examination import Examination

_COLORS: Final = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red", Status.SKIPPED: "dim"}
_BAR: Final = 40


@click.command()
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def doctor(*, as_json: bool, **place: str | None) -> None:
    """Look at a deployment: credentials, APIs, database, indexes, bucket, IAM, clock and latency.

    Changes no setting. Writes one document and one object that no agent meets, reads them some times, and
    removes them. Ends with 1 if something fails, with 2 if it cannot look.
    """
    from gcp_adk_store.doctor.examination import examine  # noqa: PLC0415  # brings Google's clients

    with told_with_remedy():
        chosen = chosen_settings(place)
        with waiting("looking"):
            examination = asyncio.run(examine(chosen))
    if as_json:
        click.echo(json.dumps(_described(examination)))
    else:
        _show(examination, chosen)
    sys.exit(any(finding.status is Status.FAIL for finding in examination.findings))


def _described(examination: "Examination") -> dict[str, Any]:
    facts = examination.facts
    place = facts.place
    return {
        "project": place.project,
        "database": place.database,
        "bucket": place.bucket,
        "prefix": place.prefix,
        "findings": [described(finding) for finding in examination.findings],
        "latency_ms": {name: list(probe.samples_ms) for name, probe in _probes(examination)},
    }


def _probes(examination: "Examination") -> list[tuple[str, Probe]]:
    probed = (("documents", examination.facts.documents), ("objects", examination.facts.objects))
    return [(name, probe) for name, probe in probed if probe is not None]


def _show(examination: "Examination", chosen: StoreSettings) -> None:
    facts = examination.facts
    if not facts.refusal:  # otherwise the project may be unknown
        chosen = replace(chosen, project=facts.place.project)
    show(where(chosen))
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    applying = [finding for finding in examination.findings if not finding.aside]
    for finding in applying:
        table.add_row(
            Text(finding.status.value, style=_COLORS[finding.status]),
            finding.check,
            Text(visible(finding.says), overflow="fold"),
        )
    show(table)
    for aside, checks in _asides(examination.findings).items():
        show(f"does not apply {aside}: {', '.join(checks)}")
    for name, probe in _probes(examination):
        if probe.samples_ms:
            show("", _bars(f"reading {name}", probe.samples_ms))
    _show_fixes([finding for finding in applying if finding.commands or finding.terraform])
    counts = Counter(finding.status for finding in applying)
    show("", ", ".join(f"{counts[status]} {status.value}" for status in Status if counts[status]))


def _asides(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Return the checks that do not apply, by the reason."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        if finding.aside:
            found.setdefault(finding.aside, []).append(finding.check)
    return found


def _bars(title: str, samples_ms: Sequence[float]) -> Table:
    rows = histogram(samples_ms)
    most = max(count for _, count in rows)
    table = Table(title, "", "", box=None)
    for label, count in rows:
        bar = Text("█" * (max(1, round(count / most * _BAR)) if count else 0), style="blue")
        table.add_row(label, bar, f"{count}")
    return table


def _show_fixes(findings: Sequence[Finding]) -> None:
    """Print the remedy, with each command unchanged on a line of its own, to be copied."""
    for finding in findings:
        click.echo(f"\n{finding.check}:")
        for command in finding.commands:
            click.echo(visible(f"  {command}"))
        if finding.terraform:
            click.echo(visible(f"  Terraform: {finding.terraform}"))
