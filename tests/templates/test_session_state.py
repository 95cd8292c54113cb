r"""Show how instructions are filled from a session's state and artifacts."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    Store,
    StoreError,
    TemplateKeyError,
    TemplateSettings,
    inject_session_state,
    resolve_template,
    session_instruction,
)
from gcp_adk_store.templates.lint import lint_template

EXTENDED = TemplateSettings(extended=True)
ORDER = {"items": [{"name": "tea", "price": 3}], "total": None, "tags": ("x", "y")}


def session(**state: Any) -> Session:
    """Return a session as it is read from storage; ``user__name`` is ``user:name``."""
    return Session(
        id="s1",
        app_name="shop",
        user_id="ann",
        state={key.replace("__", ":"): value for key, value in state.items()},
    )


async def save(service: InMemoryArtifactService, name: str, part: types.Part | str) -> None:
    """Save an artifact of the session, or a version of it."""
    artifact = types.Part(text=part) if isinstance(part, str) else part
    await service.save_artifact(
        app_name="shop", user_id="ann", session_id="s1", filename=name, artifact=artifact
    )


async def artifacts(**parts: types.Part | str) -> InMemoryArtifactService:
    """Return a service with artifacts of the session; ``notes_txt`` is ``notes.txt``."""
    service = InMemoryArtifactService()
    for name, part in parts.items():
        await save(service, name.replace("_", "."), part)
    return service


def invocation(session: Session, service: BaseArtifactService | None = None) -> InvocationContext:
    """Return what ADK has while it runs an agent."""
    return InvocationContext(
        session_service=InMemorySessionService(),
        artifact_service=service,
        invocation_id="i1",
        agent=LlmAgent(name="clerk"),
        session=session,
    )


def blob(data: bytes, mime_type: str | None) -> types.Part:
    """Return a part of bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type))


async def test_a_value_that_holds_a_placeholder_is_not_filled_again() -> None:
    """State that users write cannot reach other state; without placeholders the very object comes back."""
    state = session(a="{b} {artifact.x}", b="secret")

    assert "{b} {artifact.x} secret" == await inject_session_state("{a} {b}", state)
    for template in ("", "no placeholders", "a } b", "{not one}"):
        assert template is await inject_session_state(template, session())


@pytest.mark.parametrize(
    ("template", "missing", "way_out"),
    [
        (
            "Hello,\n you are {user:nam}",
            "Context variable not found: `user:nam`, at line 2, column 10",
            "there are user:name, user:names; set it, or make it optional: {user:nam?}",
        ),
        (
            "{a?}{topic}{artifact.c}",
            "Context variable not found: `topic`, at line 1, column 5",
            "set it, or make it optional: {topic?}",
        ),
        (
            "a\n{artifact.b.txt}",
            "Artifact 'b.txt' not found, at line 2, column 1",
            "save it, or make it optional: {artifact.b.txt?}",
        ),
        (
            "{artifact.rule.txt}",
            "Artifact 'rule.txt' not found, at line 1, column 1",
            "there are rules.txt; save it, or make it optional: {artifact.rule.txt?}",
        ),
    ],
)
async def test_the_first_missing_name_is_an_error_with_its_place_and_neighbours(
    template: str, missing: str, way_out: str
) -> None:
    """It is an error of this library and a ``KeyError``, whose message is no repr; it shows no values."""
    state = session(user__name="Ann", user__names=[], zzz="secret")

    with pytest.raises(TemplateKeyError) as raised:
        await inject_session_state(template, state, artifact_service=await artifacts(rules_txt="be kind"))

    assert f"{missing} of the template; {way_out}" == str(raised.value)
    assert isinstance(raised.value, KeyError)
    assert isinstance(raised.value, StoreError)


@pytest.mark.parametrize("name", ["x", "user:x", "", "user:", "a\nb"])
async def test_an_artifact_that_cannot_be_there_is_missing(adk_store_local: Store, name: str) -> None:
    """Also one of a session whose id no artifact can have, which lists none."""
    stored = Session(id="c:1", app_name="shop", user_id="ann")
    fill = partial(inject_session_state, artifact_service=adk_store_local.artifacts)

    assert "<>" == await fill(f"<{{artifact.{name}?}}>", stored)
    with pytest.raises(TemplateKeyError, match=r"not found, at line 1, column 2 of the template; save it"):
        await fill(f"<{{artifact.{name}}}>", stored)


