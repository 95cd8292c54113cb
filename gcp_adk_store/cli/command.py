"""The command and its groups."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

import gcp_adk_store
from gcp_adk_store.cli.screen import in_one_line

_PARTS: Final = {
    "adk": ("servers", "adk"),
    "anchor": ("integrity", "anchor"),
    "artifacts": ("artifacts", "artifacts"),
    "bulk": ("bulk", "bulk"),
    "ces": ("ces", "ces"),
    "copy": ("moving", "copy_"),
    "cost": ("cost", "cost"),
    "doctor": ("doctor", "doctor"),
    "emulators": ("emulators", "emulators"),
    "erase-user": ("retention", "erase_user"),
    "export": ("moving", "export"),
    "fsck": ("integrity", "fsck"),
    "gc": ("integrity", "gc"),
    "import": ("moving", "import_"),
    "inspect": ("servers", "inspect"),
    "memory": ("memory", "memory"),
    "prune": ("retention", "prune"),
    "rotate-keys": ("retention", "rotate_keys"),
    "sessions": ("sessions", "sessions"),
    "template": ("template", "template"),
    "verify": ("integrity", "verify"),
}
"""The module of each command, and its name there."""


class _Parts(click.Group):
    """Imports a subcommand when it runs: most load ADK and Google's clients, which takes a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_PARTS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _PARTS:
            return super().get_command(ctx, cmd_name)
        module, name = _PARTS[cmd_name]
        part: Any = importlib.import_module(f"gcp_adk_store.cli.{module}")
        found: click.Command = getattr(part, name)
        return found

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments."""
        with _usage_told_safely():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand, after its arguments are parsed."""
        with _usage_told_safely():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands by name alone: their help texts need an import at each Tab."""
        parts = [CompletionItem(name) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*parts, *click.Command.shell_complete(self, ctx, incomplete)]


@contextmanager
def _usage_told_safely() -> Iterator[None]:
    """Escape what could steer a terminal in click's own errors, which quote arguments as they are."""
    try:
        yield
    except click.UsageError as exc:
        exc.message = in_one_line(exc.message)  # type: ignore[misc]  # it is set in a constructor alone
        raise


@click.group("gcp-adk-store", cls=_Parts, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gcp_adk_store.__version__)
def command() -> None:
    """Manage the sessions and artifacts of a store."""
