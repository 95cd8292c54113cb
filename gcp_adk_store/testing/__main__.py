"""Run the emulators: ``gcp-adk-store emulators``, or ``python -m gcp_adk_store.testing``."""

from pathlib import Path
from typing import Any, Final

import click

from gcp_adk_store.testing.downloads import EmulatorError
from gcp_adk_store.testing.installation import install as install_missing
from gcp_adk_store.testing.installation import require_installed, serve

_PORT: Final[dict[str, Any]] = {"type": click.IntRange(0, 65_535), "default": 0, "metavar": "N"}


def _bucket(_ctx: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    from gcp_adk_store.settings import FORMS  # noqa: PLC0415  # needs ADK, which --check does not

    if not FORMS["bucket"].shape.fullmatch(name):
        raise click.BadParameter(f"{name!r} must be {FORMS['bucket'].says}")
    return name


@click.command()
@click.option("--firestore-port", **_PORT, help="On 127.0.0.1; by default a free one.")
@click.option("--storage-port", **_PORT, help="On 127.0.0.1; by default a free one.")
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the logs; by default a temporary one.",
)
@click.option(
    "--bucket",
    metavar="NAME",
    callback=_bucket,
    help="Make this bucket, and print what Store.from_env() reads.",
)
@click.option("--check", is_flag=True, help="Start nothing; list what is missing.")
@click.option("--install", is_flag=True, help="Start nothing; install what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the variables as one line of JSON.")
@click.option("--jar-url", metavar="URL", help="With --install: a mirror of the Firestore emulator's jar.")
def emulators(*, check: bool, install: bool, as_json: bool, jar_url: str | None, **served: Any) -> None:
    """Run the Firestore and Cloud Storage emulators until Ctrl-C, and print the variables that lead to them.

    --install downloads what they need, and says before what that is, from where, how large and to which
    folder. Ends with 1 if something is missing or does not start.
    """
    if check + install + as_json > 1:
        raise click.UsageError("--check, --install and --json exclude each other")
    if jar_url is not None and not install:
        raise click.UsageError("--jar-url goes with --install alone")
    if (check or install) and any(served.values()):
        raise click.UsageError("--bucket, --logs and the ports go with neither --check nor --install")
    try:
        if check:
            require_installed()
        elif install:
            install_missing(url=jar_url)
        else:
            serve(**served, as_json=as_json)
    except (EmulatorError, OSError) as exc:
        # What pip says could steer a terminal.
        says = (each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in str(exc))
        raise click.ClickException("".join(says)) from exc


if __name__ == "__main__":
    emulators(prog_name=f"python -m {__package__}")