async def test_a_value_without_a_text_is_a_clear_error() -> None:
    """Python refuses to write so long a number."""
    with pytest.raises(InvalidInputError, match="the value of 'app:key' has no text: int"):
        await inject_session_state("{app:key}", session(app__key=10**5000))
    with pytest.raises(InvalidInputError, match="the value of 'key' has no text: int"):
        resolve_template("{key}", {"key": 10**5000})


async def test_what_is_no_template_no_settings_or_no_context_is_a_clear_error() -> None:
    """It says what it must be, for each function that takes one."""
    calls: tuple[tuple[Any, Any], ...] = (
        (partial(inject_session_state, context=session()), None),
        (session_instruction, None),
        (lint_template, 5),
        (partial(resolve_template, inputs={}), 5),
    )
    for call, wrong in calls:
        with pytest.raises(InvalidInputError, match=f"template must be a text, not {type(wrong).__name__}"):
            await call(wrong)
    for call in (session_instruction, partial(inject_session_state, context=session())):
        with pytest.raises(InvalidInputError, match="settings must be a TemplateSettings, not NoneType"):
            await call("{a}", settings=None)  # type: ignore[misc,arg-type]
    for context in (None, {"key": 1}):  # such as what get_session returns for a session that does not exist
        with pytest.raises(InvalidInputError, match="context must be ADK's context or a session"):
            await inject_session_state("{key}", context)  # type: ignore[arg-type]


async def test_no_artifact_is_without_a_name() -> None:
    """A service that refuses such a name is not asked for it."""
    async with Store.local(":memory:") as store:
        asking = partial(inject_session_state, context=session(), artifact_service=store.artifacts)
        assert "<>" == await asking("<{artifact.?}>")
        with pytest.raises(TemplateKeyError, match="Artifact '' not found, at line 1, column 2"):
            await asking("<{artifact.}>")


async def test_an_artifact_without_a_service_is_a_clear_error() -> None:
    """An optional one too: whether it is missing is unknown. What is never filled is never looked for."""
    with pytest.raises(InvalidInputError, match="Artifact service is not initialized"):
        await inject_session_state("{artifact.a?}", session())
    literal = TemplateSettings(double_braces="literal")
    assert "{{artifact.a}}" == await inject_session_state("{{artifact.a}}", session(), settings=literal)


async def test_every_kind_of_context_gives_the_same() -> None:
    """ADK's read-only one, that of the run, and a stored session; a service that is given goes first."""
    service = await artifacts(a_txt="A")
    stored = session(key="K")
    running = invocation(stored, service)
    template = "{key} {artifact.a.txt}"

    assert ["K A"] * 3 == [
        await inject_session_state(template, ReadonlyContext(running)),
        await inject_session_state(template, running),
        await inject_session_state(template, stored, artifact_service=service),
    ]
    given = await artifacts(a_txt="given")
    assert "K given" == await inject_session_state(template, running, artifact_service=given)


class Gathering(InMemoryArtifactService):
    """Artifacts that are all given at once, when as many are asked for as there should be."""

    together: int = 1

    def __init__(self, together: int) -> None:
        super().__init__()
        self.together = together
        self._waiting = asyncio.Barrier(together)
        self._loads: Counter[str] = Counter()

    @property
    def loads(self) -> dict[str, int]:
        """How often each was asked for."""
        return dict(self._loads)

    async def load_artifact(self, *, filename: str, **which: Any) -> types.Part | None:
        """Wait for the others."""
        self._loads[filename] += 1
        async with asyncio.timeout(60):
            await self._waiting.wait()
        return await super().load_artifact(filename=filename, **which)


async def test_artifacts_are_loaded_side_by_side_each_once() -> None:
    """Three of them, one of which is used three times; of each the latest version."""
    service = Gathering(3)
    for name in ("a", "b", "user:c"):
        await save(service, name, "old")
        await save(service, name, name[-1:])

    assert "abaca" == await inject_session_state(
        "{artifact.a}{artifact.b}{{artifact.a?}}{artifact.user:c}{artifact.a}",
        session(),
        artifact_service=service,
    )
    assert {"a": 1, "b": 1, "user:c": 1} == service.loads


LINK = types.Part(file_data=types.FileData(file_uri="gs://bucket/a.pdf", mime_type="application/pdf"))


