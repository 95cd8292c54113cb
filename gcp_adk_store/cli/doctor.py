"""The command that finds the problems of a deployment and their remedies."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import click
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from gcp_adk_store.cli.place import (
    chosen_settings,
    described,
    existing_folder,
    json_option,
    place_options,
    where,
    with_remedy,
)
from gcp_adk_store.cli.screen import Result, bar, finish, visible, waiting
from gcp_adk_store.doctor.findings import Finding, Probe, Status
from gcp_adk_store.doctor.folder import findings_of_folder
from gcp_adk_store.doctor.measures import histogram
from gcp_adk_store.doctor.report import findings_of
from gcp_adk_store.settings import StoreSettings

_COLORS: Final = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red", Status.SKIPPED: "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examined:
    """What was found at a store."""

    where: str
    """Its place in one line."""
    place: Mapping[str, Any]
    """Its place as JSON values."""
    findings: Sequence[Finding]
    probes: Mapping[str, Probe | None]


@click.command()
@place_options
@click.option("--anchors", metavar="BUCKET", help="Also check the bucket of anchors.")
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
        found = _deployment(chosen, anchors) if chosen.local is None else _folder(chosen, chosen.local)
    described = [asdict(finding) | {"status": finding.status.value} for finding in found.findings]
    for each in described:
        del each["aside"]
    samples_ms = {name: list(probe.samples_ms) for name, probe in found.probes.items() if probe is not None}
    finish(
        Result(
            {**found.place, "findings": described, "latency_ms": samples_ms},
            _lines(found, samples_ms),
            status=int(any(finding.status is Status.FAIL for finding in found.findings)),
        ),
        as_json=as_json,
    )


def _deployment(chosen: StoreSettings, anchors: str | None) -> _Examined:
    from gcp_adk_store.doctor.examination import examine  # noqa: PLC0415  # brings Google's clients

    StoreSettings(bucket=anchors)  # refuses a malformed name
    with waiting("checking"):
        facts = asyncio.run(examine(chosen, anchors=anchors))
    if not facts.refusal:  # otherwise the project may be unknown
        chosen = replace(chosen, project=facts.place.project)
    return _Examined(
        where=where(chosen),
        place={**described(chosen), **asdict(facts.place)},
        findings=findings_of(facts),
        probes={"documents": facts.documents, "objects": facts.objects},
    )


def _folder(chosen: StoreSettings, path: str) -> _Examined:
    from gcp_adk_store.doctor.folder_examination import examine_folder  # noqa: PLC0415  # brings half of ADK

    existing_folder(path)
    with waiting("checking"):
        facts = asyncio.run(examine_folder(path, prefix=chosen.prefix))
    return _Examined(
        where=where(chosen),
        place=described(chosen),
        findings=findings_of_folder(facts),
        probes={"documents": facts.documents, "objects": facts.objects},
    )


def _lines(found: _Examined, samples_ms: dict[str, list[float]]) -> list[RenderableType]:
    table = Table(Column(no_wrap=True), Column(no_wrap=True), Column(), box=None, show_header=False)
    asides: dict[str, list[str]] = {}
    counts: Counter[Status] = Counter()
    fixes: list[str] = []
    for finding in found.findings:
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
        found.where,
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
