"""The command that verifies the history of a session."""

from dataclasses import asdict

import click

from gcp_adk_store.cli.options import given_id, json_option, user_options
from gcp_adk_store.cli.place import OpenStore, at_store, command_line
from gcp_adk_store.cli.screen import Result
from gcp_adk_store.cli.terminal import in_one_line
from gcp_adk_store.sessions.verify.decide import RedactedEvent


@click.command()
@at_store()
@user_options
@given_id("--session", required=True, says="Id of the session.")
@click.option(
    "--events", "known_events", metavar="N", type=click.IntRange(0), help="Events of an earlier proof."
)
@click.option("--head", "known_head", metavar="HEX", help="Head of the same proof.")
@click.option(
    "--anchors", metavar="BUCKET", help="Compare with what anchor kept; of a local store, a folder."
)
@json_option
async def verify(
    at: OpenStore,
    /,
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    known_events: int | None,
    known_head: str | None,
    anchors: str | None,
) -> Result:
    """Verify by its hash chain that no event of a session was changed, dropped, swapped or cut off.

    Ends with 1 if the events are not those that were appended, the session does not exist, or --anchors has
    no anchor of it, with 2 if it cannot look or cannot read the session.
    """
    proof = await at.store.verify_session(
        app_name=app_name,
        user_id=user_id,
        session_id=session_id,
        known_events=known_events,
        known_head=known_head,
        anchors=anchors,
    )
    broken = proof.broken
    told = [f"events: {proof.events:,}", f"head: {proof.head}"]
    if broken is None:
        told.append("the chain proves all of them")
        again = command_line("verify", only=("app_name", "user_id", "session_id"))
        told.append(f"compare later: {again} --events {proof.events} --head {proof.head}")
    else:
        event = f", {in_one_line(broken.event_id)}," if broken.event_id else ""
        told += [
            f"{broken.change}: not proven from event {broken.position}{event} on: {in_one_line(broken.says)}",
            f"in {in_one_line(broken.path)}",
        ]
    told += [
        f"redacted: event {one.position}, {in_one_line(one.event_id)}, hash {one.sha256}; {_known_of(one)}"
        for one in proof.redacted
    ]
    if proof.anchors is not None:
        told.append(
            f"anchors: {proof.anchors:,}; they prove the first {proof.anchored or 0:,} events"
            if proof.anchors
            else "no anchor of this session: it is newer than the last run of anchor, or another session"
        )
    if proof.unbound:
        told.append(
            f"{proof.unbound:,} of the anchors are of release 0.1 and do not say whose they are; run anchor"
        )
    is_bad = broken is not None or proof.anchors == 0
    return Result({**at.place, **asdict(proof)}, [at.where, *told], status=int(is_bad))


def _known_of(redacted: RedactedEvent) -> str:
    """Return what proves a redaction."""
    if not redacted.is_audited:
        return "no event of the chain tells of it"
    told = "an event of the chain tells of it"
    if not redacted.is_bound:
        told += ", without the hash of the marker"
    if redacted.is_anchored is None:
        return told
    return told + (", and an anchor proves that" if redacted.is_anchored else "; no anchor proves that yet")
