"""The command and its groups."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

import gcp_adk_store
from gcp_adk_store.model.keys import in_one_line

_PARTS: Final = {
    "adk": ("cli.servers", "adk", "Run ADK's command with this store's URIs."),
    "anchor": ("cli.integrity", "anchor", "Keep heads of histories where nobody can change them."),
    "artifacts": ("cli.artifacts", "artifacts", "List, get and delete artifacts."),
    "bulk": ("cli.bulk", "bulk", "Read, export, erase, prune and verify on Apache Beam."),
    "ces": ("cli.ces", "ces", "Check, run and test agents of CX Agent Studio."),
    "copy": ("cli.moving", "copy_", "Copy the sessions of an app to another store."),
    "cost": ("cli.cost", "cost", "Estimate sizes and the cost of a month."),
    "doctor": ("cli.doctor", "doctor", "Check a deployment, and name what is missing."),
    "emulators": ("testing.__main__", "emulators", "Run the emulators of Google Cloud until Ctrl-C."),
    "erase-user": ("cli.retention", "erase_user", "Erase a user, and print the receipt."),
    "export": ("cli.moving", "export", "Write the sessions of an app as JSON or Parquet."),
    "fsck": ("cli.integrity", "fsck", "Check stored data, and repair it."),
    "gc": ("cli.integrity", "gc", "Remove large content that nothing refers to."),
    "import": ("cli.moving", "import_", "Make the sessions that an export wrote."),
    "inspect": ("cli.servers", "inspect", "Open a page that shows what a store has."),
    "memory": ("cli.memory", "memory", "List, search and delete memories."),
    "prune": ("cli.retention", "prune", "Delete sessions that were kept long enough."),
    "rotate-keys": ("cli.retention", "rotate_keys", "Wrap data keys with the newest encryption key."),
    "sessions": ("cli.sessions", "sessions", "List, show, export, redact, archive and delete sessions."),
    "template": ("cli.template", "template", "Check instruction templates."),
    "verify": ("cli.integrity", "verify", "Verify that no event was changed or dropped."),
}
"""Of each command the module in the package, its name there, and what the list of commands says of it."""

_NO_ARGUMENTS: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""From click 8.2 on, the error whose message is the help of a command: many lines, and no argument."""


class _Parts(click.Group):
    """Imports a subcommand when it runs: most load ADK and Google's clients, which takes a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_PARTS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _PARTS:
            return super().get_command(ctx, cmd_name)
        module, name, _ = _PARTS[cmd_name]
        part: Any = importlib.import_module(f"gcp_adk_store.{module}")
        found: click.Command = getattr(part, name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without their import."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, _, said) in _PARTS.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments."""
        with _with_escaped_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand, after its arguments are parsed."""
        with _with_escaped_usage_errors():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands by name alone: their help texts need an import at each Tab."""
        parts = [CompletionItem(name) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*parts, *click.Command.shell_complete(self, ctx, incomplete)]


@contextmanager
def _with_escaped_usage_errors() -> Iterator[None]:
    """Escape what could steer a terminal in click's own errors, which quote arguments as they are."""
    try:
        yield
    except click.UsageError as exc:
        if isinstance(exc, _NO_ARGUMENTS):
            raise
        exc.message = in_one_line(exc.message)  # type: ignore[misc]  # it is set in a constructor alone
        raise


@click.group("gcp-adk-store", cls=_Parts, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gcp_adk_store.__version__)
def command() -> None:
    """Manage the sessions, artifacts and memories of a store."""
