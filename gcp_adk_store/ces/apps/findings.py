"""Say what is wrong with the files of an agent app, where, and how to mend it."""

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that is looked for."""

    severity: Severity
    """``error`` where the platform refuses the code or the code fails, ``warning`` where it may."""
    looks_for: str


RULES: Final[dict[str, Rule]] = {
    "CES001": Rule(severity="error", looks_for="a file of the app cannot be read, or is missing"),
    "CES002": Rule(severity="error", looks_for="the code is not valid Python 3.12"),
    "CES101": Rule(severity="error", looks_for="the function is missing"),
    "CES102": Rule(severity="error", looks_for="the first function has another name than the tool"),
    "CES103": Rule(severity="error", looks_for="a function of this name is in another tool too"),
    "CES104": Rule(severity="warning", looks_for="the tool's function has no docstring"),
    "CES105": Rule(severity="error", looks_for="the function is an `async def`"),
    "CES106": Rule(severity="error", looks_for="a callback's parameters are not those it is called with"),
    "CES107": Rule(severity="error", looks_for="`executionType` is neither `SYNCHRONOUS` nor `ASYNCHRONOUS`"),
    "CES201": Rule(
        severity="error", looks_for="a parameter of a tool's file has no annotation, of helpers too"
    ),
    "CES202": Rule(severity="error", looks_for="a tool's parameter is `None` by default"),
    "CES203": Rule(severity="error", looks_for="a tool takes `*args` or `**kwargs`"),
    "CES204": Rule(severity="warning", looks_for="a tool has a parameter `context`, which is a global"),
    "CES205": Rule(severity="warning", looks_for="a parameter of a callback's file has no annotation"),
    "CES301": Rule(severity="error", looks_for="the platform has no such module"),
    "CES302": Rule(severity="warning", looks_for="a name of typing is not imported"),
    "CES303": Rule(severity="error", looks_for="nothing defines the name"),
    "CES401": Rule(severity="error", looks_for="the code names an unknown tool"),
    "CES402": Rule(severity="warning", looks_for="`tools.X` is called with anything but one dict"),
    "CES403": Rule(severity="error", looks_for="`ces_requests` does not know the keyword"),
}
"""By code; a code keeps its meaning for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    path: str
    """Of the file, from the app's folder."""
    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    code: str
    severity: Severity
    says: str
    fix: str


def finding(code: str, says: str, fix: str, *, path: str, line: int = 1, column: int = 1) -> Finding:
    """Return what was found by the rule of *code*."""
    return Finding(
        path=path, line=line, column=column, code=code, severity=RULES[code].severity, says=says, fix=fix
    )
