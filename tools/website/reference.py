"""Make the pages of docs/reference that repeat the code: ``python -m tools.website.reference`` writes them.

A test compares the files with what this makes, and names this command.
"""

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gcp_adk_store import SessionService, Store, settings
from gcp_adk_store.settings import options

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs/reference"

PACKAGES: Final = {
    "gcp_adk_store.adk_server": ("servers", "ADK's servers", "../../adk-server.md"),
    "gcp_adk_store.turns": ("turns", "Turns", "../../turns.md"),
    "gcp_adk_store.tasks": ("tasks", "A2A tasks", "../../tasks.md"),
    "gcp_adk_store.moving": ("moving", "Copies, exports and imports", "../../moving.md"),
    "gcp_adk_store.inspector": ("inspector", "The inspector", "../../inspector.md"),
    "gcp_adk_store.testing.faults": ("faults", "Injected faults", "../../testing.md"),
    "gcp_adk_store.testing.conformance": ("conformance", "Conformance suites", "../../tasks.md"),
    "gcp_adk_store.testing.simulation": ("simulation", "The simulation", "../../how-to/simulate.md"),
    "gcp_adk_store.testing.storage_emulator": ("emulator", "The storage emulator", "../../testing.md"),
    "gcp_adk_store.ces": ("ces", "Customer-engagement agents", "../../ces-runtime.md"),
    "gcp_adk_store.ces.sandbox": ("sandbox", "The sandbox", "../../ces-sandbox.md"),
}
"""The public packages below the root: the names of their pages, the titles, and the documents about them."""

TOPICS: Final = {
    "store": ("The store", "../../local.md"),
    "settings": ("Settings, keys and leftovers", "../options.md"),
    "sessions": ("Sessions", "../../points.md"),
    "artifacts": ("Artifacts", "../../how-to/signed-urls.md"),
    "memory": ("Memory", "../../memory.md"),
    "erasure": ("Erasure, retention, proof", "../../erasure.md"),
    "templates": ("Templates", "../../templates.md"),
    "errors": ("Classes of errors", "../errors.md"),
}
"""The pages of the root package's names: their titles, and the documents about them."""

LONG: Final = {
    "AgentApp": "agent-app",
    "ArtifactService": "artifact-service",
    "Conversation": "conversation",
    "MemoryService": "memory-service",
    "PythonRuntime": "python-runtime",
    "SessionService": "session-service",
}
"""The classes that are so long that each has a page of its own: the names of these pages."""

_PACKAGES: Final = {
    "errors": "errors",
    "sessions": "sessions",
    "sessions.verify": "erasure",
    "model": "sessions",
    "model.erasures": "erasure",
    "model.payloads": "settings",
    "store": "store",
    "erasure": "erasure",
    "artifacts": "artifacts",
    "memory": "memory",
    "templates": "templates",
}
"""The page of a name by the module or the package that defines it; all others are settings."""

_ABOUT_LIMITS: Final = """\
These classes hold what you can change. Pass them to `Store.connect` or `Store.local` as `session_limits`,
`artifact_limits` and `memory_limits`, or give single numbers as parameters of a [URI](uris.md).
[Proofs](../proofs.md#limits) lists the limits of Firestore and of the stored format, and what happens
beyond them."""
_ABOUT_OPTIONS: Final = """\
These are the arguments of each way to make a store, and of the session service alone. A way refuses what it
does not take, before it opens or writes anything:
`InvalidInputError: Store.local: unknown option 'redactor'; did you mean 'redactors'?`"""
_LIMITS: Final = ("SessionLimits", "ArtifactLimits", "MemoryLimits")


def pages() -> dict[str, str]:
    """Return the generated pages, by their paths from docs/reference."""
    made = {"limits.md": _limits(), "options.md": _options(), "api/index.md": _index()}
    for page, title, about, package, names in _sections():
        made[f"api/{page}.md"] = _page(title, about, package, names)
        for name in names:
            if name in LONG:
                made[f"api/{LONG[name]}.md"] = _page(f"`{name}`", about, package, [name])
    return made


