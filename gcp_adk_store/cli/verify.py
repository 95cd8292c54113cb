"""The command that verifies the history of a session."""

from dataclasses import asdict

import click

from gcp_adk_store.cli.options import given_id, json_option, user_options
from gcp_adk_store.cli.place import OpenStore, at_store, command_line
from gcp_adk_store.cli.screen import Result
from gcp_adk_store.cli.terminal import in_one_line


@click.command()
@at_store()
@user_options
@given_id("--session", required=True, says="Id of the session.")
@click.option(
    "--events", "known_events", metavar="N", type=click.IntRange(0), help="Events of an earlier proof."
)
@click.option("--head", "known_head", metavar="HEX", help="Head of the same proof.")
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
) -> Result:
    """Verify by its hash chain that no event of a session was changed, dropped, swapped or cut off.

    Ends with 1 if the events are not those that were appended, or the session does not exist, with 2 if it
    cannot look.
    """
    proof = await at.store.sessions.verify_session(
        app_name=app_name,
        user_id=user_id,
        session_id=session_id,
        known_events=known_events,
        known_head=known_head,
    )
    broken = proof.broken
    told = [f"events: {proof.events:,}", f"head: {proof.head or 'no chain'}"]
    if proof.unchained:
        told.append(f"the chain does not cover the first {proof.unchained:,} events")
    if broken is None:
        told.append("the chain proves the rest" if proof.unchained else "the chain proves all of them")
        again = command_line("verify", only=("app_name", "user_id", "session_id"))
        if proof.head:
            told.append(f"compare later: {again} --events {proof.events} --head {proof.head}")
    else:
        event = f", {in_one_line(broken.event_id)}," if broken.event_id else ""
        told += [
            f"not proven from event {broken.position}{event} on: {in_one_line(broken.says)}",
            f"in {in_one_line(broken.path)}",
        ]
    return Result({**at.place, **asdict(proof)}, [at.where, *told], status=int(broken is not None))
