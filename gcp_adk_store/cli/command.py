"""Put the groups of the command together."""

import click

import gcp_adk_store
from gcp_adk_store.cli.adk import adk
from gcp_adk_store.cli.ces import ces
from gcp_adk_store.cli.cost import cost
from gcp_adk_store.cli.doctor import doctor
from gcp_adk_store.cli.gc import gc
from gcp_adk_store.cli.template import template


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gcp_adk_store.__version__)
def command() -> None:
    """Look after what gcp_adk_store keeps."""


command.add_command(adk)
command.add_command(ces)
command.add_command(cost)
command.add_command(doctor)
command.add_command(gc)
command.add_command(template)
