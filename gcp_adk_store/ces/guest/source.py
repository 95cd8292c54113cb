"""Make modules of user code, find the function to call in them, and say why one failed."""

import ast
import builtins
import inspect
import linecache
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from .contract import Code, RunError, RunSettings
from .host_calls import unknown_tool
from .models import OfRuntime, sendable
from .namespace import entries, module_globals
from .scanning import Scan, import_gate, lines_of, scan

MODULE: Final = "ces_code"
# What people read of an error; a frame that the sandbox sends has far more room.
_MAX_MESSAGE_CHARS: Final = 8_192
_MAX_TRACEBACK_CHARS: Final = 32_768
_MAX_FRAMES: Final = 50


def describe(error: BaseException, filenames: Collection[str]) -> RunError:
    """Return what is known of *error*, with the frames of *filenames* alone, as long as it is bearable.

    Its class is asked for by ``type``: an exception of user code may say anything of itself, and so may a
    metaclass of its name.
    """
    kind: str = type.__dict__["__name__"].__get__(type(error))
    return {
        "type": sendable(kind),
        "message": _message(error),
        "traceback": _traceback(error, kind, filenames),
    }


def _message(error: BaseException) -> str:
    try:
        return _cut(_text(error), _MAX_MESSAGE_CHARS)
    except BaseException:  # noqa: BLE001  # the code's own __str__ may raise anything
        return "<the exception cannot be shown>"


def _text(error: BaseException) -> str:
    if issubclass(type(error), SystemExit):
        return f"the code called exit ({cast('SystemExit', error).code!r})"
    if issubclass(type(error), KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
        return error.args[0]
    return str(error)


def _traceback(error: BaseException, kind: str, filenames: Collection[str]) -> str:
    try:
        trace = traceback.TracebackException.from_exception(error, compact=True)
        _keep_only(trace, filenames)
        return _cut("".join(trace.format()), _MAX_TRACEBACK_CHARS)
    except BaseException:  # noqa: BLE001  # suggestions of names look into the code's own objects
        return sendable(f"{kind}\n")


def _keep_only(trace: traceback.TracebackException, filenames: Collection[str]) -> None:
    """Leave frames of *filenames* alone in *trace*, and in all that led to it, which may be long."""
    seen: set[int] = set()
    waiting = [trace]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            frames = [frame for frame in each.stack if frame.filename in filenames]
            each.stack = traceback.StackSummary.from_list(frames[-_MAX_FRAMES:])
            before = (each.__cause__, each.__context__, *(each.exceptions or ()))
            waiting += [other for other in before if other is not None]


def _cut(text: str, limit: int) -> str:
    """Return *text* with its beginning and its end, which of a traceback says what was raised."""
    shown = sendable(str.__str__(text))
    half = limit // 2
    if len(shown) <= limit:
        return shown
    return f"{shown[:half]} [cut, {len(shown):,} characters]\n{shown[-half:]}"


class EntryPointError(OfRuntime, Exception):
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
    doubts: dict[str, None]
    """What Python warns of when it compiles the code, and names of typing that are not imported."""

    @classmethod
    def of(cls, code: Code, settings: RunSettings) -> "Source":
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
        scanned, doubts = scan(tree), [(doubt.lineno, str(doubt.message)) for doubt in caught]
        if not settings.strict_typing:
            refused = "is not imported from typing: the platform may refuse it"
            doubts += [(line, f"{name} {refused}") for name, line in scanned.missing_imports]
        return cls(
            filename=code["filename"],
            name=code.get("name"),
            lines=lines,
            compiled=compiled,
            scanned=scanned,
            doubts=dict.fromkeys(f"{code['filename']}:{line}: {says}" for line, says in doubts),
        )

    def unknown_tool(self, names: Collection[str]) -> RunError | None:
        """Return what is wrong with the first tool that does not exist, if the code names one."""
        for named in self.scanned.tools:
            if named.attr not in names and not named.attr.startswith("_"):
                kind, message = "UnknownToolError", unknown_tool(ast.unparse(named), names)
                where = f'  File "{self.filename}", line {named.lineno}, in <module>\n'
                shown = f"{where}    {self.lines[named.lineno - 1].strip()}\n{kind}: {message}\n"
                text = f"Traceback (most recent call last):\n{shown}"
                return {"type": kind, "message": sendable(message), "traceback": sendable(text)}
        return None

    @contextmanager
    def module(self, names: dict[str, Any], settings: RunSettings) -> Iterator[dict[str, Any]]:
        """Run the code, with the runtime's *names*, as a module that its name finds; yield its namespace."""
        made = types.ModuleType(MODULE)
        namespace = vars(made)
        namespace.update(module_globals(names, settings), __file__=self.filename)
        if settings.importable is not None:
            # Pickle looks for the code's own classes in its module, by the gate too.
            gate = import_gate((*settings.importable, MODULE))
            namespace["__builtins__"] = {**vars(builtins), "__import__": gate}
        with entries(sys.modules, {MODULE: made}):
            exec(self.compiled, namespace)  # noqa: S102  # what this package is for
            yield namespace

    def entry(
        self, namespace: dict[str, Any], wanted: str | None, *, warn: Callable[[str], None]
    ) -> Callable[..., Any]:
        """Return the function to call: that of the code, or the one *wanted*; of a tool also the first.

        Raises:
            EntryPointError: the module, whose *namespace* is that after it ran, does not define the function,
                or as an ``async def``.
        """
        name = self.name or wanted
        defined = [each.name for each in self.scanned.functions]
        found: Callable[..., Any] | None = namespace.get(name) if name else None
        # The runtime's own names are in the namespace too; what the code binds instead has another origin.
        if callable(found) and (name in defined or getattr(found, "__module__", MODULE) == MODULE):
            function = found
        elif wanted is None and defined:
            if name:
                says = f"the function {name!r} is missing; {defined[0]!r}, the first, is called"
                warn(f"{self.filename}: {says}")
            function = cast("Callable[..., Any]", namespace[defined[0]])
        else:
            says = f"the function {name or ''!r} is missing; the file defines {defined}"
            raise EntryPointError(f"{self.filename}: {says}")
        if inspect.iscoroutinefunction(function):
            raise EntryPointError(f"{getattr(function, '__name__', function)!r} is an async def")
        return function


@contextmanager
def shown_in_tracebacks(sources: Sequence[Source]) -> Iterator[None]:
    """Let tracebacks show lines of *sources*, whose files need not exist."""
    lines = {
        source.filename: (sum(map(len, source.lines)), None, source.lines, source.filename)
        for source in sources
    }
    with entries(linecache.cache, lines):
        yield