def _sections() -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yield the pages of several names: page, title, the document about them, package, names."""
    topics: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    root = importlib.import_module("gcp_adk_store")
    for name in sorted(root.__all__, key=str.lower):
        topics[_topic(getattr(root, name))].append(name)
    for topic, (title, about) in TOPICS.items():
        yield topic, title, about, "gcp_adk_store", topics[topic]
    for package, (page, title, about) in PACKAGES.items():
        names = sorted(importlib.import_module(package).__all__, key=str.lower)
        yield page, title, about, package, names


def _topic(public: Any) -> str:
    _, *path = str(getattr(public, "__module__", "")).split(".")
    modules = (".".join(path[:2]), *path[:1])
    return next((_PACKAGES[each] for each in modules if each in _PACKAGES), "settings")


def _page(title: str, about: str, package: str, names: list[str]) -> str:
    module = importlib.import_module(package)
    lines = [
        f"# {title}",
        "",
        f"Import these names from `{package}`. [This page]({about}) says how to use them.",
        "",
    ]
    lines += ["| name | what it is |", "|---|---|"]
    elsewhere = {name: f"{LONG[name]}.md" for name in names if len(names) > 1 and name in LONG}
    for name in names:
        place = elsewhere.get(name, f"#{name.lower()}")
        lines.append(f"| [`{name}`]({place}) | {_summary(getattr(module, name))} |")
    for name in names:
        if name not in elsewhere:
            lines += ["", f"## {name}", "", f"::: {package}.{name}"]
            for base in _long_bases(getattr(module, name)):
                lines += ["    options:", "      inherited_members: false", ""]
                lines.append(f"All else is as [`{base}`]({LONG[base]}.md) says.")
    return "\n".join([*lines, ""])


def _long_bases(public: Any) -> list[str]:
    """Return the base of a class that has a page of its own, if any."""
    bases = inspect.getmro(public)[1:] if inspect.isclass(public) else ()
    return [base.__name__ for base in bases if base.__name__ in LONG]


def _index() -> str:
    lines = [
        "# API",
        "",
        "Every public name. What is not listed here may change in any release. `make docs` puts the",
        "docstrings into these pages. In Python, `help(gcp_adk_store.Store)` shows them.",
        "",
        "| page | package | names |",
        "|---|---|---|",
    ]
    for page, title, _, package, names in _sections():
        long = [name for name in names if name in LONG]
        lines += [f"| [`{name}`]({LONG[name]}.md) | `{package}` | `{name}` |" for name in long]
        others = _names([name for name in names if name not in LONG])
        lines.append(f"| [{title}]({page}.md) | `{package}` | {others} |")
    return "\n".join([*lines, ""])


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _summary(public: Any) -> str:
    if not (inspect.isclass(public) or inspect.isroutine(public)):
        return ""
    paragraph = (inspect.getdoc(public) or "").partition("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split()).replace("|", "\\|")


def _limits() -> str:
    lines = ["# Limits", "", _ABOUT_LIMITS]
    tree = ast.parse(inspect.getsource(settings))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for name in _LIMITS:
        node = classes[name]
        lines += [
            "",
            f"## {name}",
            "",
            f"{ast.get_docstring(node)}",
            "",
            "| field | default | meaning |",
            "|---|---|---|",
        ]
        defaults = {field.name: field for field in dataclasses.fields(getattr(settings, name))}
        lines += [
            f"| `{field}` | {_default(defaults[field])} | {meaning} |" for field, meaning in _documented(node)
        ]
    return "\n".join([*lines, ""])


def _options() -> str:
    tree = ast.parse(inspect.getsource(options))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    meanings = {name: text for node in classes for name, text in _documented(node)}
    made_by: list[Any] = [
        Store.connect,
        Store.local,
        Store.from_env,
        Store.from_settings,
        Store.from_clients,
        Store.from_backend,
        Store,
    ]
    ways = {way.__qualname__: options.options_of(way) for way in (*made_by, SessionService)}
    lines = ["# Options", "", _ABOUT_OPTIONS, ""]
    lines += [f"| option | {' | '.join(f'`{way}`' for way in ways)} |", "|---" * (1 + len(ways)) + "|"]
    for name in sorted(frozenset[str]().union(*ways.values())):
        link = f"[`{name}`](#{name})" if name in meanings else f"`{name}`"
        marks = ["x" if name in known else "" for known in ways.values()]
        lines.append(f"| {link} | {' | '.join(marks)} |")
    for name in sorted(meanings):
        lines += ["", f"## {name}", "", meanings[name]]
    return "\n".join([*lines, ""])


def _documented(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class with the texts below them."""
    for field, text in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield field.target.id, " ".join(str(text.value.value).replace("``", "`").split())


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return ""
    return f"{field.default:,}" if isinstance(field.default, int | float) else f"`{field.default!r}`"


def main() -> None:
    """Write all pages."""
    for path, text in pages().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text)


if __name__ == "__main__":
    main()
