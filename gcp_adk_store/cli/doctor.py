"""The command that finds the problems of a deployment and their remedies."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import click
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from gcp_adk_store.cli.place import (
    chosen_settings,
    described,
    json_option,
    place_options,
    store_folder,
    where,
    with_remedy,
)
from gcp_adk_store.cli.screen import Result, bar, finish, visible, waiting
from gcp_adk_store.doctor.findings import Finding, Status
from gcp_adk_store.doctor.folder import findings_of_folder
from gcp_adk_store.doctor.measures import histogram
from gcp_adk_store.doctor.report import findings_of
from gcp_adk_store.settings import StoreSettings

_COLORS: Final = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red", Status.SKIPPED: "dim"}


@click.command()
@place_options
@click.option(
    "--anchors", metavar="BUCKET", help="Also check that nobody can change or remove anchors in this bucket."
)
@json_option
def doctor(*, anchors: str | None, as_json: bool, **place: str | None) -> None:
    """Check a deployment: credentials, APIs, database, indexes, bucket, IAM, clock and latency.

    With --local it checks the folder of a local store: permissions, format, integrity, disk and latency.
    With --anchors it also checks that nobody can remove anchors of histories.

    Changes no setting. Writes one document and one object that no agent reads, reads each 20 times, and
    removes both. Ends with 1 if something fails, with 2 if it cannot check.
    """
    with with_remedy():
        chosen = chosen_settings(place)
        if anchors is not None and chosen.local is not None:
            raise click.UsageError("--anchors names a bucket: a folder has no retention policy")
        with waiting("checking"):
            if chosen.local is None:
                chosen, facts, findings = _deployment(chosen, anchors)
                place = {**described(chosen), **asdict(facts.place)}
            else:
                facts, findings = _folder(chosen, chosen.local)
                place = described(chosen)
    reported = [asdict(finding) | {"status": finding.status.value} for finding in findings]
    for each in reported:
        del each["aside"]
    probes = {"documents": facts.documents, "objects": facts.objects}
    samples_ms = {name: list(probe.samples_ms) for name, probe in probes.items() if probe is not None}
    data = {**place, "findings": reported, "latency_ms": samples_ms}
    status = int(any(finding.status is Status.FAIL for finding in findings))
    finish(Result(data, _lines(where(chosen), findings, samples_ms), status), as_json=as_json)


def _deployment(chosen: StoreSettings, anchors: str | None) -> tuple[StoreSettings, Any, Sequence[Finding]]:
    from gcp_adk_store.doctor.examination import examine  # noqa: PLC0415  # brings Google's clients

    StoreSettings(bucket=anchors)  # refuses a malformed name
    facts = asyncio.run(examine(chosen, anchors=anchors))
    if not facts.refusal:  # otherwise the project may be unknown
        chosen = replace(chosen, project=facts.place.project)
    return chosen, facts, findings_of(facts)


def _folder(chosen: StoreSettings, path: str) -> tuple[Any, Sequence[Finding]]:
    from gcp_adk_store.doctor.folder_examination import examine_folder  # noqa: PLC0415  # brings half of ADK

    store_folder(path)
    facts = asyncio.run(examine_folder(path, prefix=chosen.prefix))
    return facts, findings_of_folder(facts)


def _lines(at: str, findings: Sequence[Finding], samples_ms: dict[str, list[float]]) -> list[RenderableType]:
    table = Table(Column(no_wrap=True), Column(no_wrap=True), Column(), box=None, show_header=False)
    asides: dict[str, list[str]] = {}
    counts: Counter[Status] = Counter()
    fixes: list[str] = []
    for finding in findings:
        if finding.aside:
            asides.setdefault(finding.aside, []).append(finding.check)
            continue
        counts[finding.status] += 1
        status = Text(finding.status.value, style=_COLORS[finding.status])
        table.add_row(status, finding.check, Text(visible(finding.says), overflow="fold"))
        # Each command is unchanged, on a line of its own, to be copied.
        remedies = [*finding.commands, *([f"Terraform: {finding.terraform}"] if finding.terraform else [])]
        fixes += [f"\n{finding.check}:", *(f"  {visible(each)}" for each in remedies)] if remedies else []
    return [
        at,
        table,
        *(f"does not apply {aside}: {', '.join(checks)}" for aside, checks in asides.items()),
        *(each for name, samples in samples_ms.items() if samples for each in ("", _bars(name, samples))),
        *fixes,
        "",
        ", ".join(f"{counts[status]} {status.value}" for status in Status if counts[status]),
    ]


def _bars(name: str, samples_ms: Sequence[float]) -> Table:
    rows = histogram(samples_ms)
    most = max(count for _, count in rows)
    table = Table(f"reading {name}", "", "", box=None)
    for label, count in rows:
        table.add_row(label, bar(count, most, "blue"), f"{count}")
    return table
