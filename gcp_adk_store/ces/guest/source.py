"""Make modules of user code, and find the function to call in them."""

import ast
import asyncio
import builtins
import inspect
import linecache
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from .contract import Code, RunError, RunSettings
from .failures import told_of_line
from .imports import import_gate
from .namespace import entries, importable, module_globals
from .scanning import Scan, lines_of, scan
from .tools import unknown_tool

MODULE: Final = "ces_code"


class EntryPointError(Exception):
    """The code does not define the function that is to be called, or as something that cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file of user code, compiled and not yet run."""

    filename: str
    name: str | None
    """The function that is wanted."""
    lines: list[str]
    """Each with its end."""
    compiled: types.CodeType
    scanned: Scan
    doubts: tuple[str, ...]
    """What Python warns of when it compiles the code."""

    @classmethod
    def of(cls, code: Code) -> "Source":
        """Return *code*, compiled.

        Raises:
            SyntaxError, ValueError: the source is not valid Python.
        """
        lines = lines_of(code["source"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                tree = ast.parse(code["source"], code["filename"])
                compiled = compile(tree, code["filename"], "exec", dont_inherit=True)
            except SyntaxError as exc:
                if exc.text is None and exc.lineno:  # the compiler looks for the line in a file
                    exc.text = "".join(lines[exc.lineno - 1 : exc.lineno])
                raise
        return cls(
            filename=code["filename"],
            name=code.get("name"),
            lines=lines,
            compiled=compiled,
            scanned=scan(tree),
            doubts=tuple(f"{code['filename']}:{doubt.lineno}: {doubt.message}" for doubt in caught),
        )

    def unknown_tool(self, names: Collection[str]) -> RunError | None:
        """Return what is wrong with the first tool that does not exist, if the code names one."""
        for found in self.scanned.tools:
            if found.name not in names and not found.name.startswith("_"):
                return told_of_line(
                    "UnknownToolError",
                    unknown_tool(found.owner, found.name, names),
                    filename=self.filename,
                    line=found.line,
                    shown=self.lines[found.line - 1],
                )
        return None

    def missing_imports(self) -> Iterator[str]:
        """Yield what is to be said of names of typing that are not imported."""
        for name, line in self.scanned.missing_imports:
            yield f"{self.filename}:{line}: {name} is not imported from typing: the platform may refuse it"

    @contextmanager
    def module(self, names: dict[str, Any], settings: RunSettings) -> Iterator[dict[str, Any]]:
        """Run the code as a module that can be found by its name; yield its namespace.

        Args:
            names: The runtime's names.
            settings: What it can import, and whether names of typing are there.
        """
        made = types.ModuleType(MODULE)
        namespace = vars(made)
        namespace.update(module_globals(names, settings), __file__=self.filename)
        if settings.importable is not None:
            # Pickle looks for the code's own classes in its module, by the gate too.
            gate = import_gate((*settings.importable, MODULE))
            namespace["__builtins__"] = {**vars(builtins), "__import__": gate}
        with importable({MODULE: made}):
            exec(self.compiled, namespace)  # noqa: S102  # what this package is for
            yield namespace

    def entry(
        self, namespace: dict[str, Any], wanted: str | None, *, or_first: bool, warn: Callable[[str], None]
    ) -> Callable[..., Any]:
        """Return the function to call.

        Args:
            namespace: Of the module, after it ran.
            wanted: Name of the function, unless the code came with another.
            or_first: Whether the first function will do.
            warn: Receives the warning if the first function is taken.

        Raises:
            EntryPointError: the module does not define the function.
        """
        name = self.name or wanted
        defined = self.scanned.functions
        found: Callable[..., Any] | None = namespace.get(name) if name else None
        # The runtime's own names are in the namespace too; what the code binds instead has another origin.
        if callable(found) and (name in defined or getattr(found, "__module__", MODULE) == MODULE):
            return found
        if or_first and defined:
            if name:
                warn(
                    f"{self.filename}: the function {name!r} is missing; {defined[0]!r}, the first, is called"
                )
            return cast("Callable[..., Any]", namespace[defined[0]])
        raise EntryPointError(
            f"{self.filename}: the function {name or ''!r} is missing; the file defines {list(defined)}"
        )


@contextmanager
def shown_in_tracebacks(sources: Sequence[Source]) -> Iterator[None]:
    """Let tracebacks show lines of *sources*, whose files need not exist."""
    lines = {
        source.filename: (sum(map(len, source.lines)), None, source.lines, source.filename)
        for source in sources
    }
    with entries(linecache.cache, lines):
        yield


def finished(function: Callable[..., Any], returned: Any, *, run_coroutines: bool) -> Any:
    """Return what *function* returned, which is a result unless it is an ``async def``.

    Raises:
        EntryPointError: it is one, and that is not allowed.
    """
    if not inspect.iscoroutine(returned):
        return returned
    if run_coroutines:
        return asyncio.run(returned)
    returned.close()
    raise EntryPointError(
        f"{getattr(function, '__name__', function)!r} is an async def (allow_async_functions)"
    )
