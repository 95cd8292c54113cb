r"""Compare with ADK's own function on random templates, and find nothing but the differences listed here."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.artifacts import InMemoryArtifactService
from google.adk.sessions import InMemorySessionService
from google.adk.utils import instructions_utils
from google.genai import types
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcp_adk_store import (
    InvalidInputError,
    TemplateKeyError,
    TemplateSettings,
    inject_session_state,
    resolve_template,
)
from tests.support.hanging import ends
from tests.support.lengths import at_length
from tests.support.loop_work import counted_work

KEPT: Final = "a missing value behind several braces: ADK raises, here the placeholder stays unless strict"
NOTED: Final = (
    "a binary artifact: ADK shows a repr of its bytes or its own note, here it is another short note"
)
TYPED: Final = "a missing value: ADK raises KeyError, here it is its kind TemplateKeyError, which says more"
NO_SERVICE: Final = "no artifact service: ADK raises ValueError, here it is its kind InvalidInputError"

RANDOM = settings(max_examples=at_length(60, 400))

STATE: Final[dict[str, Any]] = {
    "a": "A",
    "b1": "{a} {{a}} {artifact.t.txt}",
    "none": None,
    "n": 0,
    "_l": [1, {"a": "b"}],
    "größe": "\\1 $a",
    "app:a": "app's",
    "user:a": "user's {",
    "temp:a": "temp's }",
    "x y": "no key of a placeholder",
    "other:a": "neither",
    "": "nor this",
}
BINARY: Final = {
    "p.png": ("image/png", b"\x89PNG\r\n"),
    "d.pdf": ("application/pdf", b"%PDF-1.7 \xff"),
    "z": ("application/octet-stream", b"\x00\x01"),
}
PARTS: Final = {
    "t.txt": types.Part(text="text {a}"),
    "user:u": types.Part(text="of the user"),
    "m.md": types.Part(inline_data=types.Blob(data="# é {{a}}".encode(), mime_type="text/markdown")),
    "j.json": types.Part(
        inline_data=types.Blob(data=b'{"a": 1}', mime_type="application/json; charset=utf-8")
    ),
    "s.svg": types.Part(inline_data=types.Blob(data=b"<svg/>\xff", mime_type="image/svg+xml")),
    **{
        name: types.Part(inline_data=types.Blob(data=data, mime_type=mime_type))
        for name, (mime_type, data) in BINARY.items()
    },
}

NAMES = st.one_of(
    st.sampled_from([*STATE, "gone", "user:gone", "app:", ":a", "App:a", "a:a:a", "1", "a-b", '"a": 1']),
    st.sampled_from(["artifact.gone", "artifact.", "artifact", *(f"artifact.{name}" for name in PARTS)]),
)
BLANK = st.sampled_from(["", "", "", " ", "\n", "\t", "\u00a0"])
PLACEHOLDERS = st.builds(
    lambda before, opening, blank, name, optional, close, after: (
        f"{before}{'{' * opening}{blank}{name}{optional}{blank}{'}' * close}{after}"
    ),
    st.sampled_from(["", "", "", "$", "\\", "\\\\", "{", "x"]),
    st.integers(0, 3),
    BLANK,
    NAMES,
    st.sampled_from(["", "?", "?", "??", " ?"]),
    st.integers(0, 3),
    st.sampled_from(["", "", "}", "?"]),
)
ODD = st.text(st.one_of(st.sampled_from("{}{}$\\?:. ab\n\"'"), st.characters()), max_size=12)
TEMPLATES = st.lists(st.one_of(PLACEHOLDERS, PLACEHOLDERS, ODD), max_size=5).map("".join)

Outcome = str | Exception


async def _context(*, with_artifacts: bool = True) -> ReadonlyContext:
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="shop", user_id="ann", session_id="s1", state=STATE)
    session.state["temp:a"] = STATE["temp:a"]
    service = InMemoryArtifactService()
    for name, part in PARTS.items():
        await service.save_artifact(
            app_name="shop", user_id="ann", session_id="s1", filename=name, artifact=part
        )
    return ReadonlyContext(
        InvocationContext(
            session_service=sessions,
            artifact_service=service if with_artifacts else None,
            invocation_id="i1",
            agent=LlmAgent(name="clerk"),
            session=session,
        )
    )


@pytest.fixture(scope="module")
def context() -> ReadonlyContext:
    """What ADK gives an instruction provider."""
    return asyncio.run(_context())


@pytest.fixture(scope="module")
def bare_context() -> ReadonlyContext:
    """The same in a run without an artifact service."""
    return asyncio.run(_context(with_artifacts=False))


def adk(template: str, context: ReadonlyContext) -> Outcome:
    """Return what ADK makes of *template*, or the error it raises."""
    try:
        return asyncio.run(instructions_utils.inject_session_state(template, context))
    except (KeyError, ValueError) as exc:
        return exc


def ours(template: str, context: ReadonlyContext, **settings: Any) -> Outcome:
    """Return what this library makes of *template*, or the error it raises."""
    try:
        return asyncio.run(inject_session_state(template, context, settings=TemplateSettings(**settings)))
    except (TemplateKeyError, InvalidInputError) as exc:
        return exc


def noted(text: str, context: ReadonlyContext) -> str:
    """Return ADK's *text* with its rendering of each binary artifact replaced by ours."""
    for name, (mime_type, data) in BINARY.items():
        theirs, here = adk(f"{{artifact.{name}}}", context), ours(f"{{artifact.{name}}}", context)
        assert isinstance(theirs, str)
        assert f"[artifact {name}: {mime_type}, {len(data)} bytes]" == here
        text = text.replace(theirs, here)
    return text