@pytest.mark.parametrize(
    ("name", "part", "shown"),
    [
        ("a", blob(b"\x89PNG", "image/png"), "[artifact a: image/png, 4 bytes]"),
        ("a", blob(b"\x89PNG", "application/pdf"), "[artifact a: application/pdf, 4 bytes]"),
        ("a", blob(b"\x89PNG", "Application/Zip; x=y"), "[artifact a: application/zip, 4 bytes]"),
        ("a", blob(b"\x89PNG", None), "[artifact a: application/octet-stream, 4 bytes]"),
        ("a.pdf", LINK, "[artifact a.pdf: application/pdf at gs://bucket/a.pdf]"),
        *(
            (f"a.{text}", blob(b"text", "application/octet-stream"), "text")
            for text in ("txt", "csv", "json", "xml")
        ),
    ],
)
async def test_a_binary_artifact_is_shown_as_a_short_note(name: str, part: types.Part, shown: str) -> None:
    """What it is and how large, or where, never its bytes; text of no stated type is known by its name."""
    service = InMemoryArtifactService()
    await save(service, name, part)

    assert shown == await inject_session_state(f"{{artifact.{name}}}", session(), artifact_service=service)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (TemplateSettings(), "K K {{gone}} {{{gone}}} "),
        (TemplateSettings(double_braces="literal"), "K {{key}} {{gone}} {{{gone}}} {{gone?}}"),
        (TemplateSettings(missing="keep"), "K K {{gone}} {{{gone}}} "),
        (TemplateSettings(missing="empty"), "K K {{gone}} {{{gone}}} "),
        (TemplateSettings(missing="keep", strict=True), "K K {{gone}} {{{gone}}} "),
        (TemplateSettings(missing="empty", strict=True), "K K   "),
    ],
)
async def test_several_braces_mean_what_the_settings_say(settings: TemplateSettings, expected: str) -> None:
    """By default the same as one pair where the key exists, and themselves where it does not."""
    assert expected == await inject_session_state(
        "{key} {{key}} {{gone}} {{{gone}}} {{gone?}}", session(key="K"), settings=settings
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (TemplateSettings(missing="keep"), "< { gone } {artifact.gone}  >"),
        (TemplateSettings(missing="empty"), "<    >"),
    ],
)
async def test_a_missing_value_is_what_the_settings_say(settings: TemplateSettings, expected: str) -> None:
    """Itself as it is written, or nothing; an optional one is empty in any case."""
    assert expected == await inject_session_state(
        "< { gone } {artifact.gone} {gone?} >",
        session(),
        artifact_service=await artifacts(),
        settings=settings,
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{order.items.0.name}", "tea"),
        ("{order.items.0.price}", "3"),
        ("{order.tags.1}", "y"),
        ("{order.total}", ""),
        ("{user:order.items.0.name}", "mate"),
        ("{order.gone?}", ""),
        ("{order.items.1.name?}", ""),
        ("{order.items.0.name.0?}", ""),
        ("{order.items.-1?}", ""),
        ("{order.__class__?}", ""),
        ("{tone|friendly}", "friendly"),
        ("{tone|}", ""),
        ("{tone|what?}", "what?"),
        ("{order.tone|none at all}", "none at all"),
        ("{{tone|friendly}}", "friendly"),
        ("{name|friendly}", "Ann"),
        ("{artifact.a.txt}", "A"),
        ("{ tone | friendly }", "friendly"),
        ("{artifact.a.txt|none?}", ""),
        *((stays, stays) for stays in ("{.a}", "{name.}", "{name..b}", "{1.a}", "{|a}", "{other:name.b}")),
    ],
)
async def test_paths_and_defaults_are_read_where_the_settings_say_so(template: str, expected: str) -> None:
    """A path leads through maps and lists, never into attributes or characters."""
    state = session(order=ORDER, user__order={"items": [{"name": "mate"}]}, name="Ann")

    assert expected == await inject_session_state(
        template, state, artifact_service=await artifacts(a_txt="A"), settings=EXTENDED
    )


async def test_a_path_that_leads_nowhere_is_an_error_that_names_all_of_it() -> None:
    """And the nearest key there is; no index and no key of state is a reason for another kind of error."""
    state = session(order=ORDER)
    state.state |= {1: "a key that is no text"}  # type: ignore[dict-item]
    with pytest.raises(
        TemplateKeyError, match=r"`order\.items\.9\.name`, at line 1, column 1 .* there are order"
    ):
        await inject_session_state("{order.items.9.name}", state, settings=EXTENDED)
    long = f"{{order.items.{'9' * 5_000}?}}"
    assert "" == await inject_session_state(long, session(order=ORDER), settings=EXTENDED)


