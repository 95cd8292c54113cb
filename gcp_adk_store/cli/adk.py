"""The command that hands over to ADK's."""

import click

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.registry import register


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="ARGUMENTS...")
@click.pass_context
def adk(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Run ADK's command ``adk``, which then knows firestore:// and this store's gs://.

    For instance: gcp-adk-store adk web --session_service_uri 'firestore://PROJECT/(default)' agents
    """
    # Here: it brings half of ADK.
    from google.adk.cli import main  # noqa: PLC0415

    register()
    try:
        main.main(args=list(arguments), prog_name=ctx.command_path)
    except InvalidInputError as exc:
        if exc.operation:
            raise  # of a turn of `adk run`, not of an argument
        raise click.UsageError(str(exc)) from exc