def named(error: Exception) -> str:
    """Return the key or file that a message is about."""
    text = str(error.args[0]) if error.args else ""
    return (
        text.partition(" in agent")[0]
        .partition(" not found in")[0]
        .partition(", at line")[0]
        .removesuffix(" not found")
    )


def differences(template: str, context: ReadonlyContext) -> set[str]:
    """Return which of the named differences there are; fail for any other."""
    theirs, here, strict = (
        adk(template, context),
        ours(template, context),
        ours(template, context, strict=True),
    )
    found: set[str] = set()
    if isinstance(theirs, str):
        # Whatever ADK fills is filled, strict or not, in the same way.
        assert here == strict
        assert noted(theirs, context) == here
        return {NOTED} if theirs != here else set()
    if isinstance(theirs, KeyError):
        assert isinstance(strict, TemplateKeyError)
        assert named(theirs) == named(strict)
        if str(here) != str(strict):
            # It went on behind a placeholder of several braces, which stays as it is written.
            key = "".join(named(theirs).split("`" if "`" in named(theirs) else "'")[1].split())
            assert any(f"{{{{{start}{key}" in "".join(template.split()) for start in ("", "artifact."))
            found.add(KEPT)
        if not isinstance(here, str):
            found.add(TYPED)
        return found
    assert "Artifact service is not initialized." == str(theirs)
    assert isinstance(strict, InvalidInputError)
    return {NO_SERVICE} | ({KEPT} if str(here) != str(strict) else set())


@RANDOM
@given(template=TEMPLATES)
def test_any_template_is_filled_as_by_adk_but_for_the_named_differences(
    context: ReadonlyContext, template: str
) -> None:
    """Whatever braces, names and odd characters are in it."""
    assert {KEPT, NOTED, TYPED} >= differences(template, context)


@RANDOM
@given(template=TEMPLATES)
@example(template="{gone}{artifact.t.txt}")
@example(template="{artifact.t.txt}{gone}")
def test_any_template_without_a_service_is_filled_as_by_adk_but_for_the_named_differences(
    bare_context: ReadonlyContext, template: str
) -> None:
    """State is filled, and an artifact that is asked for is an error in both, if no key is missing before."""
    theirs = adk(template, bare_context)
    strict = ours(template, bare_context, strict=True)

    if isinstance(theirs, str):
        assert theirs == strict == ours(template, bare_context)
    elif isinstance(theirs, KeyError):
        assert isinstance(strict, TemplateKeyError)
        assert named(theirs) == named(strict)
    else:
        assert isinstance(strict, InvalidInputError)
        assert str(theirs).rstrip(".") in str(strict)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{a} {{a}} {user:a?} {gone?} ${a} \\{a} {a b}", set()),
        ("{artifact.t.txt} {artifact.m.md} {artifact.j.json} {artifact.s.svg} {artifact.user:u}", set()),
        ("{{gone}}", {KEPT}),
        ("{{artifact.gone}}", {KEPT}),
        ("{{gone}} {gone}", {KEPT, TYPED}),
        ("{gone}", {TYPED}),
        ("{artifact.gone}", {TYPED}),
        ("{artifact.p.png}", {NOTED}),
        ("{artifact.d.pdf?}", {NOTED}),
        ("{{artifact.z}}", {NOTED}),
    ],
)
def test_each_difference_is_there(context: ReadonlyContext, template: str, expected: set[str]) -> None:
    """None is listed that does not exist, and what is none is the same."""
    assert expected == differences(template, context)


@pytest.mark.parametrize("template", ["{artifact.t.txt}", "{artifact.gone?}", "{{artifact.t.txt}}"])
def test_the_difference_of_a_missing_service_is_there(bare_context: ReadonlyContext, template: str) -> None:
    """It is still a ``ValueError``, which is what ADK's callers catch."""
    here = ours(template, bare_context)

    assert isinstance(here, InvalidInputError)
    assert isinstance(here, ValueError)
    assert ValueError is type(adk(template, bare_context))


def _state(template: str, context: ReadonlyContext) -> object:
    return ours(template, context)


def _extended(template: str, context: ReadonlyContext) -> object:
    return ours(template, context, extended=True)


def _prompt(template: str, _context: ReadonlyContext) -> object:
    return resolve_template(template, {"a": 1})


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("parse", "unit"),
    [
        *(
            pytest.param(parse, unit, id=f"{parse.__name__}-{unit}")
            for parse in (_state, _extended, _prompt)
            for unit in (
                *("{", "{a", "{ ", "{a.", "{a|", "{${\\{", "}{", "}", "{}", "{a}", "{a?}", "{{{", "}}{{"),
                *("{a-}", "${a}", "\\{", "{{a}}"),
            )
        ),
    ],
)
def test_a_hostile_template_is_taken_apart_in_linear_time(
    parse: Callable[[str, ReadonlyContext], object], unit: str, bare_context: ReadonlyContext
) -> None:
    """Eight times as long takes eight times as many calls; quadratic would be sixty-four times.

    What one call computes is in proportion, too: else the long template would not end. `make long` takes one
    that is ten times as long.
    """

    def template(length: int) -> str:
        return unit * (length // len(unit))

    def calls(length: int) -> int:
        with counted_work() as work:
            parse(template(length), bare_context)
        return work.calls

    assert calls(16_000) < 9 * calls(2_000) + 100
    with ends():
        parse(template(at_length(400_000, 4_000_000)), bare_context)