@pytest.mark.parametrize(("limit", "expected"), [(None, "abcdef"), (7, "abcdef"), (6, "abcdef"), (3, "abc…")])
async def test_a_long_value_is_cut(limit: int | None, expected: str) -> None:
    """State and artifacts alike, each value by itself; the template's own text stays."""
    assert f"a long template {expected} {expected}" == await inject_session_state(
        "a long template {key} {artifact.a}",
        session(key="abcdef"),
        artifact_service=await artifacts(a="abcdef"),
        settings=TemplateSettings(max_value_chars=limit),
    )


@pytest.mark.parametrize(
    "template",
    ["{key}", "{{key}}", "{app:key}", "{user:key}", "{artifact.a.txt}", "{artifact.a[1].txt}"],
)
async def test_only_allowed_keys_are_filled(template: str) -> None:
    """By their whole names as they are written, or by their start and a ``*``."""
    allowing = TemplateSettings(
        allowed_keys=["key", "app:*", "user:key", "artifact.a.*", "artifact.a[1].txt"]
    )

    assert "V" == await inject_session_state(
        template,
        session(key="V", app__key="V", user__key="V"),
        artifact_service=await artifacts(**{"a_txt": "V", "a[1].txt": "V"}),
        settings=allowing,
    )


@pytest.mark.parametrize(
    "template", ["{hidden}", "{hidden?}", "{{hidden}}", "{temp:key}", "{app:key}", "{artifact.key}"]
)
async def test_a_key_that_is_not_allowed_is_an_error(template: str) -> None:
    """Whether or not there is one, optional or not; its value is not shown."""
    with pytest.raises(
        TemplateKeyError, match="line 1, column 1 of the template, is not among allowed_keys"
    ) as raised:
        await inject_session_state(
            template,
            session(hidden="hush", temp__key="hush", app__key="hush"),
            artifact_service=await artifacts(key="hush"),
            settings=TemplateSettings(allowed_keys=["key"]),
        )

    assert "hush" not in str(raised.value)


async def test_an_artifact_that_is_not_allowed_is_not_loaded() -> None:
    """Nor is any other: the error comes first."""
    service = Gathering(1)
    await save(service, "a", "A")
    allowing = TemplateSettings(allowed_keys=["artifact.a"])

    with pytest.raises(TemplateKeyError, match=r"`artifact\.b`"):
        await inject_session_state(
            "{artifact.a}{artifact.b}", session(), artifact_service=service, settings=allowing
        )
    assert {} == service.loads


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"double_braces": "keep"}, "double_braces is 'keep'"),
        ({"missing": "ignore"}, "missing is 'ignore'"),
        ({"max_value_chars": 0}, "max_value_chars is 0"),
        ({"max_value_chars": "9"}, "max_value_chars must be a whole number or None, not str"),
        ({"allowed_keys": "key"}, "allowed_keys is a text"),
        ({"allowed_keys": [1]}, "allowed_keys is a list of other things"),
    ],
)
def test_a_setting_that_there_is_not_is_refused(wrong: dict[str, Any], says: str) -> None:
    """When the settings are made, not when an agent runs."""
    with pytest.raises(InvalidInputError, match=says):
        TemplateSettings(**wrong)


async def test_a_provider_fills_the_instruction_anew_for_every_call() -> None:
    """ADK asks it and fills nothing itself. It keeps to its settings, whatever the state holds."""
    agent = LlmAgent(name="clerk", instruction=session_instruction("{greeting}, {{literal_braces}}"))
    running = invocation(session(greeting="Hello {topic}"))
    first = await agent.canonical_instruction(ReadonlyContext(running))
    running.session.state["greeting"] = "Bye"
    second = await agent.canonical_instruction(ReadonlyContext(running))

    assert [("Hello {topic}, {{literal_braces}}", True), ("Bye, {{literal_braces}}", True)] == [first, second]

    provide = session_instruction(
        "This is a {adjective} instruction with {{literal_braces}} and {artifact.a}.",
        artifact_service=await artifacts(a="A"),
        settings=TemplateSettings(double_braces="literal"),
    )
    state = session(adjective="dynamic", literal_braces="none")

    assert "This is a dynamic instruction with {{literal_braces}} and A." == await provide(
        ReadonlyContext(invocation(state))
    )
