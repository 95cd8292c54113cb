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
    "CES108": Rule(severity="warning", looks_for="the tool's name is not snake_case"),
    "CES109": Rule(severity="warning", looks_for="a callback returns another type than its kind may return"),
    "CES201": Rule(
        severity="error", looks_for="a parameter of a tool's file has no annotation, of helpers too"
    ),
    "CES202": Rule(severity="error", looks_for="a tool's parameter is `None` by default"),
    "CES203": Rule(severity="error", looks_for="a tool takes `*args` or `**kwargs`"),
    "CES204": Rule(severity="warning", looks_for="a tool has a parameter `context`, which is a global"),
    "CES205": Rule(severity="warning", looks_for="a parameter of a callback's file has no annotation"),
    "CES206": Rule(
        severity="warning", looks_for="a tool's parameter is `None` by default, as its annotation allows"
    ),
    "CES301": Rule(severity="error", looks_for="the platform has no such module"),
    "CES302": Rule(severity="warning", looks_for="a name of typing is not imported"),
    "CES303": Rule(severity="error", looks_for="nothing defines the name"),
    "CES304": Rule(severity="warning", looks_for="`logger` is used without an import"),
    "CES305": Rule(severity="warning", looks_for="a documented class was not among the globals of a tool"),
    "CES306": Rule(severity="warning", looks_for="the platform does not set the environment variable"),
    "CES401": Rule(severity="error", looks_for="the code names an unknown tool"),
    "CES402": Rule(severity="warning", looks_for="`tools.X` is called with anything but one dict"),
    "CES403": Rule(severity="error", looks_for="`ces_requests` does not know the keyword"),
    "CES404": Rule(severity="warning", looks_for="an `ExternalResponse` has no such attribute"),
    "CES405": Rule(severity="warning", looks_for="the code does not call what `async_tools` returned"),
    "CES406": Rule(severity="error", looks_for="`ces_requests` has no such method"),
    "CES407": Rule(severity="error", looks_for="`data=` of `ces_requests` is bytes"),
    "CES408": Rule(severity="warning", looks_for="the address of a request is not public"),
    "CES409": Rule(severity="warning", looks_for="a class of the runtime has no such attribute or keyword"),
    "CES410": Rule(severity="warning", looks_for="a synchronous tool waits 5 seconds or more"),
    "CES501": Rule(severity="warning", looks_for="a change inside a variable"),
    "CES502": Rule(severity="warning", looks_for="an `after_tool_callback` ignores the key `result`"),
    "CES601": Rule(severity="warning", looks_for="the session cannot give what a document marks as its own"),
    "CES602": Rule(severity="error", looks_for="the app names an agent or a guardrail that it does not have"),
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
